"""Measures `snm serve` under load: requests per second and latency at 1, 8 and 64 clients.

    python -m benchmarks.prediction.serve RUN [--index DIR | --export DIR --workers 2] [--out FILE]

The server runs in a separate process on the same machine, so that server and clients share the
cores. Each client sends its next point after it has received the last answer. The first round, as
long as the others, is not reported: the server compiles programs meanwhile. Refused requests are
counted separately. Every answer is compared with the prediction of the model; those of an index can
differ, and are counted as `wrong`.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import snm
from benchmarks.command_line import make_parser, write_results
from benchmarks.prediction.http_client import bodies_of, port_of, request
from snm.machine.versions import machine_record
from snm.runs.folder import RunFolder

_HOST = "127.0.0.1"
_CLIENTS = (1, 8, 64)
_POINTS = 512


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--index", type=Path)
    parser.add_argument("--export", type=Path, help="serve this export of the run as npy")
    parser.add_argument("--workers", type=int, default=1, help="processes that serve it")
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    rows = []
    features = snm.load_data(RunFolder(options.run).read_origin().data).test.features
    features = features[:_POINTS]
    labels, _ = snm.load(options.run).predict(features, k=5)
    bodies = bodies_of(features)
    served = options.export or options.run
    command = [sys.executable, "-m", "snm", "serve", str(served), "--port", "0"]
    command += ["--index", str(options.index)] if options.index else []
    command += ["--workers", str(options.workers)] if options.workers > 1 else []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            port = port_of(server)
            print("clients  requests/s    p50 ms    p99 ms  refused   wrong")
            asyncio.run(_load(port, bodies, labels, _CLIENTS[-1], options.seconds))
            for clients in _CLIENTS:
                found = asyncio.run(_load(port, bodies, labels, clients, options.seconds))
                times, refused, wrong = found
                p50, p99 = np.quantile(times, [0.5, 0.99]) * 1000
                rate = len(times) / options.seconds
                print(f"{clients:7} {rate:11.0f} {p50:9.1f} {p99:9.1f} {refused:8} {wrong:7}")
                row = {"clients": clients, "requests/s": rate, "p50, ms": p50, "p99, ms": p99}
                rows.append(row | {"refused": refused, "wrong": wrong, "load": os.getloadavg()[0]})
        finally:
            server.terminate()
    about = {"seconds": options.seconds, "workers": options.workers}
    write_results(options.out, {**machine_record(), **about, "rows": rows})


async def _load(
    port: int, bodies: list[bytes], labels: np.ndarray, clients: int, seconds: float
) -> tuple[list[float], int, int]:
    times: list[float] = []
    counts = {"refused": 0, "wrong": 0}
    end = time.perf_counter() + seconds

    async def client(number: int) -> None:
        reader, writer = await asyncio.open_connection(_HOST, port)
        point = number * 7
        while (begun := time.perf_counter()) < end:
            point = (point + 1) % len(bodies)
            status, content = await request(
                reader, writer, b"POST /predict", _HOST.encode(), bodies[point],
                b"Content-Type: application/json\r\n",
            )  # fmt: skip
            if status != 200:
                counts["refused"] += 1
                continue
            times.append(time.perf_counter() - begun)
            if set(json.loads(content)["answers"][0]["labels"]) != set(labels[point].tolist()):
                counts["wrong"] += 1
        writer.close()
        await writer.wait_closed()

    await asyncio.gather(*(client(number) for number in range(clients)))
    return times, counts["refused"], counts["wrong"]


if __name__ == "__main__":
    main()

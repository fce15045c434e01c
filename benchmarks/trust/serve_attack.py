"""Sends `snm serve` many requests, half of them invalid, from 64 clients, and stops it under load.

    python -m benchmarks.trust.serve_attack --requests 100000
        --out benchmarks/results/serve-attack.json

The server of a small model runs in a separate process. Every valid request must get the answer for
its own points, every invalid one its status and one line. Meanwhile 16 slow clients send half a
request and wait; the server must drop them. The memory of the server is read after each tenth of
the requests. At the end it gets SIGTERM while all clients send requests: an answer that has begun
must arrive completely, and the exit status must be 0.
"""

from __future__ import annotations

import asyncio
import collections
import json
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import snm
from benchmarks.command_line import make_parser, print_and_write
from benchmarks.prediction.http_client import bodies_of, port_of, request

CLIENTS, SLOW, PATIENCE, MAX_BYTES = 64, 16, 5, 1 << 20
CONFIG = snm.Config(
    dim=8, members=1, epochs=1, batch_size=16, sampled=8, mined=3, input_dropout=0.0,
    class_init="random", memory="off", seen="keep",
)  # fmt: skip
BAD: tuple[tuple[bytes, bytes, bytes, int], ...] = (  # method and path, host, body, status
    (b"POST /predict", b"localhost", b"{", 400),
    (b"POST /predict", b"localhost", b"[" * 5000, 400),
    (b"POST /predict", b"localhost", b'{"features": [{"-1": 1}]}', 400),
    (b"POST /predict", b"localhost", b'{"features": [{"3": 1e999}]}', 400),
    (b"POST /predict", b"localhost", b'{"features": [{"3": 1}], "k": 1000000}', 400),
    (b"POST /predict", b"localhost", b'{"texts": ["a"]}', 400),
    (b"POST /predict", b"evil.example", b'{"features": [{"3": 1}]}', 421),
    (b"POST /predict", b"localhost", b" " * (MAX_BYTES + 1), 413),
    (b"GET /no/such/path?a=%00", b"localhost", b"", 404),
    (b"DELETE /predict", b"localhost", b"", 405),
)


class Counts:
    """What the clients saw."""

    def __init__(self) -> None:
        self.by_status: collections.Counter[int] = collections.Counter()
        self.wrong = self.cut = self.sent = 0
        self.slow_dropped = 0


async def attacked(
    port: int, bodies: list[bytes], labels: np.ndarray, requests: int, server: Any
) -> tuple[Counts, list[float], float]:
    """The load; returns what was seen, the server's memory in MiB by tenths, and seconds."""
    counts, memory = Counts(), [resident_memory(server.pid)]
    begun = time.monotonic()
    ending = False

    async def client(number: int) -> None:
        rng = np.random.default_rng(number)
        reader = writer = None
        while counts.sent < requests or ending:
            counts.sent += 1
            if counts.sent % (requests // 10) == 0 and counts.sent <= requests:
                memory.append(resident_memory(server.pid))
            good = rng.random() < 0.5
            point = int(rng.integers(len(bodies)))
            line, host, body, status = BAD[int(rng.integers(len(BAD)))]
            if good:
                line, host, body, status = b"POST /predict", b"localhost", bodies[point], 200
            try:
                if writer is None or writer.is_closing():
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                found, content = await request(reader, writer, line, host, body)
            except asyncio.IncompleteReadError as error:
                writer = None
                counts.cut += bool(error.partial)
                if not ending and status != 413:
                    counts.wrong += 1
                if ending:
                    return
                continue
            except OSError:
                # A body that is refused before it has come may end in a reset.
                writer = None
                if ending:
                    return
                counts.wrong += status != 413
                continue
            counts.by_status[found] += 1
            answer = json.loads(content)
            if found == 200 == status:
                counts.wrong += answer["answers"][0]["labels"] != labels[point].tolist()
            elif not (ending and found == 503):
                counts.wrong += found != status or "\n" in str(answer)
            if status == 413 and writer is not None:
                writer.close()
                writer = None

    async def slow() -> None:
        half = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{"
        while not ending and counts.sent < requests:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(half)
            answer = await reader.read()  # until the server closes
            counts.slow_dropped += answer.startswith(b"HTTP/1.1 408")
            writer.close()

    waiting = [asyncio.create_task(slow()) for _ in range(SLOW)]
    await asyncio.gather(*(client(number) for number in range(CLIENTS)))
    seconds = time.monotonic() - begun
    memory.append(resident_memory(server.pid))
    await asyncio.gather(*waiting)
    ending = True
    last = [asyncio.create_task(client(number)) for number in range(CLIENTS)]
    await asyncio.sleep(1)
    server.send_signal(signal.SIGTERM)
    await asyncio.wait_for(asyncio.gather(*last), 120)
    return counts, memory, seconds


def resident_memory(process: int) -> float:
    """Resident memory of a process in MiB."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return round(pages * resource.getpagesize() / 2**20, 1)


def measure(requests: int) -> dict[str, Any]:
    """Trains a small model, serves it, and attacks the server."""
    data = snm.generate(points=200, test_points=100, features=30, labels=20, seed=1,
                        labels_per_point=2, nonzeros_per_point=4)  # fmt: skip
    assert data.test is not None
    with tempfile.TemporaryDirectory() as name:
        run = Path(name) / "run"
        snm.train(data, CONFIG, run)
        labels, _ = snm.load(run).predict(data.test.features, k=5)
        bodies = bodies_of(data.test.features)
        command = [sys.executable, "-m", "snm", "serve", str(run), "--port=0"]
        command += [f"--patience={PATIENCE}", f"--max-bytes={MAX_BYTES}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                found = asyncio.run(attacked(port_of(server), bodies, labels, requests, server))
                status = server.wait(60)
            finally:
                server.kill()
    counts, memory, seconds = found
    return {
        "requests": requests,
        "clients": CLIENTS,
        "requests per second": round(requests / seconds),
        "seconds": round(seconds),
        "by status": {str(code): n for code, n in sorted(counts.by_status.items())},
        "wrong or lost": counts.wrong,
        "cut off": counts.cut,
        "slow clients dropped": counts.slow_dropped,
        "memory MiB": memory,
        "exit status": status,
    }


def main() -> None:
    """Prints the results, and writes them as JSON."""
    parser = make_parser(__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    args = parser.parse_args()
    found = measure(args.requests)
    print_and_write(args.out, found)


if __name__ == "__main__":
    main()

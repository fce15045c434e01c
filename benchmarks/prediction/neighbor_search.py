"""Measures the neighbour search of a memory by the number of threads, and that of scikit-learn.

    python -m benchmarks.prediction.neighbor_search DATA ... --out FILE

At most 6,000 test points search 200 neighbours among the training points. A row has the
milliseconds per point of the fastest of several searches, the one least disturbed by other
programs. Rows with more threads than cores show the cost of too many threads. `scikit-learn`
compares some hundreds of the points with all others (`NearestNeighbors`, brute force, all cores). A
memory reads only the rarer features of a point: `share_found` is the share of scikit-learn's
neighbours with a common feature that it finds. `--name` keeps the rows of other names.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import snm
from benchmarks.command_line import make_parser, read_results, write_results
from snm.data.weighting import Weighting
from snm.machine.versions import machine_record
from snm.memory.memory import NUM_FOUND
from snm.memory.neighbors import StoredPoints

POINTS, OF_PEER, CALLS = 6_000, 300, 5


def least_seconds(call: Callable[[], Any], calls: int = CALLS) -> float:
    """The least seconds of a call."""
    taken = []
    for _ in range(calls):
        begun = time.perf_counter()
        call()
        taken.append(time.perf_counter() - begun)
    return min(taken)


def rows_of(folder: Path, threads: list[int], peers: bool) -> list[dict[str, Any]]:
    """Rows of a data set."""
    data = snm.load_data(folder)
    assert data.test is not None
    weighting = Weighting.fit("tfidf", data.train.features)
    points, asked = (weighting.apply(part.features) for part in (data.train, data.test))
    asked, stored = asked[:POINTS], StoredPoints(points)
    found = stored.similar(asked, NUM_FOUND)  # also makes what it keeps
    facts = {"data": folder.name, "stored": points.shape[0], "asked": asked.shape[0]}
    rows = []
    for count in threads:
        with (
            mock.patch("snm.machine.cores.num_cores", lambda count=count: count),
            mock.patch("snm.memory.neighbors.num_cores", lambda count=count: count),
        ):
            seconds = least_seconds(lambda: stored.similar(asked, NUM_FOUND))
        rows.append(facts | {"threads": count, "ms": 1e3 * seconds / asked.shape[0]})
    if peers:
        from sklearn.neighbors import NearestNeighbors

        some = asked[:OF_PEER]
        peer = NearestNeighbors(metric="cosine", algorithm="brute", n_jobs=-1).fit(points)
        distances, best = peer.kneighbors(some, NUM_FOUND)
        seconds = least_seconds(lambda: peer.kneighbors(some, NUM_FOUND))
        shares = [
            np.isin(ids[far < 1 - 1e-6], own).mean()
            for ids, far, own in zip(best, distances, found.ids, strict=False)
            if (far < 1 - 1e-6).any()
        ]
        ms = 1e3 * seconds / some.shape[0]
        found_too = {"ms": ms, "share_found": float(np.mean(shares))}
        rows.append(facts | {"asked": some.shape[0], "peer": "scikit-learn"} | found_too)
    return rows


def main() -> None:
    """Prints the rows, and writes them."""
    parser = make_parser(__doc__)
    parser.add_argument("data", nargs="+", type=Path)
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2, 16])
    parser.add_argument("--name", default="now", help="of these rows")
    parser.add_argument("--no-peers", action="store_true")
    args = parser.parse_args()
    kept = read_results(args.out, {"on": {}, "rows": []})
    rows = [row for row in kept["rows"] if row["name"] != args.name]
    for folder in args.data:
        for row in rows_of(folder, args.threads, not args.no_peers):
            rows.append({"name": args.name, **row})
            print(json.dumps(rows[-1]), flush=True)
            kept["on"][args.name] = machine_record()
            write_results(args.out, kept | {"rows": rows})


if __name__ == "__main__":
    main()

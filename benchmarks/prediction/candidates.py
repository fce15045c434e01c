"""Measures the time of predictions among some of the labels, at the size of Amazon-670K.

    python -m benchmarks.prediction.candidates --out benchmarks/results/candidates.json

The model of `benchmarks.prediction.open_time` (670,091 labels, dim 512, untrained) predicts labels
of points with random features: one point at a time, and in blocks. The candidate labels are drawn:
one set for all points, or one for each point. A figure is the median of several rounds, in which
the sizes take turns; all programs are compiled before. Each row also has the bytes of class rows
that it must read, and its time as a share of the time of all labels.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.command_line import make_parser, write_results
from benchmarks.prediction.open_time import export_model
from snm.export.load import load
from snm.machine.versions import machine_record
from snm.system.compilation_cache import enable_compilation_cache

SIZES = (10, 100, 1_000, 10_000, 100_000)
OF_EACH = (10, 100, 1_000)
POINTS = 256
WORDS = 20  # of a point
K = 5


def main() -> None:
    """Prints the results, and writes them as JSON."""
    parser = make_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where the model is, or is written and stays")
    args = parser.parse_args()
    enable_compilation_cache()
    with tempfile.TemporaryDirectory() as place:
        rows = measure(export_model(args.folder or Path(place)), args.rounds)
    for row in rows:
        print(json.dumps(row))
    about = {"points of a block": POINTS, "rounds": args.rounds, "k": K}
    write_results(args.out, {**machine_record(), **about, "rows": rows})


def measure(folder: Path, rounds: int) -> list[dict[str, Any]]:
    """Seconds of each way to choose, and of all labels."""
    model = load(folder, verify=False)
    one = dataclasses.replace(model, block_rows=1)
    many = dataclasses.replace(model, block_rows=POINTS)
    rng = np.random.default_rng(0)
    num_labels, dim = model.model.spec.num_labels, model.state.head.table.rows.shape[1]
    words = rng.integers(0, model.model.num_features, (POINTS, WORDS))
    points = sparse.csr_matrix(
        (np.ones(words.size, np.float32), words.ravel(), np.arange(0, words.size + 1, WORDS)),
        shape=(POINTS, model.model.num_features),
    )
    first = points[:1]

    def drawn(size: int) -> Any:
        return rng.choice(num_labels, size, replace=False)

    rows: list[dict[str, Any]] = []
    calls: list[tuple[Callable[[], Any], Callable[[], Any]]] = []
    for size in (*(few for few in SIZES if few < num_labels), num_labels):
        labels = None if size == num_labels else drawn(size)
        rows.append({"labels": size, "of each point": False, "MiB of rows": 4 * dim * size / 2**20})
        calls.append((lambda to=labels: one.predict(first, K, to),
                      lambda to=labels: many.predict(points, K, to)))  # fmt: skip
    for size in OF_EACH:
        own = [drawn(size) for _ in range(POINTS)]
        rows.append({"labels": size, "of each point": True,
                     "MiB of rows": 4 * dim * size * POINTS / 2**20})  # fmt: skip
        calls.append((lambda to=own: one.predict(first, K, to[:1]),
                      lambda to=own: many.predict(points, K, to)))  # fmt: skip
    seconds: dict[tuple[int, str], list[float]] = defaultdict(list)
    for number in range(rounds + 1):  # the first compiles
        for index, both in enumerate(calls):
            for name, call in zip(("ms of a point", "ms of a block"), both, strict=True):
                begun = time.perf_counter()
                call()
                if number:
                    seconds[index, name].append(1000 * (time.perf_counter() - begun))
    everything = next(i for i, row in enumerate(rows) if row["labels"] == num_labels)
    for name in ("ms of a point", "ms of a block"):
        for index, row in enumerate(rows):
            row[name] = statistics.median(seconds[index, name])
        for row in rows:
            row[name.replace("ms", "share")] = row[name] / rows[everything][name]
    return rows


if __name__ == "__main__":
    main()

"""The kernel of `snm.topk` on the GPU of this machine: its answers, and its time beside XLA's.

    python -m benchmarks.devices.topk_kernel_run --cases 2000 --json FILE
    python -m benchmarks.devices.topk_kernel_run --time --json FILE

The first draws cases of many shapes, some as large as those of a training step, and compares with
all scores in float64. The second times searches with the kernel and by blocks of XLA's products, in
turns. A file keeps the part that a call does not make.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.devices.topk_kernel import Case, Shape, case_of, wrong
from snm.bench.cli import describe_machine
from snm.machine.platform import platform
from snm.system.files import write_whole
from snm.topk import Masked, product_top_k
from snm.topk.kernel.choice import form_of
from snm.topk.kernel.plan import Sizes, tiles_for

OF_SHAPE = 20  # cases that compile once
ROUNDED = 5  # of these, one in so many has scores that are rounded
TABLES = 4  # in rotation, so that a call finds little of its rows in the cache
ROUNDS, CALLS = 9, 10


@dataclasses.dataclass(frozen=True)
class Search:
    """A search to time.

    Attributes:
      slots: rows.
      dim: of a row.
      count: how many are kept.
      rows: type of the rows.
      factors: type of the factors of the product.
      precision: of products of float32 factors.
      queries: n.
    """

    slots: int
    dim: int
    count: int
    rows: str = "float32"
    factors: str = "float32"
    precision: str = "float32"
    queries: int = 512

    @property
    def name(self) -> str:
        """What the results call it."""
        kind = self.factors if self.factors != "float32" else self.precision
        of = f"{self.queries} of {self.slots:,} x {self.dim}, k' {self.count}"
        return f"{of}, {self.rows} rows, {kind} products"


SEARCHES = [
    *(Search(32_768, 512, count) for count in (5, 16, 64, 256)),
    *(Search(32_768, dim, 16) for dim in (64, 128, 256)),
    Search(32_768, 512, 16, precision="tensorfloat32"),
    Search(32_768, 512, 16, factors="bfloat16"),
    Search(32_768, 512, 16, rows="bfloat16", factors="bfloat16"),
    Search(4_096, 512, 16),
    Search(4_096, 512, 64),
    Search(670_091, 512, 5),
    Search(670_091, 512, 5, factors="bfloat16"),
    Search(670_091, 64, 5),
    Search(670_091, 512, 5, queries=16),
]


def shape_of(rng: np.random.Generator) -> Shape:
    """Draws a shape, with the tiles that a GPU takes for it."""
    slots = int(
        rng.choice([rng.integers(1, 80), rng.integers(80, 3000), 32_768], p=[0.2, 0.6, 0.2])
    )
    most = min(slots, 256)
    count = int(
        rng.choice([1, most, rng.integers(1, most + 1), rng.integers(1, min(most, 17) + 1)])
    )
    queries = int(rng.choice([rng.integers(1, 20), rng.integers(20, 300)]))
    dim = int(rng.choice([rng.integers(1, 40), 64, 128, rng.integers(128, 600)]))
    kind = rng.choice([np.float32, jnp.bfloat16])
    tiles = tiles_for("gpu", Sizes(queries, slots, dim, count, jnp.dtype(kind).itemsize))
    assert tiles is not None
    return Shape(queries, dim, slots, count, kind, bool(rng.random() < 0.7),
                 int(rng.choice([0, 1, 60, 4000])), tiles)  # fmt: skip


def checked(number: int, seed: int) -> dict[str, Any]:
    """Draws cases and compares each with all scores in float64."""
    rng, begun = np.random.default_rng([seed, 7]), time.perf_counter()
    shapes: list[Shape] = []
    cases = failed = 0
    while cases < number:
        shape = shape_of(rng)
        run = jax.jit(functools.partial(
            form_of("gpu"), count=shape.count, tiles=shape.tiles, compute_dtype=jnp.float32,
            interpret=platform() == "cpu",
        ))  # fmt: skip
        bad = 0
        for draw in range(OF_SHAPE):
            case = case_of(shape, draw % ROUNDED != ROUNDED - 1, rng)
            bad += _is_wrong(run, shape, case)
        if bad:
            print("wrong:", bad, shape, flush=True)
        shapes.append(shape)
        cases, failed = cases + OF_SHAPE, failed + bad
    return {
        "cases": cases,
        "of_rounded_scores": cases // ROUNDED,
        "shapes": len(shapes),
        "wrong": failed,
        "most_slots": max(shape.slots for shape in shapes),
        "counts": [min(shape.count for shape in shapes), max(shape.count for shape in shapes)],
        "bfloat16_shapes": sum(shape.dtype != np.float32 for shape in shapes),
        "seed": seed,
        "seconds": round(time.perf_counter() - begun),
    }


def _is_wrong(run: Callable[..., Any], shape: Shape, case: Case) -> bool:
    rows = jnp.asarray(case.rows)
    with jax.default_matmul_precision("float32"):
        best = run(jnp.asarray(case.queries), rows, case.offsets, case.masked)
    scores, slots = np.asarray(best.scores), np.asarray(best.slots)
    return wrong(case, scores, slots, atol=1e-6 * shape.dim)


def timed(only: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Seconds of each search, with the kernel and without."""
    for search in SEARCHES:
        if only and search.name not in only:
            continue
        forms = {kernel: _compiled(search, kernel) for kernel in ("on", "off")}
        seconds: dict[str, list[float]] = {kernel: [] for kernel in forms}
        for _ in range(ROUNDS):
            for kernel, call in forms.items():
                seconds[kernel].append(call())
        yield (
            search.name,
            {
                "kernel_ms": 1e3 * statistics.median(seconds["on"]),
                "blocks_ms": 1e3 * statistics.median(seconds["off"]),
                "kernel_over_blocks": statistics.median(
                    on / off for on, off in zip(seconds["on"], seconds["off"], strict=True)
                ),
                "gflop": 2e-9 * search.queries * search.slots * search.dim,
            },
        )


def _compiled(search: Search, kernel: str) -> Callable[[], float]:
    """A function that calls the search some times, and returns the seconds of one call."""
    keys = jax.random.split(jax.random.key(0), TABLES + 1)
    shape = search.slots, search.dim
    few = 1 if search.slots > 100_000 else TABLES
    tables = [jax.random.normal(key, shape).astype(search.rows) for key in keys[1 : few + 1]]
    queries = jax.random.normal(keys[0], (search.queries, search.dim))
    bias = jnp.zeros(search.slots)
    own = Masked(*(jnp.arange(search.queries, dtype=jnp.int32) for _ in range(2)))

    def find(queries: jax.Array, rows: jax.Array, bias: jax.Array, own: Masked) -> Any:
        return product_top_k(queries, rows, search.count, bias=bias, masked=own, kernel=kernel,
                             compute_dtype=jnp.dtype(search.factors))  # fmt: skip

    with jax.default_matmul_precision(search.precision):
        program = jax.jit(find).lower(queries, tables[0], bias, own).compile()
    jax.block_until_ready(program(queries, tables[0], bias, own))

    def call() -> float:
        begun = time.perf_counter()
        found = [program(queries, tables[i % few], bias, own) for i in range(CALLS)]
        jax.block_until_ready(found)
        return (time.perf_counter() - begun) / CALLS

    return call


def main() -> None:
    """Makes parts of the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--time", nargs="*", metavar="NAME", help="names of searches, or all")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    kept = json.loads(options.json.read_text()) if options.json and options.json.exists() else {}
    kept["on"] = describe_machine() | {"command": "python -m benchmarks.devices.topk_kernel_run"}

    def keep() -> None:
        if options.json:
            write_whole(options.json, json.dumps(kept, indent=1) + "\n")

    if options.cases:
        kept["cases"] = checked(options.cases, options.seed)
        print(json.dumps(kept["cases"]), flush=True)
        keep()
    for name, row in () if options.time is None else timed(options.time):
        kept.setdefault("searches", {})[name] = row
        print(f"{name:<75} kernel {row['kernel_ms']:8.3f}  blocks {row['blocks_ms']:8.3f} ms",
              flush=True)  # fmt: skip
        keep()


if __name__ == "__main__":
    main()

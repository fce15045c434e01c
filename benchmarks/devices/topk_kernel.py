"""Checks the kernel of `snm.topk` against `lax.top_k`, and compiles it for other accelerators.

python -m benchmarks.devices.topk_kernel --cases 10000 --json benchmarks/results/topk-kernel.json
python -m benchmarks.devices.topk_kernel --compile --json benchmarks/results/topk-kernel.json
python -m benchmarks.devices.topk_kernel --steps --json benchmarks/results/topk-kernel.json

The first command draws random cases and runs the kernel in the interpreter of Pallas. The others
need the extra target-tpu: they compile the kernel alone, and training steps and evaluations with
and without it. Nothing runs on an accelerator. The output file keeps the parts that a call does not
measure.
"""

from __future__ import annotations

import argparse
import functools
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.command_line import read_results, write_results
from snm.topk import Masked
from snm.topk.kernel.on_tpu import top_on_tpu
from snm.topk.kernel.plan import Tiles

DRAWS = 100  # cases of one shape, which compile once
ROUNDED = 10  # of these, one in so many has scores that are rounded
STEPS = [  # target, program, shape, k'
    ("v5e", "evaluation", "amazon670k", 16),
    ("v5e", "step", "amazon670k", 16),
    ("v5e", "step", "amazon670k", 256),
    ("v5p", "step", "amazon670k", 16),
]


class Shape(NamedTuple):
    """What the cases of one compiled program share."""

    queries: int
    dim: int
    slots: int
    count: int
    dtype: Any
    offsets: bool
    pairs: int
    tiles: Tiles


class Case(NamedTuple):
    """The arrays of one case; `exact` if every score is exact in float32."""

    queries: np.ndarray
    rows: np.ndarray
    offsets: np.ndarray | None
    masked: Masked | None
    exact: bool


def shape_of(rng: np.random.Generator) -> Shape:
    """Draws a shape: ragged ends, counts at both ends, tiles of several sizes."""
    slots = int(rng.choice([rng.integers(1, 40), rng.integers(40, 700)], p=[0.2, 0.8]))
    most = min(slots, 256)
    count = int(
        rng.choice([1, most, rng.integers(1, most + 1), rng.integers(1, min(most, 17) + 1)])
    )
    tile = int(rng.choice([32, 64, 128]))
    tiles = Tiles(8, tile, searched=int(rng.choice([16, 32])))
    return Shape(
        int(rng.integers(1, 20)), int(rng.integers(1, 13)), slots, count,
        rng.choice([np.float32, jnp.bfloat16]), bool(rng.random() < 0.7),
        int(rng.choice([0, 1, 60])), tiles,
    )  # fmt: skip


def case_of(shape: Shape, exact: bool, rng: np.random.Generator) -> Case:
    """Draws a case: small integers, whose scores are exact and often tie, or normal numbers."""

    def numbers(*sizes: int) -> np.ndarray:
        if exact:
            return rng.integers(-2, 3, sizes).astype(np.float32)
        return rng.normal(size=sizes).astype(np.float32)

    queries, rows = numbers(shape.queries, shape.dim), numbers(shape.slots, shape.dim)
    if exact and rng.random() < 0.1:
        queries[rng.integers(shape.queries)] = 0  # all of its scores tie
    offsets, masked = None, None
    if shape.offsets:
        left_out = rng.random(shape.slots) < rng.choice([0, 0.1, 0.9, 1])
        offsets = np.where(left_out, -np.inf, numbers(shape.slots)).astype(np.float32)
    if shape.pairs:
        of_query = rng.integers(0, shape.queries, shape.pairs)
        slots = rng.integers(-3, shape.slots + 3, shape.pairs)  # some are out of range
        if shape.pairs > 1 and rng.random() < 0.5:
            of_query[1::2], slots[1::2] = of_query[::2], slots[::2]  # each occurs twice
        masked = Masked(jnp.asarray(of_query, jnp.int32), jnp.asarray(slots, jnp.int32))
    return Case(queries, rows.astype(shape.dtype), offsets, masked, exact)


def scores_of(case: Case) -> np.ndarray:
    """All scores in float64, -inf where excluded."""
    scores = case.queries.astype(np.float64) @ case.rows.astype(np.float64).T
    if case.offsets is not None:
        scores = scores + case.offsets
    if case.masked is not None:
        of_query, slots = map(np.asarray, case.masked)
        real = (slots >= 0) & (slots < scores.shape[1])
        scores[of_query[real], slots[real]] = -np.inf
    return scores


def wrong(case: Case, scores: np.ndarray, slots: np.ndarray, atol: float = 1e-5) -> bool:
    """Whether the kernel's best are not those of `lax.top_k` of all scores.

    Exact scores must have the same bits and slots. Those of rounded scores must be as high as the
    best, and the slots' own, within the rounding of float32; no slot may come twice.

    Args:
      case: what was searched.
      scores: float32 [n, count], the kernel's.
      slots: int32 [n, count], the kernel's.
      atol: what float32 may round a score by; it grows with the length of a row.
    """
    every = scores_of(case)
    top, place = jax.lax.top_k(jnp.asarray(every, jnp.float32), slots.shape[1])
    if case.exact:
        return not (np.array_equal(scores, top) and np.array_equal(slots, place))
    own = np.take_along_axis(every, slots, axis=1)
    twice = any(len(set(row)) < len(row) for row in slots.tolist())
    close = functools.partial(np.allclose, rtol=1e-5, atol=atol)
    return twice or not (close(scores, top) and close(scores, own))


def check_cases(number: int, seed: int, of_shape: int = DRAWS) -> Iterator[tuple[Shape, int, int]]:
    """Draws cases, shape by shape: the shape, its cases, those wrong."""
    rng = np.random.default_rng([seed, 119])  # 119: the draws of the committed result
    while number > 0:
        shape, draws = shape_of(rng), min(of_shape, number)

        @jax.jit
        def run(queries: Any, rows: Any, offsets: Any, masked: Any, shape: Shape = shape) -> Any:
            with jax.default_matmul_precision("float32"):
                return top_on_tpu(
                    queries, rows, offsets, masked, count=shape.count, tiles=shape.tiles,
                    compute_dtype=jnp.float32, interpret=True,
                )  # fmt: skip

        failed = 0
        for draw in range(draws):
            case = case_of(shape, draw % ROUNDED != ROUNDED - 1, rng)
            best = run(case.queries, case.rows, case.offsets, case.masked)
            failed += wrong(case, np.asarray(best.scores), np.asarray(best.slots))
        yield shape, draws, failed
        number -= draws


def checked(number: int, seed: int, of_shape: int = DRAWS) -> dict[str, Any]:
    """The sums over all shapes."""
    begun, shapes, cases, failed = time.perf_counter(), [], 0, 0
    for shape, draws, bad in check_cases(number, seed, of_shape):
        shapes.append(shape)
        cases, failed = cases + draws, failed + bad
        if bad:
            print("wrong:", bad, shape, flush=True)
    return {
        "cases": cases,
        "of_rounded_scores": cases // ROUNDED,
        "shapes": len(shapes),
        "cases_of_a_shape": of_shape,
        "wrong": failed,
        "counts": [min(s.count for s in shapes), max(s.count for s in shapes)],
        "counts_of_all_slots": sum(s.count == s.slots for s in shapes),
        "bfloat16_shapes": sum(s.dtype != np.float32 for s in shapes),
        "seed": seed,
        "seconds": round(time.perf_counter() - begun),
    }


def compiled_rows(only: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The searches alone, by kernel and by XLA."""
    from benchmarks.devices.topk_kernel_compiled import SEARCHES

    for search in SEARCHES:
        if only and search.name not in only:
            continue
        yield search.name, search.row()


def step_rows(only: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Steps and evaluations of the bench's shapes, with the kernel and without."""
    from benchmarks.devices import targets

    for target, program, shape, mined in STEPS:
        for kernel in ("auto", "off"):
            head = {"mining_kernel": kernel}
            name = targets.name_of(target, program, shape, mined, head)
            if only and name not in only:
                continue
            program_there = targets.compiled(target, program, shape, mined, head)
            yield name, targets.row_of(program_there, target)


def main() -> None:
    """Makes parts of the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=0)
    parser.add_argument("--of-shape", type=int, default=DRAWS, help="cases that compile once")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compile", nargs="*", metavar="NAME", help="names of searches, or all")
    parser.add_argument("--steps", nargs="*", metavar="NAME", help="names of programs, or all")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    kept = read_results(options.json)
    if options.cases:
        kept["cases"] = checked(options.cases, options.seed, options.of_shape)
        print(json.dumps(kept["cases"]), flush=True)
    for part, wanted, rows in (
        ("compiled", options.compile, compiled_rows),
        ("steps", options.steps, step_rows),
    ):
        for name, row in () if wanted is None else rows(wanted):
            kept.setdefault(part, {})[name] = row
            print(name, json.dumps(row), flush=True)
            write_results(options.json, kept)
    write_results(options.json, kept)


if __name__ == "__main__":
    main()

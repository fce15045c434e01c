"""Compares the forms that a training step can have on the GPU of this machine.

    python -m benchmarks.devices.gpu_forms --json benchmarks/results/gpu-forms.json
    python -m benchmarks.devices.gpu_forms --parts pairs rows

Parts: `compile`: what XLA's options cost a step, and save of its compilation, each in its own
process, whose first program loads the libraries; `graphs`: the same for steps that run as a CUDA
graph, and for sums in a fixed order; `pairs`: row updates by pairs, and by matrix products; `rows`:
sums and updates of feature rows; `best`: the top scores of a block. The output file keeps the parts
that a call does not measure.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.command_line import read_results, write_results
from snm.bench.environment import describe_environment
from snm.bench.rates import MachineRates
from snm.bench.shapes import SHAPES, make_source
from snm.bench.steps import StepContestants
from snm.head import plan
from snm.tables.bag import embedding_bag_gather
from snm.tables.table import SparseRows, entry_rows
from snm.tables.updates import add_scatter
from snm.topk.digits import top_by_digits
from snm.topk.strided_folds import strided_top_k

ROUNDS, CALLS = 7, 20
_OURS = "--xla_gpu_enable_triton_gemm=false"
FLAGS = {
    "by Triton": "--xla_gpu_enable_triton_gemm=true",  # XLA's default
    "ours": _OURS,
    "untimed": "--xla_gpu_autotune_level=0",
}
_GRAPHS = "--xla_gpu_enable_command_buffer="
_LOOPS = "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,DYNAMIC_SLICE_FUSION,WHILE,CONDITIONAL"
GRAPHS = {
    "ours": _OURS,
    "no graphs": f"{_OURS} {_GRAPHS}",
    "loops too": f"{_OURS} {_GRAPHS}{_LOOPS}",
    "loops, however short": f"{_OURS} {_GRAPHS}{_LOOPS} --xla_gpu_graph_min_graph_size=1",
    "however short": f"{_OURS} --xla_gpu_graph_min_graph_size=1",
    "sums in one order": f"{_OURS} --xla_gpu_deterministic_ops=true",
}
STEPS = (("eurlex", 16), ("amazon670k", 16), ("amazon670k", None))  # None: all are mined
PAIRS = {"amazon670k": (32_768, (16, 64, 256, 512)), "amazoncat": (4_096, (16, 64, 256))}
SHAPES_OF_ROWS = ("amazon670k", "eurlex")

Row = dict[str, Any]


def milliseconds(call: Callable[[], Any], calls: int = CALLS) -> float:
    """The median over rounds of the time of a call, once the device has done all of a round."""
    jax.block_until_ready(call())
    taken = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        for _ in range(calls):
            out = call()
        jax.block_until_ready(out)
        taken.append((time.perf_counter() - begun) / calls)
    return 1e3 * statistics.median(taken)


def step_of(shape: str, mined: int | None, sampled: int | None = None) -> Row:
    """Compiles and times a step with float32 factors."""
    size = SHAPES[shape].with_sampling(sampled, ())
    contestants = StepContestants(size, MachineRates(size.batch, size.dim))
    begun = time.perf_counter()
    step = contestants.ours(size.sampled if mined is None else mined)
    compiled = time.perf_counter() - begun
    taken = milliseconds(step.call, 1) / step.times
    return {"shape": shape, "sampled": size.sampled, "mined": mined or "all",
            "compile_s": compiled, "ms": taken}  # fmt: skip


def rows_under(sets: Mapping[str, str]) -> Iterator[Row]:
    """Steps under each set of XLA's options."""
    for name, flags in sets.items():
        words = [sys.executable, "-m", "benchmarks.devices.gpu_forms", "--steps"]
        environment = os.environ | {"XLA_FLAGS": flags}
        found = subprocess.run(words, env=environment, check=True, capture_output=True, text=True)
        for row in json.loads(found.stdout.splitlines()[-1]):
            yield {"options": name, "flags": flags, **row}


def pairs_rows() -> Iterator[Row]:
    """Updates pair by pair, and by matrix products, whatever `PAIRS_LIMIT` says."""
    before = plan.PAIRS_LIMIT["gpu"]
    for shape, (sampled, counts) in PAIRS.items():
        for form, limit in (("pairs", 1), ("products", 10**9)):
            plan.PAIRS_LIMIT["gpu"] = limit
            yield from ({"form": form, **step_of(shape, k, sampled)} for k in counts)
    plan.PAIRS_LIMIT["gpu"] = before


def add_sorted(rows: jax.Array, block: SparseRows, steps: jax.Array) -> jax.Array:
    """`add_scatter` of entries in the order of the rows."""
    ids, values, at = _sorted(rows, block)
    return rows.at[ids].add(values[:, None] * steps[at], mode="drop", indices_are_sorted=True)


def add_once(rows: jax.Array, block: SparseRows, steps: jax.Array) -> jax.Array:
    """Sums the entries of each row first, and adds to each row once."""
    ids, values, at = _sorted(rows, block)
    segment = jnp.cumsum(jnp.concatenate([jnp.zeros(1, bool), jnp.diff(ids) != 0]), dtype=jnp.int32)
    gradient = jax.ops.segment_sum(
        values[:, None] * steps[at], segment, ids.shape[0], indices_are_sorted=True
    )
    row = jnp.full(ids.shape[0], rows.shape[0], ids.dtype).at[segment].set(ids)
    return rows.at[row].add(gradient, mode="drop", unique_indices=True)


def _sorted(rows: jax.Array, block: SparseRows) -> tuple[jax.Array, ...]:
    ids = jnp.where(block.values != 0, block.ids, rows.shape[0])
    return lax.sort((ids, block.values, entry_rows(block)), num_keys=1)


def sum_padded(rows: jax.Array, block: SparseRows, *, width: int) -> jax.Array:
    """Sums of rows as a batched product of equally many entries a point."""
    place = block.starts[:-1, None] + jnp.arange(width)[None]
    real = place < block.starts[1:, None]
    place = jnp.minimum(place, block.ids.shape[0] - 1)
    values = jnp.where(real, block.values[place], 0)
    return jnp.einsum("nw,nwd->nd", values, rows[block.ids[place]], precision="highest")


def rows_rows() -> Iterator[Row]:
    """Sums of feature rows and their updates, by scatter and otherwise."""
    add = functools.partial(add_scatter, ok=jnp.bool_(True))
    updates = {"scatter": add, "sorted scatter": add_sorted, "once a row": add_once}
    for name in SHAPES_OF_ROWS:
        shape = SHAPES[name]
        source = make_source(shape, 16, 4 * shape.batch)
        stacks = [source.stack(step, 1).features for step in range(4)]
        blocks = [jax.device_put(SparseRows(*(leaf[0] for leaf in stack))) for stack in stacks]
        width = max(int(np.diff(block.starts).max()) for block in blocks)
        sums = {"segments": embedding_bag_gather,
                "padded product": functools.partial(sum_padded, width=width)}  # fmt: skip
        table = jax.random.normal(jax.random.key(0), (shape.num_features, shape.dim))
        facts = {"shape": name, "entries": int(blocks[0].starts[-1])}
        for form, run in sums.items():
            yield facts | {"job": "sum", "form": form, "ms": _of_sum(run, table, blocks)}
        steps = jax.random.normal(jax.random.key(1), (shape.batch, shape.dim)) * 1e-3
        for form, run in updates.items():
            taken = _of_update(run, table.copy(), blocks, steps)
            yield facts | {"job": "update", "form": form, "ms": taken}


def _of_sum(run: Callable[..., Any], table: jax.Array, blocks: list[SparseRows]) -> float:
    program, turn = jax.jit(run), itertools.cycle(blocks)
    return milliseconds(lambda: program(table, next(turn)))


def _of_update(
    run: Callable[..., Any], table: jax.Array, blocks: list[SparseRows], steps: jax.Array
) -> float:
    program, turn = jax.jit(run, donate_argnums=0), itertools.cycle(blocks)

    def call() -> jax.Array:
        nonlocal table
        table = program(table, next(turn), steps)
        return table

    return milliseconds(call)


def best_rows() -> Iterator[Row]:
    """The 16 and the 64 highest of 512 rows of scores."""
    for slots in (32_768, 4_096):
        scores = jax.random.normal(jax.random.key(2), (512, slots))
        forms: list[tuple[int, str, Callable[[jax.Array], Any]]] = [
            (16, "folds", lambda x: strided_top_k(x, jnp.int32(0), 16)),
            (16, "lax.top_k", lambda x: lax.top_k(x, 16)),
            (64, "digits", lambda x: top_by_digits(x, 64)),
            (64, "lax.top_k", lambda x: lax.top_k(x, 64)),
        ]
        for count, form, run in forms:
            best = jax.jit(run)
            yield {"slots": slots, "count": count, "form": form,
                   "ms": milliseconds(functools.partial(best, scores))}  # fmt: skip


PARTS: dict[str, Callable[[], Iterator[Row]]] = {
    "compile": functools.partial(rows_under, FLAGS),
    "graphs": functools.partial(rows_under, GRAPHS),
    "pairs": pairs_rows,
    "rows": rows_rows,
    "best": best_rows,
}


def main() -> None:
    """Makes parts of the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=[*PARTS])
    parser.add_argument("--steps", action="store_true", help="time steps, with the options given")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.steps:
        print(json.dumps([step_of(*step) for step in STEPS]))
        return
    kept = read_results(options.json)
    for name in options.parts:
        command = f"python -m benchmarks.devices.gpu_forms --parts {name}"
        kept[name] = []
        kept.setdefault("on", {})[name] = describe_environment() | {"command": command}
        for row in PARTS[name]():
            kept[name].append(row)
            print(name, json.dumps(row), flush=True)
            write_results(options.json, kept)


if __name__ == "__main__":
    main()

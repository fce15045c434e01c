"""Measures what each change for accelerators saves: compiles programs with it and without it.

python -m benchmarks.devices.mends --json benchmarks/results/mends.json     # half an hour
python -m benchmarks.devices.mends --mend folds --target h100               # prints one

The programs are the parts of a step or of an evaluation that the change concerns, at the sizes of
Amazon-670K. Only `chip` uses the mining kernel. They are compiled for accelerators that this
machine lacks, which needs the extras target-tpu and target-cuda. The output file keeps earlier
counts.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
from jax.sharding import SingleDeviceSharding

from benchmarks.command_line import read_results, write_results
from snm.bench.shapes import SHAPES, make_model, make_source
from snm.head import by_threshold, plan
from snm.head.head import update_head
from snm.head.state import HeadBatch
from snm.machine import compiler
from snm.machine.platform import compiling_for
from snm.model.model import abstract_state
from snm.prediction.programs import jitted_queries, jitted_top
from snm.sampling import permutation, sample
from snm.sampling.sample import Sample
from snm.tables.table import SparseRows
from snm.targets.devices import make_devices
from snm.targets.programs import Program, compile_and_analyse, compile_scoring, compile_training
from snm.targets.table import TARGETS, Target
from snm.topk import blocks, search
from snm.trainer.steps.programs import jitted_assembly

SHAPE = SHAPES["amazon670k"]
LONGEST_SORT = 1024
STEPS = 4


# -- programs ----------------------------------------------------------------------------------


def _placed(target: Target, tree: Any) -> Any:
    place = SingleDeviceSharding(make_devices(target, 1)[0])
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place), tree)


def _of(*sizes: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(sizes, dtype)


_ints = functools.partial(_of, dtype=jnp.int32)


def evaluation(target: Target, **spec: Any) -> Program:
    """The search for the best labels of 512 points among all."""
    model = make_model(SHAPE, 16)
    of = dataclasses.replace(model.spec, **spec, mining_kernel="off")
    model = dataclasses.replace(model, spec=of)
    return compile_scoring("", model, 1, 1 << 16, target, make_devices(target, 1), (1, 1))


def shard_step(target: Target) -> Program:
    """Steps of four devices, each with a fourth of the labels and of the features."""
    source = make_source(SHAPE, 16, STEPS * SHAPE.batch, resident=True)
    there = make_devices(target, 4)
    return compile_training(
        "", make_model(SHAPE, 16), source, target, there, (1, 4), STEPS, LONGEST_SORT
    )


def head_step(target: Target, *, dim: int = SHAPE.dim, mined: int = 16, **spec: Any) -> Program:
    """A step of the head, from queries to updated class rows."""
    model = dataclasses.replace(make_model(SHAPE, mined), dim=dim)
    head = dataclasses.replace(model.spec, **spec, mining_kernel="off")
    n, size = SHAPE.batch, head.num_slots
    state = abstract_state(dataclasses.replace(model, spec=head)).head
    terms = SparseRows(_ints(n), _of(n), _ints(n + 1))
    batch = HeadBatch(terms, Sample(_ints(size), _ints()))
    shapes = _placed(target, (state, _of(n, dim), batch))

    def step(*arrays: Any) -> Any:
        return update_head(head, *arrays, learning_rate=0.1)

    jitted = jax.jit(step, donate_argnums=0)
    return compile_and_analyse("", 1, jitted, shapes, [state.table.rows.shape], LONGEST_SORT)


def draw(target: Target) -> Program:
    """The draw of a sample."""
    key = jax.eval_shape(lambda: jax.random.key_data(jax.random.key(0)))

    def drawn(data: jax.Array) -> jax.Array:
        key = jax.random.wrap_key_data(data)
        return permutation.permutation_prefix(key, SHAPE.num_labels, SHAPE.sampled + 1)

    return compile_and_analyse("", 1, jax.jit(drawn), _placed(target, (key,)), [], SHAPE.num_labels)


# -- changes -----------------------------------------------------------------------------------


def _on_cpu(module: Any) -> Any:
    """A module with the forms that it has for CPUs."""
    return mock.patch.object(module, "by_platform", lambda *args, cpu, default: cpu(*args))


def _neighbouring(scores: jax.Array, begin: jax.Array, count: int) -> tuple[Any, jax.Array]:
    """The best of a block by folds of neighbouring slots."""
    n = scores.shape[0]
    none = jnp.full((n, count), blocks.MASKED), jnp.full((n, count, blocks.WIDTH), blocks.MASKED)
    folds = search._Folds(*none, jnp.zeros((n, count), jnp.int32))
    return search._merge_folds(folds, scores, begin).top_scores(), jnp.bool_(True)


@dataclasses.dataclass(frozen=True)
class Mend:
    """A change: the program that shows it, and how to undo it.

    Attributes:
      point: its number in the table of COMPILERS.md.
      program: function of a target, and of keywords.
      undone: keywords of the program that undo it.
      patches: makes the contexts that undo it.
      targets: those that it concerns.
      keywords: of the program, both ways.
    """

    point: int
    program: Callable[..., Program]
    undone: dict[str, Any] = dataclasses.field(default_factory=dict)
    patches: Callable[[], list[Any]] = list
    targets: tuple[str, ...] = ("h100", "v5e", "v5p")
    keywords: dict[str, Any] = dataclasses.field(default_factory=dict)


MENDS = {
    "precision": Mend(1, evaluation, undone={"matmul_precision": "default"}),
    "dim": Mend(3, head_step, undone={"dim": 64}, targets=("v5e", "v5p")),
    "folds": Mend(
        4, head_step,
        patches=lambda: [mock.patch.object(search, "strided_top_k", _neighbouring)],
    ),
    "mask": Mend(
        5, head_step, targets=("h100",),
        patches=lambda: [mock.patch.dict(plan._MASK_OWN_MIN_MINED, {"gpu": 64})],
    ),
    "pairs": Mend(
        6, head_step, keywords={"mined": 256}, targets=("v5e", "v5p"),
        patches=lambda: [mock.patch.dict(plan.PAIRS_LIMIT, {"tpu": 64})],
    ),
    "threshold": Mend(
        6, head_step, keywords={"mined": 256, "sampled": 8192}, targets=("h100",),
        patches=lambda: [
            _on_cpu(by_threshold),
            mock.patch.dict(by_threshold._CHUNK_SCORES, {"gpu": 1 << 18, "tpu": 1 << 18}),
        ],
    ),
    "search": Mend(7, head_step, targets=("h100",), patches=lambda: [_on_cpu(sample)]),
    "draw": Mend(7, draw, targets=("h100",), patches=lambda: [_on_cpu(permutation)]),
    "blocks": Mend(
        7, head_step, keywords={"mined": SHAPE.sampled, "loss": "softmax"}, targets=("h100",),
        patches=lambda: [mock.patch.dict(blocks._UNIT, {"gpu": blocks.WIDTH})],
    ),
    "chip": Mend(
        10, shard_step, targets=("v5e", "v5p"),
        patches=lambda: [mock.patch.object(compiler, "_ARRAYS", 1 << 40)],
    ),
}  # fmt: skip


def counted(name: str, target: Target, *, undone: bool) -> dict[str, Any]:
    """Counts the operations of the program of a change, with it or without."""
    mend = MENDS[name]
    for cached in (jitted_assembly, jitted_queries, jitted_top):
        cached.cache_clear()  # of programs with other forms
    with contextlib.ExitStack() as stack:
        stack.enter_context(compiling_for(target.backend, target.memory, target.on_chip))
        for patch in mend.patches() if undone else []:
            stack.enter_context(patch)
        found = mend.program(target, **{**mend.keywords, **(mend.undone if undone else {})})
    account = found.account
    return {
        "temporary_mib": round(found.temporaries / 2**20, 1),
        "moved_mib": round(account.moved / found.steps / 2**20, 1),
        "gflop": {kind: round(n / 1e9, 1) for kind, n in account.operations.items()},
        "kilocycles_by_xla": round(account.cycles / found.steps / 1e3),
        "waits": account.unknown_loops,
        "instructions": account.instructions,
        "faults": found.faults,
        "compile_seconds": round(found.seconds),
    }


def rows(mends: list[str], targets: list[str]) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """The counts of each change and target, undone first."""
    for target in targets:
        for name in mends:
            if target in MENDS[name].targets:
                for key in ("undone", "now"):
                    row = counted(name, TARGETS[target], undone=key == "undone")
                    yield name, target, key, row


def main() -> None:
    """Compiles the programs, and prints or writes their counts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=Path)
    parser.add_argument("--mend", action="append", choices=MENDS)
    parser.add_argument("--target", action="append", choices=("h100", "v5e", "v5p"))
    options = parser.parse_args()
    kept = read_results(options.json)
    every = options.mend or list(MENDS), options.target or ["h100", "v5e", "v5p"]
    for name, target, key, row in rows(*every):
        kept.setdefault(name, {}).setdefault(target, {})[key] = row
        print(name, target, key, json.dumps(row), flush=True)
        write_results(options.json, kept)


if __name__ == "__main__":
    main()

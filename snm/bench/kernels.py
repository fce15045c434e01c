"""Benchmarks the parts of a step: the draw of negatives, the embedding bag, scores and mining."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from snm.bench import peers
from snm.bench.contest import Contest, Contestant, OwnContestant
from snm.bench.rates import MachineRates, Work
from snm.bench.shapes import SEED, Shape, make_queries, make_source, make_state
from snm.bench.steps import StepContestants
from snm.machine.compiler import step_options
from snm.sampling.uniform import uniform_device, uniform_host
from snm.tables.bag import embedding_bag
from snm.tables.columns import sum_columns, update_columns
from snm.tables.optimizers import SGD, RowStep
from snm.tables.table import RowTable
from snm.tables.updates import update_rows
from snm.topk.blocks import LabelRows
from snm.topk.search import best_scores

__all__ = ["bag_contest", "draw_contest", "score_contest"]

_NUMBER = 4  # bytes of a float32 and of an int32
_BATCHES = 4  # used in rotation, so that a call does not find the previous call's rows cached


def _jitted(function: Callable[..., Any], **how: Any) -> jax.stages.Wrapped:
    """`jax.jit` with the options of a training step, which such parts are in."""
    return jax.jit(function, compiler_options=step_options(), **how)


def draw_contest(shape: Shape, machine: MachineRates) -> Iterator[Contest]:
    """The draw of a sample: on the host, as the loader does on a CPU, or on the accelerator."""
    size = shape.sampled + 1
    steps = itertools.count()
    if machine.platform == "cpu":

        def draw() -> Any:
            return uniform_host(SEED, next(steps), num_labels=shape.num_labels, size=size)
    else:
        drawn = _jitted(
            lambda step: uniform_device(SEED, step, num_labels=shape.num_labels, size=size)
        )

        def draw() -> Any:
            return jax.block_until_ready(drawn(np.int32(next(steps))))

    step = StepContestants(shape, machine)
    ours = OwnContestant(
        "draw",
        draw,
        sampled=shape.sampled,
        work=Work(bytes=_NUMBER * size),
        against=("step", "numpy permutation", "jax.random.choice"),
    )
    yield Contest(
        "sample",
        shape.name,
        machine,
        [ours],
        lambda: [
            Contestant("step", step.ours(16).call),
            *peers.draws(shape.num_labels, size),
        ],
    )


def bag_contest(shape: Shape, machine: MachineRates) -> Iterator[Contest]:
    """The sparse first layer: the sums of feature rows, and the step on those rows."""
    source = make_source(shape, 16, _BATCHES * shape.batch)
    blocks = []
    for step in range(min(_BATCHES, source.steps_per_epoch)):
        batch = jax.tree.map(lambda leaf: leaf[0], source.stack(step, 1))
        blocks.append(jax.device_put((batch.features, batch.columns)))
    turn = itertools.cycle(range(len(blocks)))
    table = jax.random.normal(jax.random.key(SEED), (shape.num_features, shape.dim))
    steps = jax.random.normal(jax.random.key(SEED + 1), (shape.batch, shape.dim)) * 1e-3

    @_jitted
    def forward(rows: jax.Array, block: Any, columns: Any) -> jax.Array:
        return embedding_bag(rows, block) if columns is None else sum_columns(rows, columns, block)

    @functools.partial(_jitted, donate_argnums=0)
    def update(rows: jax.Array, block: Any, columns: Any, steps: jax.Array) -> jax.Array:
        ok = jnp.bool_(True)
        if columns is None:
            return update_rows(RowTable(rows), [(block, steps)], RowStep(SGD, 0.1), ok=ok).rows
        return update_columns(RowTable(rows), columns, block, steps, learning_rate=0.1, ok=ok).rows

    held = [table]

    def run_forward() -> None:
        jax.block_until_ready(forward(held[0], *blocks[next(turn)]))

    def run_both() -> None:
        block, columns = blocks[next(turn)]
        sums = forward(held[0], block, columns)
        held[0] = update(held[0], block, columns, steps)
        jax.block_until_ready((sums, held[0]))

    # Each distinct row of a batch must be read once, and for the step read and written once more.
    distinct = float(np.mean([len(np.unique(b.ids[: b.starts[-1]])) for b, _ in blocks]))
    row, out = _NUMBER * shape.dim, _NUMBER * shape.dim * shape.batch
    work = {"forward": Work(bytes=distinct * row + out)}
    work["forward and update"] = Work(bytes=3 * distinct * row + 2 * out)
    against = {"forward": ("torch forward",), "forward and update": ("torch forward and update",)}
    yield Contest(
        "bag",
        shape.name,
        machine,
        [
            OwnContestant(case, call, case=case, work=work[case], against=against[case])
            for case, call in (("forward", run_forward), ("forward and update", run_both))
        ],
        lambda: peers.bags(shape, [block for block, _ in blocks], steps, machine.torch_device),
    )


def score_contest(shape: Shape, machine: MachineRates) -> Iterator[Contest]:
    """The scores of a batch against the sample, and the top k' of them."""
    queries, table = make_queries(shape, shape.batch), make_state(shape).head.table.rows
    sizes = {"num_labels": shape.num_labels, "size": shape.sampled + 1}
    samples = [jnp.asarray(uniform_host(SEED, step, **sizes).ids) for step in range(_BATCHES)]
    turn = itertools.cycle(samples)

    def call_of(count: int) -> Callable[[], Any]:
        dtype = jnp.dtype(shape.compute_dtype)
        best = _jitted(
            lambda queries, table, ids: best_scores(
                queries, LabelRows(table, ids), count, compute_dtype=dtype
            )
        )
        return lambda: jax.block_until_ready(best(queries, table, next(turn)))

    slots = shape.sampled + 1
    work = Work(
        flop=2 * shape.batch * shape.dim * slots,
        bytes=_NUMBER * shape.dim * (slots + shape.batch),
    )
    counts = [count for count in (1, 16, 256) if count < shape.sampled]
    yield Contest(
        "score_mine",
        shape.name,
        machine,
        [
            OwnContestant(f"best {count}", call_of(count), sampled=shape.sampled, mined=count,
                          case=f"best {count}", work=work, against=(f"torch best {count}",))
            for count in counts
        ],
        lambda: peers.scores(
            queries, table, samples, counts, machine.torch_device, shape.compute_dtype
        ),
    )  # fmt: skip

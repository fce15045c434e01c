"""Finds the first non-finite tensor of a step, by computing the step again tensor by tensor."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from snm.batches.batch import Batch
from snm.batches.sources.source import Source
from snm.checkpoints.writer import has_memory_for_copy
from snm.distributed.processes import has_several_processes
from snm.machine.platform import compiling_for
from snm.model.model import Model, TrainState
from snm.model.placement import gather_to_host
from snm.model.train_step import forward_backward
from snm.runs.events import NonFinite
from snm.tables.bag import embedding_bag
from snm.tables.rounding import as_float
from snm.tables.table import entry_rows

__all__ = ["diagnose", "points_of_step"]


def diagnose(
    model: Model,
    source: Source,
    resident: Any,
    state: TrainState,
    step: int,
    loss: float,
    *,
    on_mesh: bool = False,
) -> NonFinite:
    """The first tensor of a step that is not finite.

    The step was not taken, so its parameters are unchanged, unless later steps were taken.

    Args:
      model: the model.
      source: the batches.
      resident: `source.resident_arrays()`.
      state: the parameters now.
      step: counted from 0.
      loss: of that step.
      on_mesh: the parameters are sharded over a mesh. They are gathered on the host, and the step
        is computed there. Where the host has no room, or other processes hold shards, only the
        loss is reported.
    """
    if on_mesh:
        if has_several_processes() or not has_memory_for_copy(state):
            return NonFinite.of_loss(loss)
        source = source.whole()
        host = jax.local_devices(backend="cpu")[0]
        with jax.default_device(host), compiling_for("cpu", 0):
            resident = source.resident_arrays()
            return diagnose(model, source, resident, gather_to_host(state, model), step, loss)
    shape = source.shape_of_step(step)
    item = jax.tree.map(lambda leaf: leaf[0], source.stack(step, 1))

    @jax.jit
    def walk(state: TrainState, resident: Any, item: Any) -> list[jax.Array]:
        return _finite(model, state, source.materialize(resident, item, shape))

    for name, finite in zip(_TENSORS, walk(state, resident, item), strict=True):
        good = np.asarray(finite)
        if not good.all():
            if not good.ndim:
                return NonFinite(name, [])
            real = _places_of_step(source, step) >= 0
            return NonFinite(name, np.flatnonzero(~good[: source.batch_size][real]).tolist())
    return NonFinite.of_loss(loss)


def points_of_step(source: Source, step: int, point_ids: np.ndarray | None) -> list[int]:
    """The points of a step's batch, as their entries of `point_ids`, int64 [N], if it is given."""
    points = _places_of_step(source, step)
    points = points[points >= 0]
    return (points if point_ids is None else point_ids[points]).tolist()


def _places_of_step(source: Source, step: int) -> np.ndarray:
    """The points at the places of a step's batch, -1 in empty ones, which may be anywhere."""
    order, _ = source.order.epoch(step // source.steps_per_epoch)
    return order[step % source.steps_per_epoch]


_TENSORS = (
    "the feature values are",
    "the feature rows (W1) are",
    "the sums of feature rows are",
    "the parameters of the dense tower are",
    "the queries are",
    "the class rows are",
    "the biases or the score multiplier are",
    "the loss is",
    "the gradient of the queries is",
    "the gradient of the dense tower is",
    "the gradient of the feature sums is",
)


def _finite(model: Model, state: TrainState, batch: Batch) -> list[jax.Array]:
    """Whether each of `_TENSORS` is finite: bool [n], one a point, or a single bool."""
    features = batch.features
    n = features.starts.shape[0] - 1
    row = entry_rows(features)

    def by_point(entries: jax.Array) -> jax.Array:
        return jax.ops.segment_sum((~entries).astype(jnp.int32), row, n) == 0

    used = jnp.isfinite(as_float(state.features.rows[features.ids])).all(axis=1) | (
        features.values == 0
    )
    sums = embedding_bag(state.features.rows, features)
    # The new class rows are not used, so XLA computes no update and copies no table.
    back = forward_backward(model, state, batch, sums)
    head = state.head
    rest = [head.log_scale] + ([] if head.bias is None else [head.bias])
    return [
        by_point(jnp.isfinite(features.values)),
        by_point(used),
        jnp.isfinite(sums).all(axis=1),
        _all_finite(state.tower),
        jnp.isfinite(back.queries).all(axis=1),
        jnp.isfinite(as_float(head.table.rows)).all(),
        _all_finite(rest),
        jnp.isfinite(back.step.loss),
        jnp.isfinite(back.step.query_gradient).all(axis=1),
        _all_finite(back.grad_tower),
        jnp.isfinite(back.grad_sums).all(axis=1),
    ]


def _all_finite(tree: Any) -> jax.Array:
    leaves = [jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(tree)]
    return functools.reduce(jnp.logical_and, leaves, jnp.bool_(True))

"""Finds the first non-finite tensor of a step: it repeats the step and checks each tensor."""

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
        is computed there. If the host lacks memory for them, or other processes hold shards, only
        the loss is reported.
    """
    if on_mesh:
        if has_several_processes() or not has_memory_for_copy(state):
            return NonFinite.of_loss(loss)
        source = source.whole()
        host = jax.local_devices(backend="cpu")[0]
        with jax.default_device(host), compiling_for("cpu", 0):
            resident = source.resident_arrays()
            return diagnose(model, source, resident, gather_to_host(state, model), step, loss)
    shape = source.shape(step)
    item = jax.tree.map(lambda leaf: leaf[0], source.stack(step, 1))

    @jax.jit
    def check(state: TrainState, resident: Any, item: Any) -> list[jax.Array]:
        return _check_tensors(model, state, source.materialize(resident, item, shape))

    for name, is_finite in zip(_TENSORS, check(state, resident, item), strict=True):
        finite = np.asarray(is_finite)
        if not finite.all():
            if not finite.ndim:
                return NonFinite(name, [])
            is_point = source.order.rows_of_step(step) >= 0
            return NonFinite(name, np.flatnonzero(~finite[: source.batch_size][is_point]).tolist())
    return NonFinite.of_loss(loss)


def points_of_step(source: Source, step: int, point_ids: np.ndarray | None) -> list[int]:
    """The ids of the points in a step's batch, from `point_ids` int64 [N]; None is their rows."""
    points = source.order.rows_of_step(step)
    points = points[points >= 0]  # padding may be anywhere in the batch
    return (points if point_ids is None else point_ids[points]).tolist()


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


def _check_tensors(model: Model, state: TrainState, batch: Batch) -> list[jax.Array]:
    """Whether each of `_TENSORS` is finite: bool [n], one per point, or a single bool."""
    features = batch.features
    n = features.starts.shape[0] - 1
    row = entry_rows(features)

    def by_point(entries: jax.Array) -> jax.Array:
        return jax.ops.segment_sum((~entries).astype(jnp.int32), row, n) == 0

    finite_rows = jnp.isfinite(as_float(state.features.rows[features.ids])).all(axis=1)
    finite_rows |= features.values == 0  # padding
    sums = embedding_bag(state.features.rows, features)
    # The new class rows are unused, so XLA computes no update and copies no table.
    results = forward_backward(model, state, batch, sums)
    head = state.head
    small_params = [head.log_scale] + ([] if head.bias is None else [head.bias])
    return [
        by_point(jnp.isfinite(features.values)),
        by_point(finite_rows),
        jnp.isfinite(sums).all(axis=1),
        _all_finite(state.tower),
        jnp.isfinite(results.queries).all(axis=1),
        jnp.isfinite(as_float(head.table.rows)).all(),
        _all_finite(small_params),
        jnp.isfinite(results.step.loss),
        jnp.isfinite(results.step.query_gradient).all(axis=1),
        _all_finite(results.grad_tower),
        jnp.isfinite(results.grad_sums).all(axis=1),
    ]


def _all_finite(tree: Any) -> jax.Array:
    leaves = [jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(tree)]
    return functools.reduce(jnp.logical_and, leaves, jnp.bool_(True))

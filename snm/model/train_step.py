"""One training step of the two-layer model, and a scan of several."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax

from snm.batches.batch import Batch
from snm.distributed.collectives import Shard
from snm.distributed.mesh import ONE_DEVICE, Axes
from snm.head.head import update_head
from snm.head.spec import in_precision
from snm.head.state import Head, HeadStep
from snm.model.encoder import apply_tower
from snm.model.model import Model, TrainState
from snm.tables.columns import sum_columns, update_columns
from snm.tables.optimizers import SGD, RowStep
from snm.tables.rounding import noise_for
from snm.tables.table import RowTable, SparseRows
from snm.tables.updates import update_rows

__all__ = [
    "Step",
    "StepStream",
    "centroid_step",
    "forward_backward",
    "train_step",
    "train_steps",
]


Step = Callable[..., tuple[TrainState, Any]]
"""`train_step`, or a function with the same arguments; returns the parameters and the metrics."""


class StepStream(enum.IntEnum):
    """The streams of random numbers in a step, one for each use.

    Do not change the values: a resumed run would draw other random numbers.
    """

    LOSS = 1
    CLASS_ROUNDING = 2
    FEATURE_ROUNDING = 3

    def key(self, step_key: jax.Array) -> jax.Array:
        """The key of this stream, derived from the key of the step."""
        return jax.random.fold_in(step_key, self.value)


class StepMetrics(NamedTuple):
    """The metrics of a step.

    Attributes:
      loss: float32 scalar, the sum of the points' losses divided by the batch size. The divisor of
        a batch with padding is its full size too, so that all points of an epoch weigh the same.
      ok: bool scalar, whether the step was taken: all values were finite, and `batch.taken` allowed
        it. If only a gradient of the tower or of the feature sums is not finite, the head is
        updated already.
    """

    loss: jax.Array
    ok: jax.Array


class ForwardBackward(NamedTuple):
    """The results of the forward and the backward pass above the feature rows.

    Attributes:
      queries: float32 [n, dim].
      head: the head after its step.
      step: the loss and the gradient of the head.
      grad_tower: the gradient of the parameters of the tower, on this shard.
      grad_sums: float32 [n, dim], the gradient of the sums.
    """

    queries: jax.Array
    head: Head
    step: HeadStep
    grad_tower: Any
    grad_sums: jax.Array


@in_precision
def train_step(
    model: Model,
    state: TrainState,
    batch: Batch,
    *,
    axes: Axes = ONE_DEVICE,
) -> tuple[TrainState, StepMetrics]:
    """One step: embeds the points, mines negatives, and updates the rows that the batch uses.

    Args:
      model: the description.
      state: parameters; donate their buffers.
      batch: the points.
      axes: the mesh axes over which tables and points are sharded.

    Returns:
      The parameters after the step, and its metrics, which are equal on all devices.
    """
    rows = state.features.rows
    shard = Shard.of(rows, model.num_features, axes.features, axes.data)
    step_key = _step_key(batch)
    features, learning_rate = batch.features, batch.rates.rows

    entries = shard.batch_entries(features, rows.shape[0])
    sums = _row_sums(rows, batch, shard, entries)
    results = forward_backward(model, state, batch, sums, axes=axes)
    head, grad_sums = results.head, results.grad_sums
    grad_tower = jax.tree.map(shard.data_sum, results.grad_tower)

    finite = jnp.all(jnp.isfinite(grad_sums)) & jnp.isfinite(optax.tree.sum(grad_tower))
    ok = results.step.ok & finite
    ok = Shard.of(head.table.rows, model.spec.num_labels, axes.label, axes.data).all(ok)
    noise = noise_for(rows, StepStream.FEATURE_ROUNDING.key(step_key))
    if batch.columns is not None and noise is None:
        feature_rows = update_columns(
            state.features, batch.columns, features, grad_sums, learning_rate=learning_rate, ok=ok
        )
    else:
        row_step = RowStep(
            model.spec.row_rule, learning_rate, noise=noise, first_row=shard.first_row
        )
        gradients = [(entries, shard.gather(grad_sums))]
        feature_rows = update_rows(state.features, gradients, row_step, ok=ok)
    updates, tower_state = model.tower_optimizer.update(grad_tower, state.tower_state, state.tower)
    updates = jax.tree.map(lambda update: update * batch.rates.tower, updates)
    tower = optax.apply_updates(state.tower, updates)
    tower, tower_state = jax.tree.map(
        lambda new, old: jnp.where(ok, new, old),
        (tower, tower_state),
        (state.tower, state.tower_state),
    )
    return TrainState(feature_rows, tower, tower_state, head), StepMetrics(results.step.loss, ok)


def forward_backward(
    model: Model,
    state: TrainState,
    batch: Batch,
    sums: jax.Array,
    *,
    axes: Axes = ONE_DEVICE,
) -> ForwardBackward:
    """The forward pass from the sums of feature rows through tower and head, and the backward pass.

    Args:
      model: the description.
      state: parameters.
      batch: the points.
      sums: float32 [n, dim], the sum of the feature rows of each point.
      axes: as in `train_step`.
    """
    step_key = _step_key(batch)
    queries, tower_vjp = jax.vjp(functools.partial(apply_tower, model.structure), state.tower, sums)
    head, step = update_head(
        model.spec,
        state.head,
        queries,
        batch.head_batch,
        learning_rate=batch.rates.rows,
        scale_learning_rate=batch.rates.scale,
        key=StepStream.LOSS.key(step_key),
        noise=noise_for(state.head.table.rows, StepStream.CLASS_ROUNDING.key(step_key)),
        taken=batch.taken,
        axes=axes,
    )
    return ForwardBackward(queries, head, step, *tower_vjp(step.query_gradient))


@in_precision
def centroid_step(
    model: Model,
    state: TrainState,
    batch: Batch,
    *,
    axes: Axes = ONE_DEVICE,
) -> tuple[TrainState, jax.Array]:
    """Adds the query of each point, weighted by its terms, to the class rows of its positives.

    Args:
      model: the description.
      state: parameters; donate their buffers. Only class rows change.
      batch: the points, from `Source.for_centroids`.
      axes: as in `train_step`.

    Returns:
      The parameters, and whether all queries were finite; if not, no row was written.
    """
    rows, table = state.features.rows, state.head.table
    shard = Shard.of(rows, model.num_features, axes.features, axes.data)
    entries = shard.batch_entries(batch.features, rows.shape[0])
    sums = _row_sums(rows, batch, shard, entries)
    queries = apply_tower(model.structure, state.tower, sums)
    classes = Shard.of(table.rows, model.spec.num_labels, axes.label, axes.data)
    positives = classes.batch_entries(batch.terms, table.rows.shape[0])
    ok = classes.all(jnp.all(jnp.isfinite(queries)))
    if batch.taken is not None:
        ok &= batch.taken
    gradients = [(positives, classes.gather(queries))]
    noise = noise_for(table.rows, _step_key(batch))  # the only random numbers of this step
    row_step = RowStep(SGD, -1.0, noise=noise, first_row=classes.first_row)
    summed = update_rows(RowTable(table.rows), gradients, row_step, ok=ok)
    head = dataclasses.replace(state.head, table=RowTable(summed.rows, table.accumulator))
    return dataclasses.replace(state, head=head), ok


def _step_key(batch: Batch) -> jax.Array:
    """The key of the step, from which `StepStream.key` derives that of each stream."""
    return jax.random.fold_in(jax.random.wrap_key_data(batch.key), batch.step)


def _row_sums(rows: jax.Array, batch: Batch, shard: Shard, entries: SparseRows) -> jax.Array:
    """The sum of the feature rows of each point; `entries` are the features of this shard."""
    if batch.columns is None:
        return shard.row_sums(rows, batch.features, entries)
    return sum_columns(rows, batch.columns, batch.features)


def train_steps(
    model: Model,
    state: TrainState,
    batches: Any,
    materialize: Any,
    *,
    step: Step = train_step,
    axes: Axes = ONE_DEVICE,
) -> tuple[TrainState, Any]:
    """Several steps in one dispatch: a scan of `step` over stacked batches.

    Args:
      model: the description.
      state: parameters; donate their buffers.
      batches: stacked items, one per step.
      materialize: makes the batch of an item.
      step: the step.
      axes: as in `train_step`.

    Returns:
      The parameters after the last step, and the stacked metrics.
    """

    def scan_body(state: TrainState, item: Any) -> tuple[TrainState, Any]:
        return step(model, state, materialize(item), axes=axes)

    return lax.scan(scan_body, state, batches)

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
from snm.tables.by_row import sum_columns, update_columns
from snm.tables.optimizers import SGD
from snm.tables.rounding import noise_for
from snm.tables.table import RowTable, SparseRows
from snm.tables.updates import update_rows

__all__ = [
    "Backward",
    "Step",
    "StepMetrics",
    "StepStream",
    "centroid_step",
    "forward_and_back",
    "train_step",
    "train_steps",
]


Step = Callable[..., tuple[TrainState, Any]]
"""`train_step`, or a function of the same arguments; returns the parameters, and what it found."""


class StepStream(enum.IntEnum):
    """What random numbers of a step are drawn for.

    The values are part of a run's bits: a run that goes on with others ends elsewhere.
    """

    LOSS = 1
    CLASS_ROUNDING = 2
    FEATURE_ROUNDING = 3

    def of(self, key: jax.Array) -> jax.Array:
        """The key of this use, from the key of the step."""
        return jax.random.fold_in(key, self.value)


class StepMetrics(NamedTuple):
    """What a step found.

    Attributes:
      loss: float32 scalar, the sum of the points' losses over the batch size. A batch with empty
        places is divided by its full size, so that each point of an epoch weighs the same.
      ok: bool scalar, whether the step was taken: all values were finite, and it was to be taken.
        If only the gradient of tower or feature sums is not, the head has taken its step already.
    """

    loss: jax.Array
    ok: jax.Array


class Backward(NamedTuple):
    """What a step found on the way from the sums of feature rows to the head and back.

    Attributes:
      queries: float32 [n, dim].
      head: the head after its step.
      step: what the head found.
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
    """One step: embed the points, mine negatives, and update the rows that the batch uses.

    Args:
      model: the description.
      state: parameters; donate their buffers.
      batch: the points.
      axes: of the mesh, over which tables and points are sharded.

    Returns:
      The parameters after the step, and its metrics, which are equal on all devices.
    """
    rows = state.features.rows
    shard = Shard.of(rows, model.num_features, axes.features, axes.data)
    key = _key_of(batch)
    features = batch.features
    rate = model.learning_rate * batch.decay

    entries = shard.batch_entries(features, rows.shape[0])
    sums = _row_sums(rows, batch, shard, entries)
    back = forward_and_back(model, state, batch, sums, axes=axes)
    head, grad_sums = back.head, back.grad_sums
    grad_tower = jax.tree.map(shard.data_sum, back.grad_tower)

    ok = back.step.ok & jnp.all(jnp.isfinite(grad_sums)) & jnp.isfinite(optax.tree.sum(grad_tower))
    ok = Shard.of(head.table.rows, model.spec.num_labels, axes.label, axes.data).all(ok)
    noise = noise_for(rows, StepStream.FEATURE_ROUNDING.of(key))
    if batch.columns is not None and noise is None:
        feature_rows = update_columns(
            state.features, batch.columns, features, grad_sums, learning_rate=rate, ok=ok
        )
    else:
        feature_rows = update_rows(
            state.features,
            [(entries, shard.gather(grad_sums))],
            optimizer=model.spec.row_rule,
            learning_rate=rate,
            ok=ok,
            noise=noise,
            first_row=shard.first_row,
        )
    steps, tower_state = model.tower_optimizer.update(grad_tower, state.tower_state, state.tower)
    steps = jax.tree.map(lambda step: step * batch.decay, steps)
    tower = optax.apply_updates(state.tower, steps)
    tower, tower_state = jax.tree.map(
        lambda new, old: jnp.where(ok, new, old),
        (tower, tower_state),
        (state.tower, state.tower_state),
    )
    return TrainState(feature_rows, tower, tower_state, head), StepMetrics(back.step.loss, ok)


def forward_and_back(
    model: Model,
    state: TrainState,
    batch: Batch,
    sums: jax.Array,
    *,
    axes: Axes = ONE_DEVICE,
) -> Backward:
    """From the sums of feature rows through tower and head, and back.

    Args:
      model: the description.
      state: parameters.
      batch: the points.
      sums: float32 [n, dim], of each point.
      axes: as in `train_step`.
    """
    key = _key_of(batch)
    queries, pull_back = jax.vjp(functools.partial(apply_tower, model.structure), state.tower, sums)
    head, step = update_head(
        model.spec,
        state.head,
        queries,
        batch.of_head,
        learning_rate=model.learning_rate * batch.decay,
        scale_learning_rate=model.scale_learning_rate * batch.decay,
        key=StepStream.LOSS.of(key),
        noise=noise_for(state.head.table.rows, StepStream.CLASS_ROUNDING.of(key)),
        taken=batch.taken,
        axes=axes,
    )
    return Backward(queries, head, step, *pull_back(step.query_gradient))


@in_precision
def centroid_step(
    model: Model,
    state: TrainState,
    batch: Batch,
    *,
    axes: Axes = ONE_DEVICE,
) -> tuple[TrainState, jax.Array]:
    """Adds the query of each point, times the weight of its terms, to the rows of its positives.

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
    summed = update_rows(
        RowTable(table.rows, None),
        [(positives, classes.gather(queries))],
        optimizer=SGD,
        learning_rate=-1.0,
        ok=ok,
        noise=noise_for(table.rows, _key_of(batch)),  # the only draw here
        first_row=classes.first_row,
    )
    head = dataclasses.replace(state.head, table=RowTable(summed.rows, table.accumulator))
    return dataclasses.replace(state, head=head), ok


def _key_of(batch: Batch) -> jax.Array:
    """The key of the step, from which `StepStream.of` makes that of each use."""
    return jax.random.fold_in(jax.random.wrap_key_data(batch.key), batch.step)


def _row_sums(rows: jax.Array, batch: Batch, shard: Shard, entries: SparseRows) -> jax.Array:
    """The sums of the feature rows of each point; `entries` are those of this shard."""
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
    """Several steps in one dispatch: a scan of `step` over stacked batches."""
    return lax.scan(lambda s, item: step(model, s, materialize(item), axes=axes), state, batches)

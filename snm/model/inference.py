"""Queries and exact top-k labels of a trained model."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from snm.distributed.collectives import Shard
from snm.distributed.mesh import ONE_DEVICE, Axes
from snm.head.spec import in_precision
from snm.head.state import Head
from snm.model.encoder import apply_tower
from snm.model.model import Model, TrainState
from snm.sampling.sample import find_slots
from snm.tables.rounding import as_float
from snm.tables.table import RowTable, SparseRows, entry_rows
from snm.topk.blocks import Added, Best, LabelRows, Masked
from snm.topk.search import best_scores

__all__ = [
    "add_to_biases",
    "best_labels",
    "dropped_labels",
    "embed",
    "join_members",
    "join_members_one_by_one",
    "pair_scores",
    "scaled_queries",
]


def join_members(states: Sequence[TrainState]) -> TrainState:
    """Joins the members of an ensemble into one state, whose scores are the sums of theirs.

    Feature rows and class rows are concatenated, towers and multipliers stacked, biases added. A
    single state is returned as it is.
    """
    if len(states) == 1:
        return states[0]
    features = jnp.concatenate([state.features.rows for state in states], axis=1)
    classes = jnp.concatenate([state.head.table.rows for state in states], axis=1)
    return _joined_state(features, classes, [_SmallParams.of(state) for state in states])


def join_members_one_by_one(states: Iterable[TrainState], members: int) -> TrainState:
    """Joins members as `join_members`, one at a time: for states that are read from checkpoints.

    At any time, the device holds the result and a single member.

    Args:
      states: one for each member, on one device.
      members: the number of members.
    """
    iterator = iter(states)
    state = next(iterator, None)
    assert state is not None
    if members == 1:
        return state
    features = _zeros_for_members(state.features.rows, members)
    classes = _zeros_for_members(state.head.table.rows, members)
    small: list[_SmallParams] = []
    while state is not None:
        features = _write_columns(features, state.features.rows, len(small))
        classes = _write_columns(classes, state.head.table.rows, len(small))
        small.append(_SmallParams.of(state))
        del state  # frees its buffers before the next one is read
        state = next(iterator, None)
    return _joined_state(features, classes, small)


class _SmallParams(NamedTuple):
    """The parameters of a member without its two tables."""

    tower: Any
    bias: jax.Array | None
    log_scale: jax.Array

    @classmethod
    def of(cls, state: TrainState) -> _SmallParams:
        return cls(state.tower, state.head.bias, state.head.log_scale)


def _zeros_for_members(rows: jax.Array, members: int) -> jax.Array:
    """Zeros [r, members * dim], with the dtype and sharding of the rows [r, dim] of one member."""
    count, dim = rows.shape
    return jnp.zeros((count, members * dim), rows.dtype, device=rows.sharding)


@functools.partial(jax.jit, donate_argnums=0)
def _write_columns(joined: jax.Array, rows: jax.Array, member: int) -> jax.Array:
    """Writes the rows of a member, counted from 0, into its columns of the joined table."""
    return jax.lax.dynamic_update_slice(joined, rows, (0, member * rows.shape[1]))


def _joined_state(
    features: jax.Array, classes: jax.Array, small: Sequence[_SmallParams]
) -> TrainState:
    biases = [params.bias for params in small if params.bias is not None]
    return TrainState(
        features=RowTable(features),
        tower=jax.tree.map(lambda *leaves: jnp.stack(leaves), *[params.tower for params in small]),
        tower_state=None,
        head=Head(
            table=RowTable(classes),
            bias=functools.reduce(jnp.add, biases) if biases else None,
            log_scale=jnp.stack([params.log_scale for params in small]),
        ),
    )


def add_to_biases(state: TrainState, shifts: np.ndarray) -> TrainState:
    """Adds float32 [K] `shifts` to the biases of a state; the state must have biases.

    The biases of a sharded table are padded to a multiple of the number of shards.
    """
    head = state.head
    assert head.bias is not None
    bias = jnp.asarray(head.bias)
    padded = np.pad(shifts, (0, len(bias) - len(shifts)))
    bias = bias + jax.device_put(padded, bias.sharding)
    return dataclasses.replace(state, head=dataclasses.replace(head, bias=bias))


@in_precision
def embed(
    model: Model,
    state: TrainState,
    features: SparseRows,
    *,
    axes: Axes = ONE_DEVICE,
) -> jax.Array:
    """Queries float32 [n, members * dim] of weighted features, without dropout.

    The query of each member has unit length; its score multiplier is not applied. The axes are
    those of `train_step`.
    """
    rows = state.features.rows
    shard = Shard.of(rows, model.num_features, axes.features, axes.data)
    sums = shard.row_sums(rows, features)
    if model.members == 1:
        return apply_tower(model.structure, state.tower, sums)
    towers = [jax.tree.map(lambda leaf, m=m: leaf[m], state.tower) for m in range(model.members)]
    parts = jnp.split(sums, model.members, axis=1)
    queries = [
        apply_tower(model.structure, tower, part) for tower, part in zip(towers, parts, strict=True)
    ]
    return jnp.concatenate(queries, axis=1)


def scaled_queries(
    model: Model, state: TrainState, features: SparseRows, *, axes: Axes = ONE_DEVICE
) -> jax.Array:
    """Queries float32 [n, members * dim], multiplied by the score multiplier of each member.

    Their inner products with the class rows are the scores without the biases. The axes are those
    of `embed`.
    """
    multipliers = jnp.repeat(jnp.exp(jnp.atleast_1d(state.head.log_scale)), model.dim)
    return embed(model, state, features, axes=axes) * multipliers[None, :]


@in_precision
def best_labels(
    model: Model,
    state: TrainState,
    features: SparseRows,
    queries: jax.Array,
    count: int,
    *,
    added: Added | None = None,
    ids: jax.Array | None = None,
    axes: Axes = ONE_DEVICE,
) -> Best:
    """The exact top `count` labels of each point, of all K or some; ties go to the lowest id.

    Args:
      model: the description.
      state: the parameters.
      features: of the points, weighted; with `model.drop_seen`, labels among them are masked.
      queries: float32 [n, members * dim], the `scaled_queries` of the points.
      count: the number of labels per point.
      added: added to the scores of some labels; its slots are labels, or indices into `ids`.
      ids: int32 [S] ascending, the labels to choose from, padded with K; None is all K. The cost
        grows with S, not with K.
      axes: as in `train_step`.

    Returns:
      Scores float32 [n, count], MASKED where there are fewer labels; the slots are label ids.
    """
    rows, bias = state.head.table.rows, state.head.bias
    shard = Shard.of(rows, model.spec.num_labels, axes.label)
    labels = LabelRows(rows, ids, bias, shard.first_row, shard.num_valid)
    if added is not None and ids is None:
        added = added._replace(slots=added.slots - shard.first_row)
    best = best_scores(
        queries,
        labels,
        min(count, labels.num_searched),
        masked=dropped_labels(model, features, shard, ids),
        added=added,
        compute_dtype=jnp.dtype(model.spec.compute_dtype),
        kernel=model.spec.mining_kernel,
    )
    label_ids = best.slots + shard.first_row if ids is None else ids[best.slots]
    return shard.merge_topk(Best(best.scores, label_ids), count)


def dropped_labels(
    model: Model, features: SparseRows, shard: Shard, ids: jax.Array | None = None
) -> Masked | None:
    """The mask of the labels among a point's own features; None unless `model.drop_seen`.

    Its slots are rows of this shard, or indices into `ids` if only these labels are scored.
    """
    if not model.drop_seen:
        return None
    real = jnp.arange(features.ids.shape[0]) < features.starts[-1]
    labels = jnp.where(real, features.ids, model.spec.num_labels)
    if ids is None:
        return Masked(entry_rows(features), labels - shard.first_row)
    slots = find_slots(ids, labels)
    return Masked(entry_rows(features), jnp.where(slots < 0, ids.shape[0], slots))


@in_precision
def pair_scores(
    model: Model,
    state: TrainState,
    queries: jax.Array,
    rows: jax.Array,
    labels: jax.Array,
    *,
    axes: Axes = ONE_DEVICE,
) -> jax.Array:
    """Scores of some (query, label) pairs; reads the class rows of these labels only.

    Args:
      model: the description.
      state: the parameters.
      queries: float32 [n, members * dim], from `scaled_queries`.
      rows: int32 [E], the query of each pair.
      labels: int32 [E]; K is padding, whose score is undefined.
      axes: as in `train_step`; all devices have the same queries and pairs.

    Returns:
      float32 [E].
    """
    table = state.head.table.rows
    shard = Shard.of(table, model.spec.num_labels, axes.label)
    place, here = shard.local(labels, table.shape[0])
    compute_dtype = jnp.dtype(model.spec.compute_dtype)
    scores = jnp.einsum(
        "ed,ed->e",
        queries[rows].astype(compute_dtype),
        as_float(table[place]).astype(compute_dtype),
        preferred_element_type=jnp.float32,
    )
    if state.head.bias is not None:
        scores = scores + state.head.bias[place]
    return shard.sum(jnp.where(here, scores, 0))

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
from snm.tables.rounding import as_float
from snm.tables.table import RowTable, SparseRows, entry_rows
from snm.topk.blocks import Added, Best, LabelRows, Masked
from snm.topk.search import best_scores

__all__ = [
    "adjusted",
    "best_labels",
    "dropped_labels",
    "embed",
    "join",
    "join_as_read",
    "pair_scores",
    "scaled_queries",
]


def join(states: Sequence[TrainState]) -> TrainState:
    """Joins the states of several members into one for scoring, where their scores are added.

    Feature rows and class rows are concatenated, towers and multipliers stacked, biases added. A
    single state is returned as it is.
    """
    if len(states) == 1:
        return states[0]
    tables = zip(*map(_tables, states), strict=True)
    features, classes = (jnp.concatenate(of_all, axis=1) for of_all in tables)
    return _joined(features, classes, [_Small.of(state) for state in states])


def join_as_read(states: Iterable[TrainState], members: int) -> TrainState:
    """`join` of states on one device that come one after the other, such as from checkpoints.

    Beside the result, memory has to hold one of them, and not all.

    Args:
      states: one for each member.
      members: how many.
    """
    coming = iter(states)
    state = next(coming, None)
    assert state is not None
    if members == 1:
        return state
    features, classes = (_wide(rows, members) for rows in _tables(state))
    small: list[_Small] = []
    while state is not None:
        features = _beside(features, state.features.rows, len(small))
        classes = _beside(classes, state.head.table.rows, len(small))
        small.append(_Small.of(state))
        del state  # before the next one is read
        state = next(coming, None)
    return _joined(features, classes, small)


class _Small(NamedTuple):
    """What a member has besides its tables."""

    tower: Any
    bias: jax.Array | None
    log_scale: jax.Array

    @classmethod
    def of(cls, state: TrainState) -> _Small:
        return cls(state.tower, state.head.bias, state.head.log_scale)


def _tables(state: TrainState) -> tuple[jax.Array, jax.Array]:
    return state.features.rows, state.head.table.rows


def _wide(rows: jax.Array, members: int) -> jax.Array:
    """Zeros for the rows of all members side by side, where the rows of one are."""
    count, dim = rows.shape
    return jnp.zeros((count, members * dim), rows.dtype, device=rows.sharding)


@functools.partial(jax.jit, donate_argnums=0)
def _beside(wide: jax.Array, rows: jax.Array, place: int) -> jax.Array:
    return jax.lax.dynamic_update_slice(wide, rows, (0, place * rows.shape[1]))


def _joined(features: jax.Array, classes: jax.Array, small: Sequence[_Small]) -> TrainState:
    biases = [one.bias for one in small if one.bias is not None]
    return TrainState(
        features=RowTable(features),
        tower=jax.tree.map(lambda *leaves: jnp.stack(leaves), *[one.tower for one in small]),
        tower_state=None,
        head=Head(
            table=RowTable(classes),
            bias=functools.reduce(jnp.add, biases) if biases else None,
            log_scale=jnp.stack([one.log_scale for one in small]),
        ),
    )


def adjusted(state: TrainState, shifts: np.ndarray) -> TrainState:
    """The state with float32 [K] `shifts` added to its biases, of which it has some.

    The biases of a sharded table are padded to a multiple of the shards.
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

    The part of each member has unit length, before it is multiplied by the member's multiplier.
    The axes are those of `train_step`.
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
    """Queries float32 [n, members * dim], times the multiplier of each member.

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
    """The exact `count` best labels for each point, of all K or of some; ties go to the lowest.

    Args:
      model: the description.
      state: the parameters.
      features: of the points, weighted; where `model.drop_seen`, these are no answers.
      queries: float32 [n, members * dim], the `scaled_queries` of the points.
      count: how many labels.
      added: added to the scores of some labels; its slots are labels, or indices into `ids`.
      ids: int32 [S] ascending, the labels to choose from, padded with K; None is all K. The cost
        grows with S, not with K.
      axes: as in `train_step`.

    Returns:
      scores float32 [n, count], MASKED where there are fewer labels; and their labels as slots.
    """
    rows, bias = state.head.table.rows, state.head.bias
    shard = Shard.of(rows, model.spec.num_labels, axes.label)
    labels = LabelRows(rows, ids, bias, shard.first_row, shard.num_valid)
    if added is not None and ids is None:
        added = added._replace(slots=added.slots - shard.first_row)
    best = best_scores(
        queries,
        labels,
        min(count, labels.num_slots),
        masked=dropped_labels(model, features, shard, ids),
        added=added,
        compute_dtype=jnp.dtype(model.spec.compute_dtype),
        kernel=model.spec.mining_kernel,
    )
    found = best.slots + shard.first_row if ids is None else ids[best.slots]
    return shard.merge_topk(Best(best.scores, found), count)


def dropped_labels(
    model: Model, features: SparseRows, shard: Shard, ids: jax.Array | None = None
) -> Masked | None:
    """The labels among a point's own features, where they are dropped.

    They are rows of this shard; or, where `ids` are scored, indices into these.
    """
    if not model.drop_seen:
        return None
    real = jnp.arange(features.ids.shape[0]) < features.starts[-1]
    labels = jnp.where(real, features.ids, model.spec.num_labels)
    if ids is None:
        return Masked(entry_rows(features), labels - shard.first_row)
    slots = jnp.minimum(jnp.searchsorted(ids, labels), ids.shape[0] - 1)
    slots = jnp.where(ids[slots] == labels, slots, ids.shape[0])
    return Masked(entry_rows(features), slots.astype(jnp.int32))


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
    kind = jnp.dtype(model.spec.compute_dtype)
    products = jnp.einsum(
        "ed,ed->e",
        queries[rows].astype(kind),
        as_float(table[place]).astype(kind),
        preferred_element_type=jnp.float32,
    )
    if state.head.bias is not None:
        products = products + state.head.bias[place]
    return shard.sum(jnp.where(here, products, 0))

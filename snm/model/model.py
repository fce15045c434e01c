"""The model's parameters, its training step and its scores: pure functions of arrays."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax import lax

from snm.batches.source import Batch
from snm.distributed.collectives import Shard
from snm.evaluation.auc import pairs_in_order
from snm.head.head import Head, init_head, update_head
from snm.head.spec import HeadSpec
from snm.model.encoder import Tower, apply_tower, init_tower
from snm.tables.by_row import sum_columns, update_columns
from snm.tables.rounding import noise_of
from snm.tables.table import RowTable, SparseRows, entry_rows, random_rows
from snm.tables.updates import has_accumulator, update_rows
from snm.topk.search import Best, Masked, best_scores

__all__ = [
    "Model",
    "StepMetrics",
    "TrainState",
    "abstract_state",
    "best_labels",
    "embed",
    "init_state",
    "join",
    "labels_in_order",
    "scaled_queries",
    "train_step",
    "train_steps",
]


@dataclasses.dataclass(frozen=True)
class Model:
    """Everything static about the model: hashable, so that a compiled step can be found by it.

    Attributes:
      head: what the head computes.
      num_features: d.
      dim: of feature rows, queries and class rows.
      encoder: a name of `encoder.ENCODERS`.
      feature_init: length of a feature row at the start.
      score_scale: multiplier of the scores, at the start where it is learned.
      input_dropout: share of features left out at each visit.
      learning_rate: of the rows of features and classes.
      tower_learning_rate: of the dense tower.
      tower_momentum: of the dense tower.
      scale_learning_rate: of the logarithm of a learned multiplier.
      schedule: constant, linear or cosine.
      total_steps: over which the schedule falls.
      seed: of initial values.
      members: models trained apart whose scores are added; 1 while training. See `join`.
      drop_seen: labels with the numbers of a point's own features are never its answers, nor its
        negatives where the head leaves out all known labels.
    """

    head: HeadSpec
    num_features: int
    dim: int
    encoder: str
    feature_init: float
    score_scale: float
    input_dropout: float
    learning_rate: float
    tower_learning_rate: float
    tower_momentum: float
    scale_learning_rate: float
    schedule: str
    total_steps: int
    seed: int
    members: int = 1
    drop_seen: bool = False

    @functools.cached_property
    def structure(self) -> nnx.GraphDef[Tower]:
        """Of the dense tower."""
        return init_tower(self.dim, self.encoder, self.head.compute_dtype, self.seed)[0]

    @functools.cached_property
    def tower_optimizer(self) -> optax.GradientTransformation:
        """Momentum on the dense layer, as in the paper."""
        return optax.sgd(
            lambda step: self.tower_learning_rate * self.decay(step), momentum=self.tower_momentum
        )

    def decay(self, step: jax.Array) -> jax.Array:
        """What the rates are multiplied by at a step: from 1 down towards 0."""
        if self.schedule == "constant":
            return jnp.float32(1.0)
        fall = (
            optax.schedules.linear_schedule(1.0, 0.0, self.total_steps)
            if self.schedule == "linear"
            else optax.schedules.cosine_decay_schedule(1.0, self.total_steps)
        )
        return jnp.asarray(fall(step), jnp.float32)


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["features", "tower", "tower_state", "head"],
    meta_fields=[],
)
@dataclasses.dataclass(frozen=True)
class TrainState:
    """All parameters and optimiser state.

    Attributes:
      features: the feature rows (W1) [d, dim].
      tower: parameters of the dense tower.
      tower_state: its optimiser's state.
      head: class rows, bias, multiplier of the scores.
    """

    features: RowTable
    tower: Any
    tower_state: Any
    head: Head


class StepMetrics(NamedTuple):
    """What a step reports: its loss, and whether all was finite and the step was taken."""

    loss: jax.Array
    ok: jax.Array


def init_state(
    model: Model,
    *,
    part: tuple[jax.Array, int] | None = None,
    feature_part: tuple[jax.Array, int] | None = None,
) -> TrainState:
    """Parameters at the start: rows on spheres, the dense layer by its own rule.

    Args:
      model: what is trained.
      part: (i, parts) for the i-th of so many equal ranges of class rows.
      feature_part: the same of the feature rows.
    """
    features_key, head_key = jax.random.split(jax.random.key(model.seed))
    rows = random_rows(
        features_key,
        model.num_features,
        model.dim,
        length=model.feature_init,
        part=feature_part,
        dtype=model.head.table_dtype,
    )
    keeps = has_accumulator(model.head.row_optimizer)
    accumulator = jnp.zeros(rows.shape[0]) if keeps else None
    tower = init_tower(model.dim, model.encoder, model.head.compute_dtype, model.seed)[1]
    return TrainState(
        features=RowTable(rows, accumulator),
        tower=tower,
        tower_state=model.tower_optimizer.init(tower),
        head=init_head(model.head, head_key, model.dim, score_scale=model.score_scale, part=part),
    )


def abstract_state(model: Model) -> TrainState:
    """Shapes and types of the state, without its arrays."""
    return jax.eval_shape(functools.partial(init_state, model))


def train_step(
    model: Model,
    state: TrainState,
    batch: Batch,
    *,
    label_axis: str | None = None,
    data_axis: str | None = None,
    feature_axis: str | None = None,
) -> tuple[TrainState, StepMetrics]:
    """One step: embed, mine, take the loss, step every row that the batch touched.

    Args:
      model: what is trained.
      state: parameters; donate them.
      batch: the points.
      label_axis: mesh axis that the class rows are cut over, or None.
      data_axis: mesh axis that the points are cut over, or None; see `snm.distributed.collectives`.
      feature_axis: mesh axis that the feature rows are cut over, either of these, or None.

    Returns:
      The parameters after the step, and what it tells, the same on every device.
    """
    rows = state.features.rows
    shard = Shard.of(rows, model.num_features, feature_axis, data_axis)
    key = jax.random.fold_in(jax.random.wrap_key_data(batch.key), batch.step)
    features = _dropped_out(model, batch.features, key, shard)
    rate = model.learning_rate * model.decay(batch.step)
    narrow = rows.dtype == jnp.uint16

    entries = shard.of_batch(features, rows.shape[0])
    if batch.columns is None:
        sums = shard.row_sums(rows, features, entries)
    else:
        sums = sum_columns(rows, batch.columns, features)
    queries, pull_back = jax.vjp(functools.partial(apply_tower, model.structure), state.tower, sums)
    head, step = update_head(
        model.head,
        state.head,
        queries,
        batch.terms,
        batch.sample,
        learning_rate=rate,
        scale_learning_rate=model.scale_learning_rate * model.decay(batch.step),
        known=batch.known,
        seen=batch.features if model.drop_seen else None,
        key=jax.random.fold_in(key, 1),
        noise=noise_of(jax.random.fold_in(key, 2)) if narrow else None,
        axis_name=label_axis,
        data_axis=data_axis,
    )
    of_tower, of_sums = pull_back(step.query_gradient)
    of_tower = jax.tree.map(shard.data_sum, of_tower)

    ok = step.ok & jnp.all(jnp.isfinite(of_sums)) & jnp.isfinite(optax.tree.sum(of_tower))
    ok = Shard.of(head.table.rows, model.head.num_labels, label_axis, data_axis).all(ok)
    if batch.columns is not None and not narrow:
        feature_rows = update_columns(
            state.features, batch.columns, features, of_sums, learning_rate=rate, ok=ok
        )
    else:
        feature_rows = update_rows(
            state.features,
            [(entries, shard.gather(of_sums))],
            optimizer=model.head.row_optimizer,
            learning_rate=rate,
            ok=ok,
            noise=noise_of(jax.random.fold_in(key, 3)) if narrow else None,
        )
    steps, tower_state = model.tower_optimizer.update(of_tower, state.tower_state, state.tower)
    tower = optax.apply_updates(state.tower, steps)
    tower, tower_state = jax.tree.map(
        lambda new, old: jnp.where(ok, new, old),
        (tower, tower_state),
        (state.tower, state.tower_state),
    )
    return TrainState(feature_rows, tower, tower_state, head), StepMetrics(step.loss, ok)


def _dropped_out(model: Model, features: SparseRows, key: jax.Array, shard: Shard) -> SparseRows:
    """Leaves features out and scales up the rest, so that the expected sum stays."""
    if not model.input_dropout:
        return features
    keep = 1.0 - model.input_dropout
    entries = features.values.shape[0]
    kept = jax.random.bernoulli(jax.random.fold_in(key, 0), keep, (entries * shard.data_parts,))
    kept = shard.own_draws(kept, features.starts)
    return features._replace(values=jnp.where(kept, features.values / keep, 0))


def join(states: Sequence[TrainState]) -> TrainState:
    """The states of several members as one, for scoring: a score is the sum of the members' own.

    Feature rows and class rows stand side by side, towers and multipliers are stacked, biases are
    added up. One state stays as it is.
    """
    if len(states) == 1:
        return states[0]
    heads = [state.head for state in states]
    biases = [head.bias for head in heads if head.bias is not None]
    return TrainState(
        features=RowTable(jnp.concatenate([state.features.rows for state in states], axis=1)),
        tower=jax.tree.map(lambda *leaves: jnp.stack(leaves), *[state.tower for state in states]),
        tower_state=None,
        head=Head(
            table=RowTable(jnp.concatenate([head.table.rows for head in heads], axis=1)),
            bias=functools.reduce(jnp.add, biases) if biases else None,
            log_scale=jnp.stack([head.log_scale for head in heads]),
        ),
    )


def embed(
    model: Model,
    state: TrainState,
    features: SparseRows,
    *,
    data_axis: str | None = None,
    feature_axis: str | None = None,
) -> jax.Array:
    """Queries float32 [n, members * dim] of weighted features, without dropout.

    Those of each member have unit length; they are not yet times its multiplier. The axes are
    those of `train_step`; without `data_axis` the points are the same on every device.
    """
    rows = state.features.rows
    shard = Shard.of(rows, model.num_features, feature_axis, data_axis)
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
    model: Model, state: TrainState, features: SparseRows, **axes: str | None
) -> jax.Array:
    """Queries float32 [n, members * dim] whose inner products with class rows are the scores.

    All but the bias, that is: each member's part is times its own multiplier. The axes are those
    of `embed`.
    """
    multipliers = jnp.repeat(jnp.exp(jnp.atleast_1d(state.head.log_scale)), model.dim)
    return embed(model, state, features, **axes) * multipliers[None, :]


def best_labels(
    model: Model,
    state: TrainState,
    features: SparseRows,
    count: int,
    *,
    label_axis: str | None = None,
    **axes: str | None,
) -> Best:
    """The `count` best labels of each point over all K, exactly, ties to the lowest label.

    The axes are those of `train_step` and of `embed`.
    """
    rows = state.head.table.rows
    shard = Shard.of(rows, model.head.num_labels, label_axis)
    best = best_scores(
        scaled_queries(model, state, features, **axes),
        rows,
        None,
        min(count, rows.shape[0]),
        masked=_seen(model, features, shard),
        bias=state.head.bias,
        first_row=shard.first_row,
        num_valid=shard.num_valid,
        compute_dtype=jnp.dtype(model.head.compute_dtype),
    )
    return shard.agree(Best(best.scores, best.slots + shard.first_row), count)


def _seen(model: Model, features: SparseRows, shard: Shard) -> Masked | None:
    """This shard's rows of the labels that are a point's own features, where they are dropped."""
    if not model.drop_seen:
        return None
    real = jnp.arange(features.ids.shape[0]) < features.starts[-1]
    slots = jnp.where(real, features.ids, model.head.num_labels) - shard.first_row
    return Masked(entry_rows(features), slots)


def labels_in_order(
    model: Model,
    state: TrainState,
    features: SparseRows,
    relevant: SparseRows,
    left_out: Masked,
    *,
    label_axis: str | None = None,
    **axes: str | None,
) -> jax.Array:
    """`areas.pairs_in_order` of the relevant labels of each point, over all K labels.

    The axes are those of `train_step` and of `embed`; the points are the same on every device.
    """
    rows = state.head.table.rows
    shard = Shard.of(rows, model.head.num_labels, label_axis)
    return pairs_in_order(
        scaled_queries(model, state, features, **axes),
        rows,
        relevant,
        left_out,
        last=_seen(model, features, shard),
        shard=shard,
        bias=state.head.bias,
        compute_dtype=jnp.dtype(model.head.compute_dtype),
    )


def train_steps(
    model: Model, state: TrainState, batches: Any, materialize: Any, **axes: str | None
) -> tuple[TrainState, StepMetrics]:
    """Several steps in one dispatch: a scan of `train_step` over stacked batches."""
    return lax.scan(lambda s, item: train_step(model, s, materialize(item), **axes), state, batches)

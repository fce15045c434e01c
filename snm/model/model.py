"""The model's parameters, its training step and its scores: pure functions of arrays."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from snm.head.spec import HeadSpec
from snm.head.state import Head, init_head
from snm.model.encoder import Tower, init_tower
from snm.tables.optimizers import has_accumulator
from snm.tables.table import RowTable, random_rows

__all__ = ["Model", "TrainState", "abstract_state", "init_state"]


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

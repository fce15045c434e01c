"""The two-layer model: its static description, its parameters, and how they are initialized."""

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
from snm.tables.table import RowTable, random_rows

__all__ = ["Model", "TrainState", "abstract_state", "init_state"]


@dataclasses.dataclass(frozen=True)
class Model:
    """The static description of a model. It is hashable: compiled programs are cached by it.

    Learning rates are not part of it: they come with each batch.

    Attributes:
      spec: of the head: sampling, mining and loss over the K labels.
      num_features: d.
      dim: dimension of feature rows, queries and class rows.
      encoder: a name of `encoder.ENCODERS`.
      feature_init: initial length of a feature row.
      score_scale: multiplier of the scores; its initial value where it is learned.
      tower_momentum: of the dense tower.
      members: models whose scores are added; 1 while training. See `inference.join_members`.
      drop_seen: labels with the numbers of a point's own features are never predicted for it, nor
        are they its negatives where the head excludes all known labels.
    """

    spec: HeadSpec
    num_features: int
    dim: int
    encoder: str
    feature_init: float
    score_scale: float
    tower_momentum: float
    members: int = 1
    drop_seen: bool = False

    @functools.cached_property
    def structure(self) -> nnx.GraphDef[Tower]:
        """The static part of the dense tower."""
        key = jax.random.key(0)  # any key: the parameters are discarded
        return init_tower(self.dim, self.encoder, self.spec.compute_dtype, key)[0]

    @functools.cached_property
    def tower_optimizer(self) -> optax.GradientTransformation:
        """SGD with momentum for the dense tower (Reddi et al., 2019, section 5), at rate 1.

        The rate of a step comes with its batch, and multiplies the update.
        """
        # A schedule, not a number: its step counter is part of every checkpoint.
        return optax.sgd(lambda step: 1.0, momentum=self.tower_momentum)


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["features", "tower", "tower_state", "head"],
    meta_fields=[],
)
@dataclasses.dataclass(frozen=True)
class TrainState:
    """All parameters, and the state of their optimizers.

    Attributes:
      features: the embedding table of the features (W1), [d, dim].
      tower: parameters of the dense tower.
      tower_state: the state of its optimizer.
      head: class rows [K, dim], biases [K], logarithm of the score multiplier.
    """

    features: RowTable
    tower: Any
    tower_state: Any
    head: Head


def init_state(
    model: Model,
    seed: jax.Array | int = 0,
    *,
    part: tuple[jax.Array, int] | None = None,
    feature_part: tuple[jax.Array, int] | None = None,
) -> TrainState:
    """Initial parameters: rows of fixed length in random directions, and an initialized tower.

    Args:
      model: the description.
      seed: uint32 scalar. Passed as an array, it lets all members share one compiled program.
      part: (i, n) for the i-th of n equal ranges of class rows; None is all rows.
      feature_part: the same for the feature rows.
    """
    key = jax.random.key(seed)
    features_key, head_key, tower_key = jax.random.split(key, 3)
    rows = random_rows(
        features_key,
        model.num_features,
        model.dim,
        length=model.feature_init,
        part=feature_part,
        dtype=model.spec.table_dtype,
    )
    accumulator = jnp.zeros(rows.shape[0]) if model.spec.row_rule.has_accumulator else None
    tower = init_tower(model.dim, model.encoder, model.spec.compute_dtype, tower_key)[1]
    return TrainState(
        features=RowTable(rows, accumulator),
        tower=tower,
        tower_state=model.tower_optimizer.init(tower),
        head=init_head(model.spec, head_key, model.dim, score_scale=model.score_scale, part=part),
    )


@functools.lru_cache(maxsize=16)  # tracing all parameters is slow, and a training asks often
def abstract_state(model: Model) -> TrainState:
    """Shapes and dtypes of the state, without arrays."""
    return jax.eval_shape(functools.partial(init_state, model))

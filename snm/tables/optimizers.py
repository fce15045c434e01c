"""Row optimizers: compute the step of each touched row from its gradient.

To add one, write its rule and add it to `ROW_OPTIMIZERS`. `snm.tables.updates` does the rest: it
finds the rows of a batch and updates them in place, with any optimizer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from snm.tables.rounding import as_float, rounded_steps
from snm.tables.table import normalize

__all__ = ["ROW_OPTIMIZERS", "SGD", "RowOptimizer", "RowStep"]


_ADAGRAD_EPSILON = 1e-10


RowRule = Callable[[Any, jax.Array], tuple[jax.Array, Any]]
"""(accumulators, gradients) -> (directions, new accumulators).

Accumulators are float [m], or None for an optimizer that has none; gradients and directions are
float [m, dim]. Each gradient is the sum of one row's gradients over the batch. The step of a row is
minus the learning rate times its direction. Rows that the batch does not name keep their
accumulator, so that one that decays does so only in the steps that touch its row.
"""


@dataclasses.dataclass(frozen=True)
class RowOptimizer:
    """An optimizer that updates each row of a table separately.

    Attributes:
      rule: computes the direction from the gradient; None if the direction is the gradient.
      has_accumulator: whether it stores one float32 per row.
    """

    rule: RowRule | None
    has_accumulator: bool = True

    @property
    def linear(self) -> bool:
        """Whether the step is linear in the gradient.

        If so, the entries of a row can be applied one after the other, without sorting and summing
        them first.
        """
        return self.rule is None


def adagrad(accumulator: jax.Array, gradient: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Row-wise Adagrad: direction = g / sqrt(a), where a sums mean(g ** 2) over the steps.

    References:
      Duchi, Hazan and Singer, Adaptive Subgradient Methods (2011); here with one sum for each row
      instead of one for each parameter.
    """
    accumulator = accumulator + jnp.mean(gradient * gradient, axis=-1)
    return gradient * lax.rsqrt(accumulator + _ADAGRAD_EPSILON)[:, None], accumulator


SGD = RowOptimizer(rule=None, has_accumulator=False)

ROW_OPTIMIZERS: dict[str, RowOptimizer] = {
    "sgd": SGD,
    "adagrad": RowOptimizer(adagrad),
}
"""Name -> optimizer: the choices of `Config.row_optimizer`."""


@dataclasses.dataclass(frozen=True)
class RowStep:
    """The step of the rows of a table: how each moves by its gradient, and how it is rounded.

    Attributes:
      optimizer: computes the direction of each row, such as a value of `ROW_OPTIMIZERS`.
      learning_rate: scalar.
      unit_norm: whether to scale the rows back to unit length after the step (projected SGD).
      noise: uint32 scalar that seeds the stochastic rounding of tables narrower than float32; pass
        a new one at every step. Not used for float32.
      first_row: the row of the whole table at which this shard starts; it seeds the rounding, so
        that shards use different random bits.
    """

    optimizer: RowOptimizer
    learning_rate: jax.Array | float
    _: dataclasses.KW_ONLY
    unit_norm: bool = False
    noise: jax.Array | None = None
    first_row: jax.Array | int = 0

    def apply(
        self,
        rows: jax.Array,
        accumulator: jax.Array | None,
        gradient: jax.Array,
        ids: jax.Array,
        *,
        stored: jax.Array | None = None,
    ) -> tuple[jax.Array, jax.Array | None]:
        """Updates and rounds rows, once each.

        Args:
          rows: distinct rows [m, dim], in the storage type of the table or as float32.
          accumulator: float32 [m], of the rows; None if the optimizer has none.
          gradient: float32 [m, dim], summed over the batch.
          ids: int32 [m], the table rows of this shard that `rows` are.
          stored: the rows in the storage type, if `rows` were converted to float32 already.

        Returns:
          The new rows in the storage type, and the new accumulators.
        """
        direction = gradient
        if self.optimizer.rule is not None:
            direction, accumulator = self.optimizer.rule(accumulator, gradient)
        new = as_float(rows)
        new = new - jnp.asarray(self.learning_rate, new.dtype) * direction
        if self.unit_norm:
            new = normalize(new)
        steps = self.learning_rate * gradient
        stored = rows if stored is None else stored
        return rounded_steps(stored, new, steps, ids + self.first_row, self.noise), accumulator

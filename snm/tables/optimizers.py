"""Row optimisers: compute the step of each touched row from its gradient.

To add one, write its rule and add it to `ROW_OPTIMIZERS`. `snm.tables.updates` does the rest: it
finds the rows of a batch and updates them in place, with any optimiser.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from snm.tables.rounding import as_float
from snm.tables.table import RowTable, normalize

__all__ = ["ROW_OPTIMIZERS", "SGD", "RowOptimizer", "step_rows"]


_ADAGRAD_EPSILON = 1e-10


RowRule = Callable[[Any, jax.Array], tuple[jax.Array, Any]]
"""(accumulators, gradients) -> (directions, new accumulators).

Accumulators are float [m], or None for an optimiser that has none; gradients and directions are
float [m, dim]. Each gradient is the sum of one row's gradients over the batch. The step of a row is
minus the learning rate times its direction. Rows that the batch does not name keep their
accumulator, so that one that decays does so only in the steps that touch its row.
"""


@dataclasses.dataclass(frozen=True)
class RowOptimizer:
    """An optimiser that updates each row of a table separately.

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
"""Name -> optimiser: the choices of `Config.row_optimizer`."""


def step_rows(
    block: RowTable,
    gradient: jax.Array,
    *,
    optimizer: RowOptimizer,
    learning_rate: jax.Array | float,
    unit_norm: bool = False,
) -> tuple[jax.Array, jax.Array | None]:
    """Updates rows with their summed gradients.

    Args:
      block: distinct rows [m, dim] in the table's storage type, and their accumulators.
      gradient: float32 [m, dim].
      optimizer: computes the steps.
      learning_rate: scalar.
      unit_norm: whether to scale the rows back to unit length.

    Returns:
      The new rows, float32 [m, dim], and accumulators, None if the optimiser has none.
    """
    accumulator = block.accumulator
    if optimizer.rule is not None:
        gradient, accumulator = optimizer.rule(accumulator, gradient)
    rows = as_float(block.rows)
    rows = rows - jnp.asarray(learning_rate, rows.dtype) * gradient
    return (normalize(rows) if unit_norm else rows), accumulator

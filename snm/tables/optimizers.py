"""Row optimisers: turn the gradient of each touched row into its step.

To add one, write its rule and enter it in `ROW_OPTIMIZERS`. Everything else (which rows a batch
touches, in which order, in place) is in `snm.tables.updates` and works for every entry.
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

__all__ = ["ROW_OPTIMIZERS", "SGD", "RowOptimizer", "RowRule", "step_rows"]


_ADAGRAD_EPSILON = 1e-10


RowRule = Callable[[Any, jax.Array], tuple[jax.Array, Any]]
"""(accumulators, gradients) -> (directions, new accumulators).

Accumulators are float [m], or None for an optimiser that has none; gradients and directions are
float [m, dim]. Each gradient is the sum of one row's gradients over the batch. The step of a row is
minus the learning rate times its direction.
"""


@dataclasses.dataclass(frozen=True)
class RowOptimizer:
    """An optimiser that steps each row of a table on its own.

    Attributes:
      rule: computes the direction from the gradient; None where the direction is the gradient.
      has_accumulator: whether it stores one float32 for each row.
    """

    rule: RowRule | None
    has_accumulator: bool = True

    @property
    def linear(self) -> bool:
        """Whether the step is linear in the gradient.

        Then entries of the same row can be applied one after the other, without sorting them and
        summing them first.
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
    """Steps rows by their summed gradients.

    Args:
      block: distinct rows [m, dim] in the table's storage type, and their accumulators.
      gradient: float32 [m, dim].
      optimizer: makes the steps.
      learning_rate: scalar.
      unit_norm: whether to scale the rows back to unit length.

    Returns:
      The stepped rows, float32 [m, dim], and their accumulators, None where the optimiser has none.
    """
    accumulator = block.accumulator
    if optimizer.rule is not None:
        gradient, accumulator = optimizer.rule(accumulator, gradient)
    rows = as_float(block.rows)
    rows = rows - jnp.asarray(learning_rate, rows.dtype) * gradient
    return (normalize(rows) if unit_norm else rows), accumulator

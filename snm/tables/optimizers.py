"""Row optimisers: from a row's gradient to its step."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from snm.tables.rounding import as_float
from snm.tables.table import RowTable, normalize

__all__ = ["ROW_RULES", "RowRule", "has_accumulator", "step_rows"]


_ADAGRAD_EPSILON = 1e-10


RowRule = Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]
"""How an optimiser that is not linear in the gradient turns it into a step.

From one accumulator a row, float [m], and the rows' whole gradients, float [m, dim]: the direction,
float [m, dim], whose multiple by the learning rate is subtracted, and the new accumulators.
"""


def adagrad(accumulator: jax.Array, gradient: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Row-wise Adagrad: a row's accumulator adds up the mean of its squared gradients.

    (Duchi, Hazan and Singer, 2011, with one sum a row.)
    """
    accumulator = accumulator + jnp.mean(gradient * gradient, axis=-1)
    return gradient * lax.rsqrt(accumulator + _ADAGRAD_EPSILON)[:, None], accumulator


ROW_RULES: dict[str, RowRule] = {"adagrad": adagrad}
"""Name -> rule. `sgd` is none: linear in the gradient, it needs no accumulator and no sorting."""


def has_accumulator(optimizer: str) -> bool:
    """Whether an optimiser, `sgd` or a name of ROW_RULES, keeps a number a row."""
    return optimizer in ROW_RULES


def step_rows(
    block: RowTable,
    gradient: jax.Array,
    *,
    optimizer: str,
    learning_rate: jax.Array | float,
    unit_norm: bool = False,
) -> tuple[jax.Array, jax.Array | None]:
    """The step of each row by its whole gradient.

    Args:
      block: rows [m, dim] as a table keeps them, each standing once, and their accumulators.
      gradient: float32 [m, dim].
      optimizer: `sgd`, or a name of `ROW_RULES`.
      learning_rate: scalar.
      unit_norm: scale the rows back to unit length.

    Returns:
      The rows, in float32, and accumulators after the step.
    """
    accumulator = block.accumulator
    if has_accumulator(optimizer):
        assert accumulator is not None
        gradient, accumulator = ROW_RULES[optimizer](accumulator, gradient)
    rows = as_float(block.rows)
    rows = rows - jnp.asarray(learning_rate, rows.dtype) * gradient
    return (normalize(rows) if unit_norm else rows), accumulator

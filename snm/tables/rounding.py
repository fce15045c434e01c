"""Stochastic rounding for bfloat16 tables, so that small steps are not lost.

A bfloat16 has 8 bits of precision. With rounding to nearest, a step below 1/512 of the parameter's
value has no effect, and late in training nearly all steps are that small. Stochastic rounding goes
up or down at random, with probabilities that make the expectation exact, so that small steps have
an effect on average (Gupta, Agrawal, Gopalakrishnan and Narayanan, Deep Learning with Limited
Numerical Precision, 2015, section 3.2).

A bfloat16 table is stored as uint16, the bits of its numbers. On a CPU, XLA converts a whole
bfloat16 array to float32 before it slices it; it does not do this with integers.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from snm.tables.hashing import GOLDEN, mix_bits
from snm.tables.int8 import from_int8

__all__ = ["as_float", "noise_for", "round_to_nearest", "rounded_rows", "rounded_steps", "storage"]


def storage(dtype: str) -> jnp.dtype:
    """The storage type of a table: float32 for float32, uint16 for bfloat16.

    Raises:
      ValueError: `dtype` is another type.
    """
    if dtype not in ("float32", "bfloat16"):
        raise ValueError(f"rows are float32 or bfloat16, not {dtype}")
    return jnp.dtype(jnp.float32 if dtype == "float32" else jnp.uint16)


def as_float(rows: jax.Array) -> jax.Array:
    """Converts stored rows to float32, exactly; uint8 rows are those of `snm.tables.int8`."""
    if rows.dtype == jnp.uint8:
        return from_int8(rows)
    if rows.dtype != jnp.uint16:
        return rows
    return lax.bitcast_convert_type(rows.astype(jnp.uint32) << 16, jnp.float32)


def round_to_nearest(rows: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """Converts float32 rows to the storage type `dtype`, rounding to nearest."""
    if dtype != jnp.uint16:
        return rows
    return lax.bitcast_convert_type(rows.astype(jnp.bfloat16), jnp.uint16)


def noise_for(rows: jax.Array, key: jax.Array) -> jax.Array | None:
    """Draws the seed of the stochastic rounding of a table in one step.

    Args:
      rows: [K, dim], in the storage type.
      key: a PRNG key for this table and this step, consumed.

    Returns:
      uint32 scalar; None for float32 rows, which are not rounded.
    """
    return jax.random.bits(key, (), jnp.uint32) if rows.dtype == jnp.uint16 else None


def rounded_rows(
    rows: jax.Array, dtype: jnp.dtype, ids: jax.Array, noise: jax.Array | None
) -> jax.Array:
    """Converts float32 rows to the storage type `dtype`, with stochastic rounding for bfloat16.

    Args:
      rows: float32 [m, dim], finite.
      dtype: the storage type: float32, which leaves rows unchanged, or uint16.
      ids: int32 [m], the row numbers in the whole table; row and column select the random bits, so
        that each number is rounded by bits of its own.
      noise: uint32 scalar, different for every step and table.

    Returns:
      dtype [m, dim].

    Raises:
      ValueError: `noise` is None and `dtype` is uint16.
    """
    if dtype != jnp.uint16:
        return rows
    if noise is None:
        raise ValueError("stochastic rounding needs noise")
    bits = lax.bitcast_convert_type(rows, jnp.uint32)
    # A bfloat16 is the upper half of a float32. Adding 16 random bits to the lower half carries
    # into the upper half with probability lower / 2**16.
    return ((bits + (_hash(ids, rows.shape[1], noise) >> 16)) >> 16).astype(jnp.uint16)


def rounded_steps(
    rows: jax.Array,
    stepped: jax.Array,
    steps: jax.Array,
    ids: jax.Array,
    noise: jax.Array | None,
) -> jax.Array:
    """Converts updated rows to the storage type; bfloat16 rows without a gradient do not change.

    A bfloat16 row has unit length only up to rounding. Scaling and rounding it again would change
    it.

    Args:
      rows: [m, dim] before the step, in the storage type.
      stepped: float32 [m, dim] after it.
      steps: float32 [m, dim]; only whether a row of it is all 0, and so has no gradient, is used.
      ids: as in `rounded_rows`.
      noise: as in `rounded_rows`.

    Returns:
      [m, dim] in the storage type.
    """
    rounded = rounded_rows(stepped, rows.dtype, ids, noise)
    if rows.dtype != jnp.uint16:
        return rounded
    return jnp.where(jnp.any(steps != 0, axis=-1, keepdims=True), rounded, rows)


def _hash(ids: jax.Array, dim: int, noise: jax.Array) -> jax.Array:
    """Random bits uint32 [m, dim], a function of (noise, row, column).

    It is cheap compared to the rounding, and gives the same bits on every platform.
    """
    row = mix_bits(ids.astype(jnp.uint32) ^ noise)
    return mix_bits(row[:, None] + jnp.arange(dim, dtype=jnp.uint32)[None, :] * GOLDEN)

"""Tables narrower than float32: stochastic rounding, so that small steps are not lost.

A bfloat16 keeps 8 bits of precision: a step of less than a 512th of a number rounds to nothing,
and at the end of training nearly all steps are. Rounded up or down at random, with the chance of
each such that the expectation is the number itself, they count on average (Gupta, Agrawal,
Gopalakrishnan and Narayanan, 2015, section 3.2).

Such a table is kept as the bits of its numbers, uint16. XLA widens bfloat16 arrays on a CPU before
it slices them, and with them whole tables; of integers it knows no better type.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

__all__ = ["as_float", "noise_of", "rounded_rows", "storage", "to_nearest"]


def storage(dtype: str) -> jnp.dtype:
    """The type of the array that holds rows of a type: float32, or bfloat16 as its bits.

    Raises:
      ValueError: another type.
    """
    if dtype not in ("float32", "bfloat16"):
        raise ValueError(f"rows are float32 or bfloat16, not {dtype}")
    return jnp.dtype(jnp.float32 if dtype == "float32" else jnp.uint16)


def as_float(rows: jax.Array) -> jax.Array:
    """Rows of a table as float32 numbers, exactly."""
    if rows.dtype != jnp.uint16:
        return rows
    return lax.bitcast_convert_type(rows.astype(jnp.uint32) << 16, jnp.float32)


def to_nearest(rows: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """Float32 rows in a table's storage, to the nearest number of its type."""
    if dtype != jnp.uint16:
        return rows
    return lax.bitcast_convert_type(rows.astype(jnp.bfloat16), jnp.uint16)


def noise_of(key: jax.Array) -> jax.Array:
    """The uint32 scalar that a step's rounding follows from; `key` is consumed."""
    return jax.random.bits(key, (), jnp.uint32)


def rounded_rows(
    rows: jax.Array, dtype: jnp.dtype, ids: jax.Array, noise: jax.Array | None
) -> jax.Array:
    """Float32 rows in a table's storage, rounded without bias where its type is bfloat16.

    Args:
      rows: float32 [m, dim], finite.
      dtype: of the storage: float32, which leaves them as they are, or uint16.
      ids: int32 [m], the rows' places in the table: no two numbers of a step round by the same
        bits.
      noise: uint32 scalar, another at every step and for each table.

    Returns:
      dtype [m, dim].

    Raises:
      ValueError: no noise where it is needed.
    """
    if dtype != jnp.uint16:
        return rows
    if noise is None:
        raise ValueError("stochastic rounding needs noise")
    bits = lax.bitcast_convert_type(rows, jnp.uint32)
    # A bfloat16 is the upper half of a float32. Adding 16 random bits carries into it with just
    # the chance that the lower half asks for.
    return ((bits + (_hash(ids, rows.shape[1], noise) >> 16)) >> 16).astype(jnp.uint16)


def _hash(ids: jax.Array, dim: int, noise: jax.Array) -> jax.Array:
    """Random bits uint32 [m, dim] of (noise, row, column).

    A counter through two rounds of multiply and shift (Wang's and Appleby's finalizers are of
    this form): a thousand times cheaper than rounding needs to care for, and the same anywhere.
    """
    row = _mixed(ids.astype(jnp.uint32) ^ noise)
    return _mixed(row[:, None] + jnp.arange(dim, dtype=jnp.uint32)[None, :] * np.uint32(0x9E3779B9))


def _mixed(x: jax.Array) -> jax.Array:
    x = (x ^ (x >> 16)) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * np.uint32(0x846CA68B)
    return x ^ (x >> 16)

"""Rows of int8, each with a scale: a quarter of the memory of float32, for prediction.

A row r is stored as s = max |r_i| / 127 and the whole numbers r_i / s, rounded to nearest, so that
each number is off by at most s / 2. On a device a row is bytes, uint8 [4 + dim], the first four of
which are the bits of s, so that one read has both.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

__all__ = ["as_bytes", "from_int8", "int8_rows", "row_type"]

_SCALE = 4  # bytes
_MOST = 127
_BLOCK = 1 << 14  # rows converted at once


def row_type(dim: int) -> np.dtype:
    """The type of a row in a file: `scale`, float32, and `codes`, int8 [dim]."""
    return np.dtype([("scale", "<f4"), ("codes", "i1", (dim,))])


def int8_rows(rows: NDArray[np.float32]) -> NDArray[np.void]:
    """Rounds finite float32 [N, dim] to `row_type(dim)` [N].

    Example:
      >>> int8_rows(np.array([[1.0, -127.0, 0.4], [0, 0, 0]], np.float32))["codes"].tolist()
      [[1, -127, 0], [0, 0, 0]]
    """
    found = np.zeros(len(rows), row_type(rows.shape[1]))
    for first in range(0, len(rows), _BLOCK):
        block = rows[first : first + _BLOCK]
        scale = np.abs(block).max(axis=1) / np.float32(_MOST)
        codes = np.rint(block / np.where(scale > 0, scale, 1)[:, None])
        found["scale"][first : first + _BLOCK] = scale
        found["codes"][first : first + _BLOCK] = codes.clip(-_MOST, _MOST)
    return found


def as_bytes(rows: NDArray[np.void]) -> NDArray[np.uint8]:
    """A view of `row_type` [N] as a device takes it: uint8 [N, 4 + dim]."""
    return rows.view(np.uint8).reshape(len(rows), rows.dtype.itemsize)


def from_int8(rows: jax.Array) -> jax.Array:
    """Bytes of rows, uint8 [..., 4 + dim], as float32 [..., dim]: scale * codes."""
    scale = lax.bitcast_convert_type(rows[..., :_SCALE], jnp.float32)
    codes = lax.bitcast_convert_type(rows[..., _SCALE:], jnp.int8)
    return codes.astype(jnp.float32) * scale[..., None]

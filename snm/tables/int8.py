"""int8 rows with one scale per row, for prediction: a quarter of the memory of float32.

A row r is stored as the scale s = max |r_i| / 127 and the integers r_i / s, rounded to nearest,
with an error of at most s / 2. On a device, a row is uint8 [4 + dim]: the four bytes of s and the
integers, so that one read gets both.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

__all__ = ["as_bytes", "from_int8", "int8_rows", "row_type"]

_SCALE_BYTES = 4
_MAX_CODE = 127
_BLOCK = 1 << 14  # rows converted at once


def row_type(dim: int) -> np.dtype:
    """The dtype of a row in a file: `scale`, float32, and `codes`, int8 [dim]."""
    return np.dtype([("scale", "<f4"), ("codes", "i1", (dim,))])


def int8_rows(rows: NDArray[np.float32]) -> NDArray[np.void]:
    """Rounds finite float32 [N, dim] to `row_type(dim)` [N].

    Example:
      >>> int8_rows(np.array([[1.0, -127.0, 0.4], [0, 0, 0]], np.float32))["codes"].tolist()
      [[1, -127, 0], [0, 0, 0]]
    """
    packed = np.zeros(len(rows), row_type(rows.shape[1]))
    for first in range(0, len(rows), _BLOCK):
        block = rows[first : first + _BLOCK]
        scale = np.abs(block).max(axis=1) / np.float32(_MAX_CODE)
        codes = np.rint(block / np.where(scale > 0, scale, 1)[:, None])
        packed["scale"][first : first + _BLOCK] = scale
        packed["codes"][first : first + _BLOCK] = codes.clip(-_MAX_CODE, _MAX_CODE)
    return packed


def as_bytes(rows: NDArray[np.void]) -> NDArray[np.uint8]:
    """A view of `row_type` [N] in the form of a device: uint8 [N, 4 + dim]."""
    return rows.view(np.uint8).reshape(len(rows), rows.dtype.itemsize)


def from_int8(rows: jax.Array) -> jax.Array:
    """Bytes of rows, uint8 [..., 4 + dim], as float32 [..., dim]: scale * codes."""
    scale = lax.bitcast_convert_type(rows[..., :_SCALE_BYTES], jnp.float32)
    codes = lax.bitcast_convert_type(rows[..., _SCALE_BYTES:], jnp.int8)
    return codes.astype(jnp.float32) * scale[..., None]

"""Embedding tables, sparse blocks that index them, and their initial rows."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from snm.tables.rounding import round_to_nearest, storage

__all__ = ["RowTable", "SparseRows", "entry_rows", "normalize", "random_rows", "unit_factors"]

_RANDOM_ROWS = 1 << 13  # rows drawn at once: 16 MiB of 512 float32; drawing takes six times that


class SparseRows(NamedTuple):
    """A sparse [n, table rows] matrix in CSR form: row i has entries starts[i]:starts[i + 1].

    Entries past `starts[-1]` are padding: their ids must be valid row numbers, their values 0.
    The arrays are JAX's inside a compiled step; on the host they are NumPy's, where the ids and
    starts of a SciPy matrix may also be int64, and its values of another type.

    Attributes:
      ids: int32 [entries], row numbers of a table.
      values: float32 [entries].
      starts: int32 [n + 1], non-decreasing.
    """

    ids: Any
    values: Any
    starts: Any


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["rows", "accumulator"], meta_fields=[]
)
@dataclasses.dataclass(frozen=True)
class RowTable:
    """The rows of an embedding table and the state of their optimizer.

    Attributes:
      rows: [N, dim], float32 or, as uint16, the bits of bfloat16; see `snm.tables.rounding`. For
        prediction also uint8 [N, 4 + dim]; see `snm.tables.int8`.
      accumulator: float32 [N], one number of optimizer state for each row (for Adagrad the sum of
        mean squared gradients), or None for an optimizer without state.
    """

    rows: jax.Array
    accumulator: jax.Array | None = None


_MIN_SQUARED_NORM = 1e-25
"""Vectors of a smaller squared norm are not normalized. The derivative of `rsqrt` at this value is
1.6e37, and the largest float32 is 3.4e38."""


def normalize(x: jax.Array) -> jax.Array:
    """Scales the last axis to unit length; a vector shorter than 3e-13 stays as it is.

    `x / norm(x)` has a NaN gradient at zero. An example without features, or one whose ReLU units
    are all inactive, would spread it to every row that it touches.
    """
    return x * unit_factors(x)


def unit_factors(x: jax.Array) -> jax.Array:
    """The factors by which `normalize` scales vectors [..., d]: [..., 1]."""
    square = jnp.sum(x * x, axis=-1, keepdims=True)
    # max(square, _MIN_SQUARED_NORM) would be finite too, but scales the gradient at zero by 3e12.
    return lax.rsqrt(jnp.where(square > _MIN_SQUARED_NORM, square, 1))


def random_rows(
    key: jax.Array,
    count: int,
    dim: int,
    *,
    length: float = 1.0,
    part: tuple[jax.Array, int] | None = None,
    dtype: str = "float32",
) -> jax.Array:
    """Draws rows uniformly from a sphere; `key` is consumed.

    Rows are drawn in blocks. To draw the normal variables of a whole table at once would need three
    times the memory of the table in addition.

    Args:
      key: a random key.
      count: number of rows of the whole table.
      dim: numbers per row.
      length: Euclidean length of each row.
      part: (i, parts) to draw only the i-th of `parts` equal ranges of rows; rows past `count` are
        0.
      dtype: float32, or bfloat16 rounded to nearest.

    Returns:
      [count, dim], or [ceil(count / parts), dim], in the storage type of `dtype`.
    """
    size = min(count, _RANDOM_ROWS)

    def block(key: jax.Array) -> jax.Array:
        rows = normalize(jax.random.normal(key, (size, dim), jnp.float32)) * length
        return round_to_nearest(rows, storage(dtype))

    def numbered_block(number: jax.Array) -> jax.Array:
        return block(key if size == count else jax.random.fold_in(key, number))

    def fill(number: jax.Array, rows: jax.Array) -> jax.Array:
        start = jnp.minimum(number * size, count - size)
        return lax.dynamic_update_slice(rows, numbered_block(number), (start, 0))

    blocks = -(-count // size)
    if part is None:
        if blocks == 1:
            return block(key)
        return lax.fori_loop(0, blocks, fill, jnp.zeros((count, dim), storage(dtype)))

    num = -(-count // part[1])
    first = part[0] * num

    def fill_part(number: jax.Array, rows: jax.Array) -> jax.Array:
        # The last block starts early, so that it ends with the table, and overwrites a part of the
        # block before it.
        row_ids = jnp.minimum(number * size, count - size) - first + jnp.arange(size)
        row_ids = jnp.where(row_ids < 0, num, row_ids)  # negative indices would count from the end
        return rows.at[row_ids].set(numbered_block(number), mode="drop")

    last = jnp.where(first + num > count - size, blocks - 1, (first + num - 1) // size)
    start = jnp.minimum(first // size, blocks)
    return lax.fori_loop(start, last + 1, fill_part, jnp.zeros((num, dim), storage(dtype)))


def entry_rows(block: SparseRows) -> jax.Array:
    """The row that each entry belongs to, int32 [entries]; padding is assigned to the last row."""
    n, starts = block.starts.shape[0] - 1, jnp.asarray(block.starts)  # may be NumPy's
    return jnp.repeat(
        jnp.arange(n, dtype=jnp.int32),
        jnp.diff(starts.at[-1].set(block.ids.shape[0])),
        total_repeat_length=block.ids.shape[0],
    )

"""Reads and writes single rows and entries at indices that are known to be in bounds.

Indexing by `[...]` supports negative indices, at the cost of three operations per access. In the
unrolled loops over rows these were most of a compiled step, and much of its compile time.
"""

from __future__ import annotations

import jax
from jax import lax

__all__ = ["element_at", "row_at", "rows_at", "set_row"]


def element_at(vector: jax.Array, index: jax.Array) -> jax.Array:
    """The entry of a vector at an index, a scalar."""
    return lax.squeeze(lax.dynamic_slice(vector, (index,), (1,), allow_negative_indices=False), [0])


def row_at(table: jax.Array, index: jax.Array) -> jax.Array:
    """The row of a table at an index, [1, dim]."""
    start, size = (index, _zero_like(index)), (1, table.shape[1])
    return lax.dynamic_slice(table, start, size, allow_negative_indices=False)


def set_row(table: jax.Array, row: jax.Array, index: jax.Array) -> jax.Array:
    """The table with the row at an index replaced by `row`, [1, dim]."""
    start = (index, _zero_like(index))
    return lax.dynamic_update_slice(table, row, start, allow_negative_indices=False)


def rows_at(array: jax.Array, indices: jax.Array) -> jax.Array:
    """The entries of a vector, or the rows of a table, at an array of indices."""
    return array.at[indices].get(mode="promise_in_bounds", wrap_negative_indices=False)


def _zero_like(index: jax.Array) -> jax.Array:
    return lax.full_like(index, 0)

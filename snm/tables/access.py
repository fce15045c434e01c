"""Reads and writes single rows and entries, at places that are known to be in bounds.

Indexing by `[...]` takes negative indices too: three more operations each time. In the unrolled
loops over rows they were most of a compiled step, and a good part of the time to compile it.
"""

from __future__ import annotations

import jax
from jax import lax

__all__ = ["element_at", "row_at", "rows_at", "with_row"]


def element_at(vector: jax.Array, place: jax.Array) -> jax.Array:
    """The entry of a vector at a place, a scalar."""
    return lax.squeeze(lax.dynamic_slice(vector, (place,), (1,), allow_negative_indices=False), [0])


def row_at(table: jax.Array, place: jax.Array) -> jax.Array:
    """The row of a table at a place, [1, dim]."""
    start, size = (place, _zero_of(place)), (1, table.shape[1])
    return lax.dynamic_slice(table, start, size, allow_negative_indices=False)


def with_row(table: jax.Array, row: jax.Array, place: jax.Array) -> jax.Array:
    """The table with another row, [1, dim], at a place."""
    start = (place, _zero_of(place))
    return lax.dynamic_update_slice(table, row, start, allow_negative_indices=False)


def rows_at(array: jax.Array, places: jax.Array) -> jax.Array:
    """The entries of a vector, or the rows of a table, at many places."""
    return array.at[places].get(mode="promise_in_bounds", wrap_negative_indices=False)


def _zero_of(place: jax.Array) -> jax.Array:
    return lax.full_like(place, 0)

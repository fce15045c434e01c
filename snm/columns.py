"""A batch's entries by table row instead of by point: how a CPU likes to update rows.

Words repeat within a batch. Visited by point, a row of a frequent word is read and written once an
entry; visited by row, it is fetched once and its entries are added up in the cache.
The loader sorts, on a core that the device's loops leave idle. An accelerator scatters instead.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from snm.rows import RowTable, SparseRows, add_scatter

__all__ = ["Columns", "columns_of", "update_columns"]

_TURN = 4  # entries a turn; rare words have fewer, and more would be wasted on them


class Columns(NamedTuple):
    """The entries of an [n, N] block ordered by table row and cut into turns.

    A turn is up to 4 entries of one row, so that a single loop with nothing nested in it
    runs through all of them: starting an inner loop costs as much as reading a row.

    Attributes:
      rows: int32 [entries], ascending, the table row of each turn; the rest is padding.
      entries: int32 [entries], the block's entries in the order of their table rows.
      points: int32 [entries], the row of the block that each of these belongs to.
      starts: int32 [entries + 1]; turn t takes entries starts[t]:starts[t + 1].
      count: int32 scalar, the number of turns.
    """

    rows: Any
    entries: Any
    points: Any
    starts: Any
    count: Any


def columns_of(block: SparseRows) -> Columns:
    """Orders the entries of a block that is on the host; padding entries are left out."""
    ids, starts = np.asarray(block.ids), np.asarray(block.starts)
    size, total = len(ids), int(starts[-1])
    # One key of row and place: NumPy sorts whole numbers far faster than it sorts places by them.
    keys = ids[:total].astype(np.uint64) << np.uint64(32) | np.arange(total, dtype=np.uint64)
    keys.sort()
    rows, entries = (
        (keys >> np.uint64(32)).astype(np.int32),
        keys.astype(np.uint32).astype(np.int32),
    )
    points = np.repeat(np.arange(len(starts) - 1, dtype=np.int32), np.diff(starts))[entries]
    new_row = np.diff(rows, prepend=-1) != 0
    first_of_row = np.flatnonzero(new_row)
    place_in_row = np.arange(total) - np.repeat(first_of_row, np.diff(first_of_row, append=total))
    first = np.flatnonzero(place_in_row % _TURN == 0)
    return Columns(
        _padded(rows[first], size),
        _padded(entries, size),
        _padded(points, size),
        _padded(first.astype(np.int32), size + 1, total),
        np.asarray(len(first), np.int32),
    )


def _padded(values: np.ndarray, size: int, fill: int = 0) -> np.ndarray:
    return np.concatenate([values, np.full(size - len(values), fill, np.int32)])


def update_columns(
    table: RowTable,
    columns: Columns,
    block: SparseRows,
    vectors: jax.Array,
    *,
    learning_rate: jax.Array | float,
    ok: jax.Array,
) -> RowTable:
    """`rows.update_rows` with SGD and the gradient block.T @ vectors, turn by turn.

    Args:
      table: float32 [N, dim] rows; donate them.
      columns: of the block.
      block: sparse [n, N]; its values may have changed since `columns` was made, its ids not.
      vectors: float32 [n, dim].
      learning_rate: scalar.
      ok: bool scalar; where False nothing is written.

    Returns:
      The table after the step.
    """
    steps = vectors * -jnp.asarray(learning_rate, vectors.dtype)
    rows = lax.platform_dependent(
        table.rows, columns, block, steps, ok, cpu=_loop, default=_scatter
    )
    return RowTable(rows, table.accumulator)


def _loop(
    rows: jax.Array, columns: Columns, block: SparseRows, steps: jax.Array, ok: jax.Array
) -> jax.Array:
    dim = rows.shape[1]
    if columns.entries.shape[0] == 0:
        return rows
    values = block.values[columns.entries]
    points, starts = columns.points, columns.starts

    def one_turn(t: jax.Array, rows: jax.Array) -> jax.Array:
        row = lax.dynamic_slice(rows, (columns.rows[t], 0), (1, dim))
        for p in range(_TURN):
            # A short turn repeats its last entry, which is in the cache, with the value 0.
            entry = jnp.minimum(starts[t] + p, starts[t + 1] - 1)
            value = jnp.where(starts[t] + p < starts[t + 1], values[entry], 0)
            row += value * lax.dynamic_slice(steps, (points[entry], 0), (1, dim))
        return lax.dynamic_update_slice(rows, row, (columns.rows[t], 0))

    return lax.fori_loop(0, jnp.where(ok, columns.count, 0), one_turn, rows)


def _scatter(
    rows: jax.Array, columns: Columns, block: SparseRows, steps: jax.Array, ok: jax.Array
) -> jax.Array:
    del columns  # scattered adds need no order
    return add_scatter(rows, block, steps, ok)

"""A batch's entries by table row instead of by point: how a CPU likes to update rows.

Words repeat within a batch. Visited by point, a row of a frequent word is read and written once an
entry; visited by row, its entries are added up in the cache, and it is read and written once.
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

_UNROLL = 4  # entries a turn; rare words have fewer, and more would be wasted on them


class Columns(NamedTuple):
    """The entries of an [n, N] block ordered by table row; U rows are named, the rest is padding.

    Attributes:
      rows: int32 [entries], ascending, the table rows that the block names, each once.
      entries: int32 [entries], the block's entries in the order of their table rows.
      points: int32 [entries], the row of the block that each of these belongs to.
      starts: int32 [entries + 1]; entries starts[u]:starts[u + 1] belong to rows[u].
      count: int32 scalar, U.
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
    first = np.flatnonzero(np.diff(rows, prepend=-1))
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
    """`rows.update_rows` with SGD and the gradient block.T @ vectors, each row visited once.

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
    dim, last = rows.shape[1], columns.entries.shape[0] - 1
    if last < 0:
        return rows
    values = block.values[columns.entries]
    points, starts = columns.points, columns.starts

    def one_row(u: jax.Array, rows: jax.Array) -> jax.Array:
        end = starts[u + 1]

        def some_entries(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            p, total = carry
            for turn in range(_UNROLL):
                entry = jnp.minimum(p + turn, last)
                value = jnp.where(p + turn < end, values[entry], 0)
                total += value * lax.dynamic_slice(steps, (points[entry], 0), (1, dim))
            return p + _UNROLL, total

        start = (starts[u], jnp.zeros((1, dim), rows.dtype))
        _, total = lax.while_loop(lambda carry: carry[0] < end, some_entries, start)
        row = lax.dynamic_slice(rows, (columns.rows[u], 0), (1, dim)) + total
        return lax.dynamic_update_slice(rows, row, (columns.rows[u], 0))

    return lax.fori_loop(0, jnp.where(ok, columns.count, 0), one_row, rows)


def _scatter(
    rows: jax.Array, columns: Columns, block: SparseRows, steps: jax.Array, ok: jax.Array
) -> jax.Array:
    del columns  # scattered adds need no order
    return add_scatter(rows, block, steps, ok)

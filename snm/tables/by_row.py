"""A batch's entries by table row instead of by point: how a CPU likes to read and update rows.

Words repeat within a batch. The most frequent ones are taken together: the block's columns of
them form a dense matrix, and a matrix product reads and writes each row once, on all cores. The
entries of the others are too few for that. Visited by point, a row of theirs would be read and
written once an entry; visited by row, it is fetched once and its entries add up in the cache.
The loader sorts, on a core that the device's loops leave idle. An accelerator gathers and
scatters instead.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from snm.tables.bag import embedding_bag_gather, embedding_bag_loop
from snm.tables.rounding import as_float
from snm.tables.table import RowTable, SparseRows
from snm.tables.updates import add_scatter

__all__ = ["Columns", "columns_of", "count_frequent", "sum_columns", "update_columns"]

_TURN = 4  # entries a turn; rare words have fewer, and more would be wasted on them
_POINTS_AN_ENTRY = 16
"""A column of the dense matrix costs as much as an entry of the loops for every so many points:
an entry moves rows of memory on one core, a column is multiply-adds on all of them."""
_FREQUENT_UNIT = 32  # frequent rows are padded to a multiple of this, which products like


class Columns(NamedTuple):
    """The entries of an [n, N] block: those of frequent rows apart, the rest cut into turns.

    A turn is up to 4 entries of one row, so that a single loop with nothing nested in it
    runs through all of them: starting an inner loop costs as much as reading a row.

    Attributes:
      frequent: int32 [F], ascending, the table rows with most entries; may be empty.
      places: int32 [entries], where each entry of the block stands in the flat [n, F] matrix of
        frequent columns; n * F where its row is not among them.
      rest: int32 [entries], the entries of other rows, in the block's order; then padding.
      rest_starts: int32 [n + 1]; point i has rest[rest_starts[i]:rest_starts[i + 1]].
      rows: int32 [entries], ascending, the table row of each turn; the rest is padding.
      entries: int32 [entries], the entries of other rows in the order of their table rows.
      points: int32 [entries], the row of the block that each of these belongs to.
      starts: int32 [entries + 1]; turn t takes entries starts[t]:starts[t + 1].
      count: int32 scalar, the number of turns.
    """

    frequent: Any
    places: Any
    rest: Any
    rest_starts: Any
    rows: Any
    entries: Any
    points: Any
    starts: Any
    count: Any


def count_frequent(counts: np.ndarray, points: int) -> int:
    """How many rows batches should take together, from how many points name each row.

    Args:
      counts: int [N].
      points: the number of points counted.

    Returns:
      A multiple of 32; 0 where no row is frequent enough.
    """
    enough = int(np.sum((counts * _POINTS_AN_ENTRY >= points) & (counts > 0)))
    return -(-enough // _FREQUENT_UNIT) * _FREQUENT_UNIT


def columns_of(block: SparseRows, num_frequent: int = 0) -> Columns:
    """Orders the entries of a block that is on the host; padding entries are left out.

    Args:
      block: int32 and float32 NumPy arrays.
      num_frequent: how many rows to take together, of those with most entries.
    """
    ids, starts = np.asarray(block.ids), np.asarray(block.starts)
    size, total, n = len(ids), int(starts[-1]), len(starts) - 1
    # One key of row and place: NumPy sorts whole numbers far faster than it sorts places by them.
    keys = ids[:total].astype(np.uint64) << np.uint64(32) | np.arange(total, dtype=np.uint64)
    keys.sort()
    rows, entries = (
        (keys >> np.uint64(32)).astype(np.int32),
        keys.astype(np.uint32).astype(np.int32),
    )
    points = np.repeat(np.arange(n, dtype=np.int32), np.diff(starts))
    places = np.full(size, n * num_frequent, np.int32)
    frequent, column = _most(rows, num_frequent)
    together = column >= 0
    places[entries[together]] = points[entries[together]] * num_frequent + column[together]
    in_rest = places[:total] == n * num_frequent
    rest = np.flatnonzero(in_rest).astype(np.int32)
    rest_starts = np.append(0, np.cumsum(in_rest, dtype=np.int32))[starts].astype(np.int32)

    rows, entries = rows[~together], entries[~together]
    first = np.flatnonzero(_place_in_row(rows) % _TURN == 0)
    return Columns(
        frequent,
        places,
        _padded(rest, size),
        rest_starts,
        _padded(rows[first], size),
        _padded(entries, size),
        _padded(points[entries], size),
        _padded(first.astype(np.int32), size + 1, len(rows)),
        np.asarray(len(first), np.int32),
    )


def _most(rows: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The `count` values that ascending `rows` repeat most, and the place of each row or -1."""
    first = np.flatnonzero(np.diff(rows, prepend=-1))
    repeats = np.diff(first, append=len(rows))
    chosen = np.sort(np.argsort(-repeats, kind="stable")[:count])
    column = np.full(len(first), -1, np.int32)
    column[chosen] = np.arange(len(chosen))
    return _padded(rows[first[chosen]], count), np.repeat(column, repeats)


def _place_in_row(rows: np.ndarray) -> np.ndarray:
    """Of each of ascending `rows`, how many equal ones stand before it."""
    first = np.flatnonzero(np.diff(rows, prepend=-1))
    return np.arange(len(rows)) - np.repeat(first, np.diff(first, append=len(rows)))


def _padded(values: np.ndarray, size: int, fill: int = 0) -> np.ndarray:
    return np.concatenate([values, np.full(size - len(values), fill, np.int32)])


def sum_columns(table: jax.Array, columns: Columns, block: SparseRows) -> jax.Array:
    """`embedding_bag`, with the rows that the block names often in a matrix product.

    Args:
      table: [N, dim] rows as a table keeps them.
      columns: of the block.
      block: sparse [n, N]; its values may have changed since `columns` was made, its ids not.

    Returns:
      float32 [n, dim].
    """
    return lax.platform_dependent(table, columns, block, cpu=_sum_loop, default=_sum_gather)


def _sum_loop(table: jax.Array, columns: Columns, block: SparseRows) -> jax.Array:
    rest = SparseRows(block.ids[columns.rest], block.values[columns.rest], columns.rest_starts)
    sums = embedding_bag_loop(table, rest)
    if columns.frequent.shape[0]:
        sums += _matrix(columns, block) @ as_float(table[columns.frequent])
    return sums


def _sum_gather(table: jax.Array, columns: Columns, block: SparseRows) -> jax.Array:
    del columns
    return embedding_bag_gather(table, block)


def _matrix(columns: Columns, block: SparseRows) -> jax.Array:
    """The block's columns of frequent rows, float32 [n, F]."""
    n, width = block.starts.shape[0] - 1, columns.frequent.shape[0]
    flat = jnp.zeros(n * width, block.values.dtype)
    flat = flat.at[columns.places].set(block.values, mode="drop")
    return flat.reshape(n, width)


def update_columns(
    table: RowTable,
    columns: Columns,
    block: SparseRows,
    vectors: jax.Array,
    *,
    learning_rate: jax.Array | float,
    ok: jax.Array,
) -> RowTable:
    """`updates.update_rows` with SGD and the gradient block.T @ vectors, turn by turn.

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
    if width := columns.frequent.shape[0]:
        of_frequent = _matrix(columns, block).T @ steps

        def one_frequent(i: jax.Array, rows: jax.Array) -> jax.Array:
            row = lax.dynamic_slice(rows, (columns.frequent[i], 0), (1, dim))
            row += lax.dynamic_slice(of_frequent, (i, 0), (1, dim))
            return lax.dynamic_update_slice(rows, row, (columns.frequent[i], 0))

        rows = lax.fori_loop(0, jnp.where(ok, width, 0), one_frequent, rows)

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

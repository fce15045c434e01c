"""Reads and updates table rows with a batch's entries ordered by table row, for speed on a CPU.

Features repeat within a batch. The entries of the most frequent ones form a dense matrix, so that a
matrix product reads and writes each of their table rows once, on all cores. The other features have
too few entries for that. In the order of the examples, their table rows would be read and written
once per entry; in the order of the table rows, each row is fetched once and its entries are added
in the cache. The data loader sorts the entries, on a core that is otherwise idle. On an
accelerator, the functions of this module ignore the order, and gather and scatter instead.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from snm.machine.platform import by_platform
from snm.system.numbers import stable_argsort
from snm.tables.access import element_at, row_at, set_row
from snm.tables.bag import embedding_bag_gather, embedding_bag_loop
from snm.tables.rounding import as_float
from snm.tables.table import RowTable, SparseRows
from snm.tables.updates import add_scatter

__all__ = ["Columns", "count_frequent", "make_columns", "sum_columns", "update_columns"]

_RUN_LENGTH = 4  # entries per run; rare features have few, so longer runs would be mostly padding
_POINTS_PER_ENTRY = 16
"""For every 16 examples, a column of the dense matrix costs as much as one entry of the loop: an
entry moves rows through memory on one core, a column is multiply-adds on all cores."""
_FREQUENT_UNIT = 32  # the number of frequent rows is a multiple of this, for the matrix product


class Columns(NamedTuple):
    """The entries of an [n, N] block: a dense matrix of frequent rows, and runs of the others.

    A run is up to 4 entries of the same table row. A single loop processes all runs; an inner loop
    would cost as much to start as a row costs to read.

    Attributes:
      frequent: int32 [F], ascending, the table rows with the most entries; then, where the block
        has fewer rows, 0 for columns without entries. May be empty.
      places: int32 [entries], the index of each entry of the block in the flat [n, F] matrix of
        frequent columns; n * F if its table row is not frequent.
      rest: int32 [entries], indices of the other entries, in the block's order; then padding.
      rest_starts: int32 [n + 1]; example i has rest[rest_starts[i]:rest_starts[i + 1]].
      rows: int32 [entries], ascending, the table row of each run; then padding.
      entries: int32 [entries], indices of the other entries, ordered by table row; then padding.
      points: int32 [entries], the row of the block that each of `entries` belongs to.
      starts: int32 [entries + 1]; run t has entries[starts[t]:starts[t + 1]].
      count: int32 scalar, the number of runs.
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
    """The number of table rows for which a column of the dense matrix saves time.

    Args:
      counts: int [N], the number of examples that have each feature.
      points: the number of examples counted.

    Returns:
      A multiple of 32; 0 if no row is frequent enough.
    """
    enough = int(np.sum((counts * _POINTS_PER_ENTRY >= points) & (counts > 0)))
    return -(-enough // _FREQUENT_UNIT) * _FREQUENT_UNIT


def make_columns(block: SparseRows, num_frequent: int = 0) -> Columns:
    """Orders the entries of a block on the host; padding entries are left out.

    Args:
      block: int32 and float32 NumPy arrays.
      num_frequent: F, how many table rows get a column of the dense matrix: those with the most
        entries in this block.
    """
    ids, starts = np.asarray(block.ids), np.asarray(block.starts)
    size, total, n = len(ids), int(starts[-1]), len(starts) - 1
    entries = stable_argsort(ids[:total].astype(np.uint32)).astype(np.int32)
    rows = ids[entries]
    points = np.repeat(np.arange(n, dtype=np.int32), np.diff(starts))
    places = np.full(size, n * num_frequent, np.int32)
    frequent, column = _most_frequent(rows, num_frequent)
    dense = column >= 0
    places[entries[dense]] = points[entries[dense]] * num_frequent + column[dense]
    in_rest = places[:total] == n * num_frequent
    rest = np.flatnonzero(in_rest).astype(np.int32)
    rest_starts = np.append(0, np.cumsum(in_rest, dtype=np.int32))[starts].astype(np.int32)

    rows, entries = rows[~dense], entries[~dense]
    first = np.flatnonzero(_index_in_row(rows) % _RUN_LENGTH == 0)
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


def _most_frequent(rows: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The `count` most frequent values of ascending `rows`, and each row's index in them or -1."""
    first = _row_starts(rows)
    repeats = np.diff(first, append=len(rows))
    chosen = np.sort(np.argsort(-repeats, kind="stable")[:count])
    column = np.full(len(first), -1, np.int32)
    column[chosen] = np.arange(len(chosen))
    return _padded(rows[first[chosen]], count), np.repeat(column, repeats)


def _index_in_row(rows: np.ndarray) -> np.ndarray:
    """For each of the ascending `rows`, how many equal values precede it."""
    first = _row_starts(rows)
    return np.arange(len(rows)) - np.repeat(first, np.diff(first, append=len(rows)))


def _row_starts(rows: np.ndarray) -> np.ndarray:
    """The index of the first entry of each distinct table row in ascending `rows`."""
    return np.flatnonzero(np.diff(rows, prepend=-1))


def _padded(values: np.ndarray, size: int, fill: int = 0) -> np.ndarray:
    return np.concatenate([values, np.full(size - len(values), fill, np.int32)])


def sum_columns(table: jax.Array, columns: Columns, block: SparseRows) -> jax.Array:
    """As `embedding_bag`, with a matrix product for the table rows that are frequent in the block.

    Args:
      table: [N, dim] rows in their storage type.
      columns: from `make_columns` of the block.
      block: sparse [n, N]; its values may have changed since `make_columns`, its ids must not.

    Returns:
      float32 [n, dim].
    """
    return by_platform(
        cpu=lambda: _sum_loop(table, columns, block),
        default=lambda: embedding_bag_gather(table, block),
    )


def _sum_loop(table: jax.Array, columns: Columns, block: SparseRows) -> jax.Array:
    rest = SparseRows(block.ids[columns.rest], block.values[columns.rest], columns.rest_starts)
    sums = embedding_bag_loop(table, rest)
    if columns.frequent.shape[0]:
        sums += _matrix(columns, block) @ as_float(table[columns.frequent])
    return sums


def _matrix(columns: Columns, block: SparseRows) -> jax.Array:
    """The dense matrix of the block's frequent columns, float32 [n, F]."""
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
    """As `update_rows` for SGD with the gradient block.T @ vectors, in the order of the table rows.

    Args:
      table: float32 [N, dim] rows; donate them.
      columns: from `make_columns` of the block.
      block: sparse [n, N]; its values may have changed since `make_columns`, its ids must not.
      vectors: float32 [n, dim].
      learning_rate: scalar.
      ok: bool scalar; if False, nothing is written.

    Returns:
      The table after the step.
    """
    steps = vectors * -jnp.asarray(learning_rate, vectors.dtype)
    rows = by_platform(
        cpu=lambda: _update_loop(table.rows, columns, block, steps, ok),
        default=lambda: add_scatter(table.rows, block, steps, ok),
    )
    return RowTable(rows, table.accumulator)


def _update_loop(
    rows: jax.Array, columns: Columns, block: SparseRows, steps: jax.Array, ok: jax.Array
) -> jax.Array:
    if columns.entries.shape[0] == 0:
        return rows
    if width := columns.frequent.shape[0]:
        frequent_steps = _matrix(columns, block).T @ steps

        def update_frequent(i: jax.Array, rows: jax.Array) -> jax.Array:
            row_id = element_at(columns.frequent, i)
            return set_row(rows, row_at(rows, row_id) + row_at(frequent_steps, i), row_id)

        rows = lax.fori_loop(0, jnp.where(ok, width, 0), update_frequent, rows)

    values = block.values[columns.entries]
    points, starts, zero = columns.points, columns.starts, jnp.zeros((), values.dtype)

    def one_run(t: jax.Array, rows: jax.Array) -> jax.Array:
        row_id = element_at(columns.rows, t)
        start, stop = element_at(starts, t), element_at(starts, t + 1)
        row = row_at(rows, row_id)
        for p in range(_RUN_LENGTH):
            # A short run repeats its last entry, which is in the cache, with value 0.
            entry = lax.min(start + p, stop - 1)
            value = lax.select(start + p < stop, element_at(values, entry), zero)
            row += value * row_at(steps, element_at(points, entry))
        return set_row(rows, row, row_id)

    return lax.fori_loop(0, jnp.where(ok, columns.count, 0), one_run, rows)

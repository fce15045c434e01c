"""Rows of sparse matrices as padded blocks, on the host or on the device."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.tables.table import SparseRows

__all__ = [
    "as_sparse_rows",
    "likely_max_entries",
    "make_block",
    "padded_slice",
    "power_of_two",
    "repeat",
    "round_up_entries",
    "take",
]

_DEVIATIONS = 5.0


def as_sparse_rows(matrix: csr_matrix) -> SparseRows:
    """The arrays of a SciPy matrix as `SparseRows`, without a copy."""
    return SparseRows(ids=matrix.indices, values=matrix.data, starts=matrix.indptr)


def round_up_entries(entries: int) -> int:
    """Rounds a number of entries up by at most an eighth, so that similar batches share a program.

    Example:
      >>> [round_up_entries(entries) for entries in (0, 9, 100, 1001)]
      [8, 16, 104, 1024]
    """
    size = max(entries, 8)
    unit = 1 << max(size.bit_length() - 4, 3)
    return -(-size // unit) * unit


def likely_max_entries(
    counts: NDArray[np.int64], places: int, keep_probability: float = 1.0
) -> int:
    """An upper bound of the entries of almost all batches: the mean plus five standard deviations.

    With blocks of this size, all epochs and members of a run share one compiled program.

    Args:
      counts: int [N], entries of each point.
      places: number of points of a batch, drawn without replacement.
      keep_probability: with which each entry is kept.
    """
    if not len(counts):
        return 0
    places = min(places, len(counts))
    mean = keep_probability * counts.mean()
    others = (len(counts) - places) / max(1, len(counts) - 1)
    of_points = keep_probability**2 * counts.var() * others
    of_entries = keep_probability * (1 - keep_probability) * counts.mean()
    likely = places * mean + _DEVIATIONS * math.sqrt(places * (of_points + of_entries))
    return min(math.ceil(likely), int(counts.sum()))


def take(matrix: SparseRows, points: Any, entries: int) -> SparseRows:
    """Rows of a matrix as a padded block, in NumPy or, of JAX arrays, inside a compiled step.

    Args:
      matrix: CSR [m, K].
      points: int [n], row numbers; -1 gives an empty row.
      entries: number of entries of the block, static; at least as many as the rows have.

    Returns:
      A block [n, K] of the same kind of arrays: int32 ids, float32 values, int32 starts.
    """
    xp = points.__array_namespace__()
    begin = matrix.starts[points]
    counts = xp.where(points >= 0, matrix.starts[points + 1] - begin, 0)
    starts = xp.concatenate([xp.zeros(1, np.int32), xp.cumsum(counts, dtype=np.int32)])
    if not matrix.ids.shape[0]:  # no entry to read where the block is padded
        return SparseRows(xp.zeros(entries, np.int32), xp.zeros(entries, np.float32), starts)
    entry = xp.arange(entries, dtype=begin.dtype)
    real = entry < starts[-1]
    place = xp.where(real, entry + repeat(begin - starts[:-1], counts, entries), 0)
    ids = xp.where(real, matrix.ids[place], 0).astype(np.int32, copy=False)
    return SparseRows(
        ids, xp.where(real, matrix.values[place], 0).astype(np.float32, copy=False), starts
    )


def repeat(values: Any, counts: Any, total: int) -> Any:
    """Repeats each value by its count, and then the last value up to length `total`.

    Compiled programs need a static length. `jax.numpy.repeat` has an argument for it,
    `numpy.repeat` has not.

    Args:
      values: [n], of NumPy or JAX, n >= 1.
      counts: int [n], >= 0, at most `total` together.
      total: length of the result, static.
    """
    if values.__array_namespace__() is jnp:
        return jnp.repeat(values, counts, total_repeat_length=total)
    padded = np.full(total, values[-1])
    repeated = np.repeat(values, counts)
    padded[: len(repeated)] = repeated
    return padded


def padded_slice(matrix: csr_matrix, first: int, last: int, rows: int, entries: int) -> SparseRows:
    """Rows first .. last - 1, padded to `rows` rows and `entries` entries.

    Args:
      matrix: CSR.
      first: the first row.
      last: one past the last row.
      rows: at least last - first; those beyond are empty.
      entries: at least as many as these rows have.

    Returns:
      NumPy arrays: int32 ids and float32 values [entries], int32 starts [rows + 1]. If nothing is
      cut or padded, these are the arrays of the matrix.
    """
    if (first, last, rows, entries) == (0, matrix.shape[0], matrix.shape[0], matrix.nnz):
        return SparseRows(
            ids=matrix.indices.astype(np.int32, copy=False),
            values=matrix.data.astype(np.float32, copy=False),
            starts=matrix.indptr.astype(np.int32, copy=False),
        )
    begin, end = int(matrix.indptr[first]), int(matrix.indptr[last])
    starts = np.full(rows + 1, end - begin, np.int32)
    starts[: last - first + 1] = matrix.indptr[first : last + 1] - begin
    ids, values = np.zeros(entries, np.int32), np.zeros(entries, np.float32)
    ids[: end - begin], values[: end - begin] = matrix.indices[begin:end], matrix.data[begin:end]
    return SparseRows(ids=ids, values=values, starts=starts)


def power_of_two(count: int, at_least: int = 1) -> int:
    """The smallest power of two >= both arguments, so that few array lengths are compiled.

    Example:
      >>> power_of_two(5), power_of_two(8), power_of_two(0), power_of_two(3, at_least=16)
      (8, 8, 1, 16)
    """
    return 1 << (max(count, at_least) - 1).bit_length()


def make_block(matrix: csr_matrix, points: np.ndarray, at_least: int = 8) -> SparseRows:
    """Rows of a matrix as a block, padded to a power of two entries.

    Args:
      matrix: CSR.
      points: int [n], row numbers; -1 gives an empty row.
      at_least: smallest number of entries of the block.
    """
    counts = np.append(np.diff(matrix.indptr), 0)[points]
    return take(as_sparse_rows(matrix), points, power_of_two(int(counts.sum()), at_least))

"""Rows of sparse matrices as padded blocks, on the host or on the device."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.tables.table import SparseRows

__all__ = ["Csr", "block_of", "gather", "padded", "part_of", "take"]


class Csr(NamedTuple):
    """A sparse matrix as three arrays, on the host or on the device."""

    starts: Any
    ids: Any
    values: Any


def padded(counts: NDArray[np.int64], order: NDArray[np.int64]) -> int:
    """Entries that hold any row of `order`, int [rows, places], by the counts of points, int [N].

    The most, rounded up by at most an eighth, so that epochs share; -1 in the order is nobody.
    """
    counts = np.append(counts, 0)
    most = max(int(counts[order].sum(axis=1).max()), 8)
    unit = 1 << max(most.bit_length() - 4, 3)
    return -(-most // unit) * unit


def take(matrix: csr_matrix, points: np.ndarray, entries: int) -> SparseRows:
    """Rows of a matrix as a padded block; -1 gives an empty row."""
    begin = matrix.indptr[points]
    counts = np.where(points >= 0, matrix.indptr[points + 1] - begin, 0)
    starts = np.zeros(len(points) + 1, np.int32)
    np.cumsum(counts, out=starts[1:])
    total = int(starts[-1])
    place = np.arange(total) + np.repeat(begin - starts[:-1], counts)
    ids, values = np.zeros(entries, np.int32), np.zeros(entries, np.float32)
    ids[:total], values[:total] = matrix.indices[place], matrix.data[place]
    return SparseRows(ids, values, starts)  # type: ignore[arg-type]  # NumPy turns into jax's


def part_of(matrix: csr_matrix, first: int, last: int, rows: int, entries: int) -> Csr:
    """Rows first .. last - 1 as NumPy arrays that hold so many rows and entries, empty at the end.

    Args:
      matrix: CSR.
      first: row.
      last: row after the last.
      rows: at least as many.
      entries: at least as many as these rows have.
    """
    begin, end = int(matrix.indptr[first]), int(matrix.indptr[last])
    starts = np.full(rows + 1, end - begin, np.int32)
    starts[: last - first + 1] = matrix.indptr[first : last + 1] - begin
    ids, values = np.zeros(entries, np.int32), np.zeros(entries, np.float32)
    ids[: end - begin], values[: end - begin] = matrix.indices[begin:end], matrix.data[begin:end]
    return Csr(starts, ids, values)


def block_of(matrix: csr_matrix, points: np.ndarray, at_least: int = 8) -> SparseRows:
    """Rows of a matrix as a block, padded to a power of two entries; -1 gives an empty row."""
    counts = np.append(np.diff(matrix.indptr), 0)[points]
    return take(matrix, points, 1 << max(int(counts.sum()), at_least).bit_length())


def gather(matrix: Csr, points: jax.Array, entries: int) -> SparseRows:
    """`take` on the device."""
    begin = matrix.starts[points]
    counts = jnp.where(points >= 0, matrix.starts[points + 1] - begin, 0)
    starts = jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.cumsum(counts, dtype=jnp.int32)])
    shift = jnp.repeat(begin - starts[:-1], counts, total_repeat_length=entries)
    entry = jnp.arange(entries, dtype=jnp.int32)
    real = entry < starts[-1]
    place = jnp.where(real, entry + shift, 0)
    return SparseRows(
        jnp.where(real, matrix.ids[place], 0), jnp.where(real, matrix.values[place], 0), starts
    )

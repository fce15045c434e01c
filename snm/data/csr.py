"""Short forms for the parts of CSR matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

__all__ = [
    "are_entries",
    "count_ids",
    "csr_of_ones",
    "row_starts",
    "rows_of_entries",
    "top_k_of_pairs",
    "with_ones",
]

_COUNT_BLOCK = 1 << 20  # ids counted at once, at least


def row_starts(counts: Sequence[int] | NDArray[Any]) -> NDArray[np.int64]:
    """Where each row begins among the entries of all, and where the last one ends.

    Args:
      counts: [n] entries of each row. Of a bool [entries], whether each is kept, the result at
        `indptr` is where the rows of the kept entries begin.

    Returns:
      int64 [n + 1].

    Example:
      >>> row_starts([2, 0, 3]).tolist()
      [0, 2, 2, 5]
    """
    starts = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, dtype=np.int64, out=starts[1:])
    return starts


def rows_of_entries(starts: NDArray[Any]) -> NDArray[np.int64]:
    """The row of each entry, int64 [entries], where rows begin at `starts`, [n + 1].

    Example:
      >>> rows_of_entries(np.array([0, 2, 2, 5])).tolist()
      [0, 0, 2, 2, 2]
    """
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts))


def count_ids(ids: NDArray[np.integer], count: int) -> NDArray[np.int64]:
    """How often each id below `count` occurs, int64 [count].

    Counts in blocks: `np.bincount` would copy all ids to int64, twice their memory.
    """
    counts = np.zeros(count, np.int64)
    size = max(_COUNT_BLOCK, count)  # the counts take no more memory than a block
    for first in range(0, len(ids), size):
        counts += np.bincount(ids[first : first + size], minlength=count)
    return counts


def csr_of_ones(
    ids: NDArray[Any], starts: NDArray[Any], shape: tuple[int, int], dtype: Any = np.float32
) -> csr_matrix:
    """A matrix with the value 1 in the columns `ids` of rows that begin at `starts`."""
    return csr_matrix((np.ones(len(ids), dtype), ids, starts), shape=shape)


def with_ones(matrix: csr_matrix, dtype: Any = np.float32) -> csr_matrix:
    """A matrix with the same entries, all of value 1."""
    return csr_of_ones(matrix.indices, matrix.indptr, matrix.shape, dtype)


def are_entries(ids: NDArray[Any], matrix: csr_matrix) -> NDArray[np.bool_]:
    """Which ids of each row, int [n, k], have a value but 0 in CSR [n, d]; False for -1."""
    if not ids.size:  # of which SciPy makes a sparse matrix
        return np.zeros(ids.shape, bool)
    rows = np.repeat(np.arange(len(ids)), ids.shape[1])
    values = np.asarray(matrix[rows, np.maximum(ids, 0).ravel()])
    return (ids >= 0) & (values.reshape(ids.shape) != 0)


def top_k_of_pairs(
    mask: csr_matrix, scores: NDArray[np.float32], k: int, lowest: float
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The top k entries of each row; ties go to the lowest label.

    Args:
      mask: CSR [m, K].
      scores: float32 [entries], of the entries of `mask`.
      k: the number of labels per row.
      lowest: the score of padding, whose label is -1. Entries with this score or less are ignored.

    Returns:
      int32 [m, k] labels and float32 [m, k] scores, best first.
    """
    rows = rows_of_entries(mask.indptr)
    order = np.lexsort((mask.indices, -scores, rows))
    rank = np.arange(len(order)) - mask.indptr[:-1][rows]
    order, rank = order[rank < k], rank[rank < k]
    order, rank = order[scores[order] > lowest], rank[scores[order] > lowest]
    labels = np.full((mask.shape[0], k), -1, np.int32)
    best = np.full((mask.shape[0], k), lowest, np.float32)
    labels[rows[order], rank] = mask.indices[order]
    best[rows[order], rank] = scores[order]
    return labels, best

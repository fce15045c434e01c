"""Short forms for the parts of CSR matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

__all__ = ["count_ids", "csr_of_ones", "row_starts", "rows_of_entries", "with_ones"]

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

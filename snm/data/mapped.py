"""Arrays mapped from files: the system reads their pages when they are used, and may drop them.

So data may be larger than the memory. What is computed from such arrays, and is as large, goes to a
file too, which has no name and is gone with the process.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_matrix

__all__ = ["is_mapped", "row_blocks", "rows_of", "zeros_beside"]

_ENTRIES = 1 << 20  # copied at once


def is_mapped(array: NDArray[Any]) -> bool:
    """Whether the numbers of an array are in a mapped file."""
    return _map_of(array) is not None


def _map_of(array: Any) -> np.memmap | None:
    while isinstance(array, np.ndarray):
        if isinstance(array, np.memmap):
            return array
        array = array.base
    return None


def zeros_beside(array: NDArray[Any], count: int, dtype: DTypeLike) -> NDArray[Any]:
    """Zeros [count]; in a file in the folder of `array`, if that is mapped, or the one above it.

    Raises:
      OSError: the disk has no room.
    """
    found = _map_of(array)
    if found is None or not count:
        return np.zeros(count, dtype)
    folder = None if found.filename is None else Path(found.filename).parent.parent
    with _unnamed(folder) as file:
        # Not `truncate` alone: a hole that the disk has no room for ends the process when written.
        size = count * np.dtype(dtype).itemsize
        _allocate(file.fileno(), size)
        return np.memmap(file, dtype, "r+", shape=(count,))


def _unnamed(folder: Path | None) -> Any:
    try:
        return tempfile.TemporaryFile(dir=folder)
    except OSError:  # not writable
        return tempfile.TemporaryFile()


def _allocate(file: int, size: int) -> None:
    """Makes an open file `size` bytes long, with room for them on the disk."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
    else:
        os.truncate(file, size)


def row_blocks(starts: NDArray[Any], entries: int) -> Iterator[tuple[int, int]]:
    """Ranges of rows of CSR, one after the other, for what takes several times their memory.

    Args:
      starts: int [n + 1], where the entries of each row start, and the end.
      entries: of a range at most, unless a single row has more.

    Yields:
      the first row of a range, and one past its last.

    Example:
      >>> list(row_blocks(np.array([0, 2, 4, 9, 10]), 4))
      [(0, 2), (2, 3), (3, 4)]
    """
    first, rows = 0, len(starts) - 1
    while first < rows:
        last = int(np.searchsorted(starts, int(starts[first]) + entries, side="right")) - 1
        last = min(max(last, first + 1), rows)
        yield first, last
        first = last


def rows_of(matrix: csr_matrix, rows: NDArray[np.int64]) -> csr_matrix:
    """Some rows of CSR [n, d], in this order; the matrix itself if they are all, in its order.

    Rows of a mapped matrix go to a file as well.
    """
    if len(rows) == matrix.shape[0] and np.array_equal(rows, np.arange(len(rows))):
        return matrix
    if not is_mapped(matrix.indices):
        return matrix[rows]
    counts = np.diff(matrix.indptr)[rows]
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(matrix.indptr.dtype)
    ids = zeros_beside(matrix.indices, int(starts[-1]), matrix.indices.dtype)
    values = zeros_beside(matrix.data, int(starts[-1]), matrix.data.dtype)
    for first, last in row_blocks(starts, _ENTRIES):
        part, there = matrix[rows[first:last]], slice(int(starts[first]), int(starts[last]))
        ids[there], values[there] = part.indices, part.data
    found = csr_matrix((values, ids, starts), shape=(len(rows), matrix.shape[1]))
    found.has_sorted_indices = matrix.has_sorted_indices
    return found

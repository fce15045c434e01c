"""Memory-mapped arrays, for data larger than the memory.

The operating system reads the pages of a mapped file when they are used, and may drop them. Arrays
of similar size that are computed from mapped ones are mapped too, from temporary files.
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

from snm.data.csr import row_starts

__all__ = ["is_mapped", "mapped_zeros", "row_blocks", "select_rows"]

_ENTRIES = 1 << 20  # copied at once


def is_mapped(array: NDArray[Any]) -> bool:
    """Whether an array is a view of a memory-mapped file."""
    return _memmap_of(array) is not None


def _memmap_of(array: Any) -> np.memmap | None:
    while isinstance(array, np.ndarray):
        if isinstance(array, np.memmap):
            return array
        array = array.base
    return None


def mapped_zeros(array: NDArray[Any], count: int, dtype: DTypeLike) -> NDArray[Any]:
    """Zeros [count], memory-mapped if `array` is: from a temporary file near its file.

    Raises:
      OSError: the disk has no room.
    """
    mapped = _memmap_of(array)
    if mapped is None or not count:
        return np.zeros(count, dtype)
    folder = None if mapped.filename is None else Path(mapped.filename).parent.parent
    with _unnamed(folder) as file:
        # Not `truncate`: writing to a hole on a full disk would kill the process.
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
    """Consecutive ranges of CSR rows with a limited number of entries.

    Args:
      starts: int [n + 1], where the entries of each row start, and the end.
      entries: the largest number of entries of a range, unless a single row has more.

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


def select_rows(matrix: csr_matrix, rows: NDArray[np.int64]) -> csr_matrix:
    """Rows of CSR [n, d] in the given order; the matrix itself if these are all rows in order.

    The rows of a mapped matrix are mapped too.
    """
    if len(rows) == matrix.shape[0] and np.array_equal(rows, np.arange(len(rows))):
        return matrix
    if not is_mapped(matrix.indices):
        return matrix[rows]
    counts = np.diff(matrix.indptr)[rows]
    starts = row_starts(counts).astype(matrix.indptr.dtype)
    ids = mapped_zeros(matrix.indices, int(starts[-1]), matrix.indices.dtype)
    values = mapped_zeros(matrix.data, int(starts[-1]), matrix.data.dtype)
    for first, last in row_blocks(starts, _ENTRIES):
        part, entries = matrix[rows[first:last]], slice(int(starts[first]), int(starts[last]))
        ids[entries], values[entries] = part.indices, part.data
    selected = csr_matrix((values, ids, starts), shape=(len(rows), matrix.shape[1]))
    selected.has_sorted_indices = matrix.has_sorted_indices
    return selected

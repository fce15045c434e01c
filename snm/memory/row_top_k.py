"""The highest values of each row of a sparse matrix, with a few calls for many rows.

A call of NumPy for each row would hold Python's lock: threads on many cores would wait for each
other, and take longer than one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

__all__ = ["top_k_of_rows"]

_STRIDE = 16  # a sample of a row has every 16th value
_SAMPLE_ABOVE = 4  # rows of more than so many times `count` values are sampled
_MAX_PADDED = 1 << 20  # values of rows with their padding


def top_k_of_rows(
    values: NDArray[np.floating], starts: NDArray[np.integer], count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The positions of the highest values of each row, in the order of `values`.

    Ties go to the values that come first in the row.

    Args:
      values: float [nnz] of a CSR matrix, none NaN or infinite.
      starts: int [m + 1], where rows begin.
      count: the most positions per row.

    Returns:
      int64 positions in `values`, row after row, and int64 [m], how many each row has: `count`, or
      all values of a shorter row.
    """
    sizes = np.diff(starts).astype(np.int64)
    floor = _sampled_floors(values, starts, sizes, count)
    places, kept = _values_above(values, starts, sizes, floor)
    too_few = kept < np.minimum(sizes, count)
    if too_few.any():
        floor[too_few] = -np.inf
        places, kept = _values_above(values, starts, sizes, floor)
    values, chosen = values[places], np.ones(len(places), bool)
    begin = np.cumsum(kept) - kept
    for rows in _group_by_length(np.flatnonzero(kept > count), kept):
        padded, real, at = _padded(values, begin[rows], kept[rows])
        chosen[at] = _is_among_highest(padded, count)[real]
    return places[chosen], np.minimum(kept, count)


def _padded(
    values: NDArray[np.floating],
    first: NDArray[np.integer],
    sizes: NDArray[np.int64],
    stride: int = 1,
) -> tuple[NDArray[np.floating], NDArray[np.bool_], NDArray[np.int64]]:
    """Rows as a padded array; the first row is the longest, and the padding is -inf.

    Returns:
      The array, a mask of its values, and their positions in `values`, row by row.
    """
    ends = -(-sizes // stride)
    real = np.arange(ends[0]) < ends[:, None]
    at = (first[:, None] + stride * np.arange(ends[0]))[real]
    rows = np.full(real.shape, -np.inf, values.dtype)
    rows[real] = values[at]
    return rows, real, at


def _group_by_length(
    rows: NDArray[np.int64], sizes: NDArray[np.int64]
) -> Iterator[NDArray[np.int64]]:
    """Yields groups of rows of similar length, the longest first, so that padding is small."""
    rows = rows[np.argsort(-sizes[rows], kind="stable")]
    while len(rows):
        longest = sizes[rows[0]]
        num_similar = np.searchsorted(-sizes[rows], -3 * longest // 4, side="right")
        size = max(1, min(int(num_similar), _MAX_PADDED // longest))
        yield rows[:size]
        rows = rows[size:]


def _is_among_highest(rows: NDArray[np.floating], count: int) -> NDArray[np.bool_]:
    """Whether each value is among the `count` highest of its row; ties go to the first."""
    last = np.partition(rows, rows.shape[1] - count, axis=1)[:, rows.shape[1] - count, None]
    above, equal = rows > last, rows == last
    remaining = count - above.sum(axis=1, keepdims=True)
    too_many = np.flatnonzero(equal.sum(axis=1, keepdims=True) > remaining)
    equal[too_many] &= np.cumsum(equal[too_many], axis=1) <= remaining[too_many]
    return above | equal


def _sampled_floors(
    values: NDArray[np.floating],
    starts: NDArray[np.integer],
    sizes: NDArray[np.int64],
    count: int,
) -> NDArray[np.floating]:
    """A threshold that about `2 * count` values of each long row reach; -inf for short rows."""
    floor = np.full(len(sizes), -np.inf, values.dtype)
    highest = max(1, 2 * count // _STRIDE)
    for rows in _group_by_length(np.flatnonzero(sizes > _SAMPLE_ABOVE * count), sizes):
        padded, _, _ = _padded(values, starts[rows], sizes[rows], _STRIDE)
        place = padded.shape[1] - highest
        floor[rows] = np.partition(padded, place, axis=1)[:, place]
    return floor


def _values_above(
    values: NDArray[np.floating],
    starts: NDArray[np.integer],
    sizes: NDArray[np.int64],
    floor: NDArray[np.floating],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The positions of the values >= the floor of their row, and how many each row has."""
    if np.isneginf(floor).all():
        return np.arange(starts[0], starts[-1]), sizes
    places = np.flatnonzero(values[starts[0] : starts[-1]] >= np.repeat(floor, sizes)) + starts[0]
    return places, np.diff(np.searchsorted(places, starts))

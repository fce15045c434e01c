"""The highest values of each row of a sparse matrix, with a few calls for many rows.

A call of NumPy for each row would hold Python's lock: threads on many cores would wait for each
other, and take longer than one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

__all__ = ["tops_of_rows"]

_STRIDE = 16  # of a sample of a row
_LONG = 4  # a row of as many times the values that are asked for is sampled
_AT_ONCE = 1 << 20  # values of rows, and their padding


def tops_of_rows(
    values: NDArray[np.floating], starts: NDArray[np.integer], count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the highest values of each row are, in the order of `values`.

    Of equal values, those that come first in the row are among them.

    Args:
      values: float [nnz] of a CSR matrix, none NaN or infinite.
      starts: int [m + 1], where rows begin.
      count: how many of each row, at most.

    Returns:
      int64 places in `values`, those of each row after another, and int64 [m], how many each has:
      `count`, or all where there are fewer.
    """
    sizes = np.diff(starts).astype(np.int64)
    floor = _of_samples(values, starts, sizes, count)
    places, kept = _reaching(values, starts, sizes, floor)
    few = kept < np.minimum(sizes, count)
    if few.any():
        floor[few] = -np.inf
        places, kept = _reaching(values, starts, sizes, floor)
    values, chosen = values[places], np.ones(len(places), bool)
    begin = np.cumsum(kept) - kept
    for rows in _of_like_lengths(np.flatnonzero(kept > count), kept):
        padded, real, at = _padded(values, begin[rows], kept[rows])
        chosen[at] = _among_highest(padded, count)[real]
    return places[chosen], np.minimum(kept, count)


def _padded(
    values: NDArray[np.floating],
    first: NDArray[np.integer],
    sizes: NDArray[np.int64],
    stride: int = 1,
) -> tuple[NDArray[np.floating], NDArray[np.bool_], NDArray[np.int64]]:
    """Rows as an array, the longest of which is the first; -inf where one is shorter.

    Returns:
      the array; where it has values; and their places in `values`, row by row.
    """
    ends = -(-sizes // stride)
    real = np.arange(ends[0]) < ends[:, None]
    at = (first[:, None] + stride * np.arange(ends[0]))[real]
    rows = np.full(real.shape, -np.inf, values.dtype)
    rows[real] = values[at]
    return rows, real, at


def _of_like_lengths(
    rows: NDArray[np.int64], sizes: NDArray[np.int64]
) -> Iterator[NDArray[np.int64]]:
    """Rows that need little padding together, the longest first: partitions of it take long."""
    rows = rows[np.argsort(-sizes[rows], kind="stable")]
    while len(rows):
        longest = sizes[rows[0]]
        like = np.searchsorted(-sizes[rows], -3 * longest // 4, side="right")
        many = max(1, min(int(like), _AT_ONCE // longest))
        yield rows[:many]
        rows = rows[many:]


def _among_highest(rows: NDArray[np.floating], count: int) -> NDArray[np.bool_]:
    """Whether each value is among the `count` highest of its row; of equal ones, the first are."""
    last = np.partition(rows, rows.shape[1] - count, axis=1)[:, rows.shape[1] - count, None]
    above, equal = rows > last, rows == last
    left = count - above.sum(axis=1, keepdims=True)
    many = np.flatnonzero(equal.sum(axis=1, keepdims=True) > left)
    equal[many] &= np.cumsum(equal[many], axis=1) <= left[many]
    return above | equal


def _of_samples(
    values: NDArray[np.floating],
    starts: NDArray[np.integer],
    sizes: NDArray[np.int64],
    count: int,
) -> NDArray[np.floating]:
    """A value for each long row that about twice `count` of its values reach; -inf for others."""
    floor = np.full(len(sizes), -np.inf, values.dtype)
    highest = max(1, 2 * count // _STRIDE)
    for rows in _of_like_lengths(np.flatnonzero(sizes > _LONG * count), sizes):
        padded, _, _ = _padded(values, starts[rows], sizes[rows], _STRIDE)
        place = padded.shape[1] - highest
        floor[rows] = np.partition(padded, place, axis=1)[:, place]
    return floor


def _reaching(
    values: NDArray[np.floating],
    starts: NDArray[np.integer],
    sizes: NDArray[np.int64],
    floor: NDArray[np.floating],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Places of the values that reach the floor of their row, and how many each row has."""
    if np.isneginf(floor).all():
        return np.arange(starts[0], starts[-1]), sizes
    places = np.flatnonzero(values[starts[0] : starts[-1]] >= np.repeat(floor, sizes)) + starts[0]
    return places, np.diff(np.searchsorted(places, starts))

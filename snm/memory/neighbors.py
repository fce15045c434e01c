"""Exact nearest neighbours by cosine of features, on the host."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.machine.cores import num_cores, on_all_cores, share_of_core

__all__ = ["Neighbors", "nearest", "unit_rows"]

_BLOCK_COSINES = 1 << 24  # computed at once; they need up to 8 bytes each
_LEAST_ROWS = 32  # points of a block; fewer are found sooner than a thread starts
_STRIDE = 16


class Neighbors(NamedTuple):
    """The nearest stored points of each of m points, nearest first.

    Attributes:
      ids: int32 [m, count], rows of the stored points; -1 where fewer share a feature.
      cosines: float32 [m, count]; 0 for padding. `Memory` and `choose` hold other similarities
        here too, in no order.
    """

    ids: NDArray[np.int32]
    cosines: NDArray[np.float32]


def nearest(features: csr_matrix, by_feature: csr_matrix, count: int) -> Neighbors:
    """The `count` stored points of highest cosine that share a feature; ties go to the lowest.

    Reads the stored entries of each feature that a point has. Where every stored point has every
    feature, it multiplies dense matrices. Where more points tie for the last places than fit, which
    of them are found is arbitrary but fixed.

    Args:
      features: CSR [m, d] with rows of length 1 (`unit_rows`).
      by_feature: CSR [d, n], the transpose of the stored points, which have length 1 too.
      count: neighbours of each point.
    """
    many = features.shape[0]
    ids = np.full((many, count), -1, np.int32)
    cosines = np.zeros((many, count), np.float32)

    def search(first: int) -> None:
        shared = _shared(features[first : first + rows], by_feature)
        for row, (points, values) in enumerate(shared, first):
            if len(values) > count:
                some = _highest(values, count)
                points, values = points[some], values[some]
            order = np.lexsort((points, -values))
            ids[row, : len(order)] = points[order]
            cosines[row, : len(order)] = values[order]

    if _is_full(by_feature):
        by_feature.sort_indices()  # before threads read it as a dense matrix
    rows = _BLOCK_COSINES // (num_cores() * max(1, by_feature.shape[1]))
    rows = max(1, min(rows, share_of_core(many, _LEAST_ROWS)))
    on_all_cores(search, range(0, many, rows))
    return Neighbors(ids, cosines)


def _shared(features: csr_matrix, by_feature: csr_matrix) -> Iterator[tuple[Any, Any]]:
    """Of each point, the stored points that share a feature, and their cosines."""
    if _is_full(by_feature):
        every = np.arange(by_feature.shape[1], dtype=np.int32)
        for cosines in features.toarray() @ by_feature.data.reshape(by_feature.shape):
            yield every, cosines
        return
    block = features @ by_feature
    for first, last in pairwise(block.indptr):
        yield block.indices[first:last], block.data[first:last]


def _is_full(matrix: csr_matrix) -> bool:
    return 0 < matrix.nnz == matrix.shape[0] * matrix.shape[1]


def _highest(values: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """Where the `count` highest of more values are, in any order.

    Frequent words give a point thousands of neighbours. A sample of the values tells one that about
    twice `count` of them reach; the lower ones need no partition.
    """
    if len(values) > _STRIDE * count:
        sample = values[::_STRIDE]
        place = len(sample) - max(1, 2 * count // _STRIDE)
        high = np.flatnonzero(values >= np.partition(sample, place)[place])
        if len(high) >= count:
            return high[np.argpartition(values[high], len(high) - count)[-count:]]
    return np.argpartition(values, len(values) - count)[-count:]


def unit_rows(features: csr_matrix) -> csr_matrix:
    """CSR [n, d] with rows of length 1; rows of zeros stay."""
    squares = np.asarray(features.multiply(features).sum(axis=1), np.float64).ravel()
    lengths = np.sqrt(squares)
    lengths[lengths == 0] = 1
    scaled = features.copy()
    scaled.data = scaled.data / np.repeat(lengths, np.diff(features.indptr)).astype(np.float32)
    return scaled

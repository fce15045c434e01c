"""Nearest neighbours by cosine of features, on the host: exact, or found by rarer features."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.machine.cores import num_cores, on_all_cores, share_of_core

__all__ = ["READ", "Neighbors", "Stored", "nearest", "unit_rows"]

READ = 1 << 15
"""Entries of stored points that `Stored.similar` reads for a point, at most."""

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


@dataclasses.dataclass(frozen=True, eq=False)
class Stored:
    """Points among which neighbours are found.

    Attributes:
      features: float32 CSR [n, d], of any length.
      transposed: `by_feature`, where it is known already.
    """

    features: csr_matrix
    transposed: csr_matrix | None = None

    @functools.cached_property
    def by_feature(self) -> csr_matrix:
        """CSR [d, n]: for each feature, the points that have it, whose rows have length 1."""
        if self.transposed is not None:
            return self.transposed
        return _divided(self.features, self._lengths).T.tocsr()

    @functools.cached_property
    def _lengths(self) -> NDArray[np.float32]:
        return _lengths(self.features)

    def similar(self, features: csr_matrix, count: int) -> Neighbors:
        """Points of high cosine, found by the rarer features of each point, in any order.

        A frequent feature is in thousands of stored points and adds little to a cosine. So the
        search reads at most `READ` stored entries for a point: its rarest features first, and one
        of them in any case. The cosines of what it finds are those of all features. Dense features
        are all read.

        Args:
          features: CSR [m, d], of any length.
          count: neighbours of each point.
        """
        features = unit_rows(features)
        if _is_full(self.by_feature):
            return nearest(features, self.by_feature, count)
        read = _rarer(features, np.diff(self.by_feature.indptr), READ)
        ids, cosines = nearest(read, self.by_feature, count)
        shorter = np.flatnonzero(np.diff(read.indptr) < np.diff(features.indptr))
        if not len(shorter):
            return Neighbors(ids, cosines)
        lengths = self._lengths  # computed once, before threads ask for them

        def complete(rows: NDArray[np.int64]) -> None:
            point = np.zeros(features.shape[1], np.float32)
            for row in rows:
                own = slice(features.indptr[row], features.indptr[row + 1])
                point[features.indices[own]] = features.data[own]
                near = ids[row][ids[row] >= 0]
                cosines[row, : len(near)] = self.features[near] @ point / lengths[near]
                point[features.indices[own]] = 0

        share = share_of_core(len(shorter), _LEAST_ROWS)
        parts = [shorter[first : first + share] for first in range(0, len(shorter), share)]
        on_all_cores(complete, parts)
        return Neighbors(ids, cosines)


def _rarer(features: csr_matrix, frequency: NDArray[np.integer], most: int) -> csr_matrix:
    """Features of points without those by which a search would read more than `most` entries.

    Of each point, the rarest features are kept as long as the sum of their frequencies is at most
    `most`, and one of them that any stored point has.
    """
    counts = frequency[features.indices].astype(np.int64)
    rows = np.repeat(np.arange(features.shape[0]), np.diff(features.indptr))
    order = np.lexsort((counts, rows))
    read = np.concatenate([[0], np.cumsum(counts[order])])
    before = read[:-1] - read[features.indptr[:-1]][rows]
    keep = np.empty(len(order), bool)
    keep[order] = (before + counts[order] <= most) | (before == 0)
    starts = np.concatenate([[0], np.cumsum(keep)])[features.indptr]
    return csr_matrix((features.data[keep], features.indices[keep], starts), features.shape)


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
    return _divided(features, _lengths(features))


def _divided(features: csr_matrix, lengths: NDArray[np.float32]) -> csr_matrix:
    """Each row divided by a number."""
    scaled = features.copy()
    scaled.data = scaled.data / np.repeat(lengths, np.diff(features.indptr))
    return scaled


def _lengths(features: csr_matrix) -> NDArray[np.float32]:
    """The lengths of rows, float32 [n]; 1 for a row of zeros."""
    squares = np.asarray(features.multiply(features).sum(axis=1), np.float64).ravel()
    lengths = np.sqrt(squares)
    lengths[lengths == 0] = 1
    return lengths.astype(np.float32)

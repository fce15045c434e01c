"""Nearest neighbours by cosine of features, on the host: exact, or found by rarer features."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.data.mapped import row_blocks
from snm.machine.cores import num_cores, on_all_cores
from snm.memory.row_tops import tops_of_rows

__all__ = ["READ", "Neighbors", "Stored", "nearest", "unit_rows"]

READ = 1 << 15
"""Entries of stored points that `Stored.similar` reads for a point, at most."""

_BLOCK = 1 << 20  # entries that a thread works on at once; it takes some 20 bytes for each
_AT_ONCE = 1 << 24  # entries that all threads do
_LEAST = 1 << 18  # entries of a block; fewer are done as soon as a thread starts


class Neighbors(NamedTuple):
    """The nearest stored points of each of m points.

    Those of `nearest` and of `Stored.similar` are in ascending order of their numbers.

    Attributes:
      ids: int32 [m, count], rows of the stored points; -1 at the end where fewer share a feature,
        or, among dense points, any of cosine 0.
      cosines: float32 [m, count]; 0 for padding. `Memory` and `choose` hold other similarities
        here too.
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
    def _lengths(self) -> NDArray[np.float64]:
        return _lengths(self.features)

    def similar(self, features: csr_matrix, count: int) -> Neighbors:
        """Points of high cosine, found by the rarer features of each point.

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
        read = _rarer(features, _reads(features, self.by_feature), READ)
        ids, cosines = nearest(read, self.by_feature, count)
        shorter = np.flatnonzero(np.diff(read.indptr) < np.diff(features.indptr))
        if not len(shorter):
            return Neighbors(ids, cosines)
        lengths = self._lengths  # computed once, before threads ask for them

        def complete(some: slice) -> None:
            rows = shorter[some]
            near, here = ids[rows], np.zeros((len(rows), count), np.float32)
            here[near >= 0] = _products(features[rows], self.features, near)
            cosines[rows] = here / lengths[near]

        near, starts = ids[shorter], self.features.indptr
        entries = ((starts[near + 1] - starts[near]) * (near >= 0)).sum(axis=1, dtype=np.int64)
        # Beside these, a block has a dense array of its points by their features.
        most = math.isqrt(_BLOCK // int(np.diff(features.indptr)[shorter].max()))
        on_all_cores(complete, _blocks(np.maximum(entries, _BLOCK // max(1, most))))
        return Neighbors(ids, cosines)


def _products(
    points: csr_matrix, stored: csr_matrix, ids: NDArray[np.int32]
) -> NDArray[np.float32]:
    """Inner products of each point with stored ones, float32 [number of ids that are not -1].

    Args:
      points: CSR [m, d].
      stored: CSR [n, d].
      ids: [m, count], rows of stored points that share a feature with each; -1 for none.
    """
    used, at = np.unique(points.indices, return_inverse=True)
    dense = np.zeros((points.shape[0], len(used) + 1), np.float32)
    dense[np.repeat(np.arange(len(dense)), np.diff(points.indptr)), at + 1] = points.data
    place = np.zeros(points.shape[1], np.intp)  # column 0 is of the features that no point has
    place[used] = np.arange(1, len(used) + 1)
    of_point = np.nonzero(ids >= 0)[0]
    near = stored[ids[ids >= 0]]
    columns = place[near.indices] + np.repeat(of_point * dense.shape[1], np.diff(near.indptr))
    # None of these sums is empty: each shares a feature with the point.
    return np.add.reduceat(near.data * dense.ravel()[columns], near.indptr[:-1])


def _reads(features: csr_matrix, by_feature: csr_matrix) -> NDArray[np.int64]:
    """How many stored points have the feature of each entry, int64 [nnz]."""
    starts, ids = by_feature.indptr, features.indices
    return starts[ids + 1].astype(np.int64) - starts[ids]


def _rarer(features: csr_matrix, counts: NDArray[np.int64], most: int) -> csr_matrix:
    """Features of points without those by which a search would read more than `most` entries.

    Of each point, the rarest features are kept as long as the sum of their counts, as `_reads` has
    them, is at most `most`, and one of them that any stored point has.
    """
    rows = np.repeat(np.arange(features.shape[0]), np.diff(features.indptr))
    order = np.lexsort((counts, rows))
    read = np.concatenate([[0], np.cumsum(counts[order])])
    before = read[:-1] - read[features.indptr[:-1]][rows]
    keep = np.empty(len(order), bool)
    keep[order] = (before + counts[order] <= most) | (before == 0)
    if keep.all():
        return features
    starts = np.concatenate([[0], np.cumsum(keep)])[features.indptr]
    return csr_matrix((features.data[keep], features.indices[keep], starts), features.shape)


def nearest(features: csr_matrix, by_feature: csr_matrix, count: int) -> Neighbors:
    """The `count` stored points of highest cosine that share a feature.

    Reads the stored entries of each feature that a point has. Where every stored point has every
    feature, it multiplies dense matrices. Where more points tie for the last places than fit, which
    of them are found is arbitrary but fixed.

    Args:
      features: CSR [m, d] with rows of length 1 (`unit_rows`).
      by_feature: CSR [d, n], the transpose of the stored points, which have length 1 too.
      count: neighbours of each point.
    """
    many, stored = features.shape[0], by_feature.shape[1]
    ids = np.full((many, count), -1, np.int32)
    cosines = np.zeros((many, count), np.float32)

    def search(rows: slice) -> None:
        some = features if len(blocks) == 1 else features[rows]  # which copies
        points, values, starts = _shared(some, by_feature)
        places, found = tops_of_rows(values, starts, count)
        there = np.arange(count) < found[:, None]
        near, of_near = ids[rows], cosines[rows]
        near[there], of_near[there] = points[places], values[places]
        order = np.argsort(near.view(np.uint32), axis=1)  # -1 comes last
        ids[rows] = np.take_along_axis(near, order, axis=1)
        cosines[rows] = np.take_along_axis(of_near, order, axis=1)

    read = np.append(0, np.cumsum(_reads(features, by_feature)))
    entries = np.minimum(np.diff(read[features.indptr]), stored)
    if _is_full(by_feature):
        by_feature.sort_indices()  # before threads read it as a dense matrix
        entries[:] = stored
    blocks = _blocks(np.maximum(entries, count))
    on_all_cores(search, blocks)
    return Neighbors(ids, cosines)


def _blocks(entries: NDArray[np.int64]) -> list[slice]:
    """Rows with [m] entries each, cut into blocks: as many as cores where there is enough work."""
    starts = np.append(0, np.cumsum(entries))
    size = min(max(_LEAST, int(starts[-1]) // num_cores()), _BLOCK, _AT_ONCE // num_cores())
    return [slice(*rows) for rows in row_blocks(starts, size)]


def _shared(features: csr_matrix, by_feature: csr_matrix) -> tuple[Any, Any, Any]:
    """The stored points that share a feature with a point, as rows: ids, cosines, and starts."""
    if _is_full(by_feature):
        cosines = features.toarray() @ by_feature.data.reshape(by_feature.shape)
        points, stored = cosines.shape
        return (
            np.tile(np.arange(stored, dtype=np.int32), points),
            cosines.ravel(),
            np.arange(0, cosines.size + 1, stored),
        )
    block = features @ by_feature
    return block.indices, block.data, block.indptr


def _is_full(matrix: csr_matrix) -> bool:
    return 0 < matrix.nnz == matrix.shape[0] * matrix.shape[1]


def unit_rows(features: csr_matrix) -> csr_matrix:
    """CSR [n, d] with rows of length 1; rows of zeros stay."""
    return _divided(features, _lengths(features))


def _divided(features: csr_matrix, lengths: NDArray[np.float64]) -> csr_matrix:
    """Each row divided by a number, in float32."""
    scaled = features.copy()
    of_entries = np.repeat(lengths, np.diff(features.indptr))
    scaled.data = (features.data / of_entries).astype(np.float32)
    return scaled


def _lengths(features: csr_matrix) -> NDArray[np.float64]:
    """The lengths of rows, float64 [n], as squares overflow in float32; 1 for a row of zeros."""
    squares = features.copy()
    squares.data = np.square(features.data, dtype=np.float64)
    lengths = np.sqrt(np.asarray(squares.sum(axis=1)).ravel())
    lengths[lengths == 0] = 1
    return lengths

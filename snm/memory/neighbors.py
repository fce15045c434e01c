"""Nearest neighbours by cosine of features, on the host: exact, or found by rarer features."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.data.csr import row_starts, rows_of_entries
from snm.data.mapped import row_blocks
from snm.machine.cores import num_cores, on_all_cores
from snm.memory.row_top_k import top_k_of_rows

__all__ = ["MAX_READ", "Neighbors", "StoredPoints", "nearest", "unit_rows"]

MAX_READ = 1 << 15
"""Entries of stored points that `StoredPoints.similar` reads for a point, at most."""

_MAX_BLOCK = 1 << 20  # entries of a block, the work of one thread; about 20 bytes per entry
_MAX_TOTAL = 1 << 24  # entries of the blocks of all threads
_MIN_BLOCK = 1 << 18  # entries of a block; fewer take less time than the start of a thread


class Neighbors(NamedTuple):
    """The nearest stored points of each of m points.

    `nearest` and `StoredPoints.similar` return them by ascending id.

    Attributes:
      ids: int32 [m, count], rows of the stored points; -1 at the end if fewer share a feature, or,
        of dense points, for a cosine of 0.
      cosines: float32 [m, count]; 0 for padding. `Memory` and `choose` hold other similarities
        here too.
    """

    ids: NDArray[np.int32]
    cosines: NDArray[np.float32]


@dataclasses.dataclass(frozen=True, eq=False)
class StoredPoints:
    """The stored points that are searched for neighbours.

    Attributes:
      features: float32 CSR [n, d], of any length.
      transposed: `by_feature`, if it is already computed.
    """

    features: csr_matrix
    transposed: csr_matrix | None = None

    @functools.cached_property
    def by_feature(self) -> csr_matrix:
        """CSR [d, n]: for each feature, the points that have it, whose rows have length 1."""
        if self.transposed is not None:
            return self.transposed
        return _divide_rows(self.features, self._lengths).T.tocsr()

    @functools.cached_property
    def _lengths(self) -> NDArray[np.float64]:
        return _lengths(self.features)

    def similar(self, features: csr_matrix, count: int) -> Neighbors:
        """Points of high cosine, found by the rarer features of each point.

        A frequent feature is in thousands of stored points and adds little to a cosine. So the
        search reads at most `MAX_READ` stored entries per point: those of its rarest features, and
        of at least one. The cosines of the points found are then computed over all features. Dense
        features are all read.

        Args:
          features: CSR [m, d], of any length.
          count: the number of neighbours of each point.
        """
        features = unit_rows(features)
        if _is_dense(self.by_feature):
            return nearest(features, self.by_feature, count)
        read = _keep_rare_features(features, _count_points(features, self.by_feature), MAX_READ)
        ids, cosines = nearest(read, self.by_feature, count)
        shorter = np.flatnonzero(np.diff(read.indptr) < np.diff(features.indptr))
        if not len(shorter):
            return Neighbors(ids, cosines)
        lengths = self._lengths  # computed once, before threads read it

        def complete_cosines(block: slice) -> None:
            rows = shorter[block]
            near, products = ids[rows], np.zeros((len(rows), count), np.float32)
            products[near >= 0] = _products(features[rows], self.features, near)
            cosines[rows] = products / lengths[near]

        near, starts = ids[shorter], self.features.indptr
        entries = ((starts[near + 1] - starts[near]) * (near >= 0)).sum(axis=1, dtype=np.int64)
        # A block also has a dense [points, features] array.
        most_points = math.isqrt(_MAX_BLOCK // int(np.diff(features.indptr)[shorter].max()))
        on_all_cores(
            complete_cosines, _blocks(np.maximum(entries, _MAX_BLOCK // max(1, most_points)))
        )
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
    dense[rows_of_entries(points.indptr), at + 1] = points.data
    column = np.zeros(points.shape[1], np.intp)  # column 0: features that no point has
    column[used] = np.arange(1, len(used) + 1)
    point = np.nonzero(ids >= 0)[0]
    near = stored[ids[ids >= 0]]
    columns = column[near.indices] + np.repeat(point * dense.shape[1], np.diff(near.indptr))
    # No sum is empty: each stored point shares a feature with its point.
    return np.add.reduceat(near.data * dense.ravel()[columns], near.indptr[:-1])


def _count_points(features: csr_matrix, by_feature: csr_matrix) -> NDArray[np.int64]:
    """How many stored points have the feature of each entry, int64 [nnz]."""
    starts, ids = by_feature.indptr, features.indices
    return starts[ids + 1].astype(np.int64) - starts[ids]


def _keep_rare_features(features: csr_matrix, counts: NDArray[np.int64], most: int) -> csr_matrix:
    """Keeps the rarest features of each point, by which a search reads at most `most` entries.

    Of each point, the rarest features are kept as long as the sum of their counts, as
    `_count_points` returns them, is at most `most`, and one of them that any stored point has.
    """
    rows = rows_of_entries(features.indptr)
    order = np.lexsort((counts, rows))
    read = row_starts(counts[order])
    before = read[:-1] - read[features.indptr[:-1]][rows]
    keep = np.empty(len(order), bool)
    keep[order] = (before + counts[order] <= most) | (before == 0)
    if keep.all():
        return features
    starts = row_starts(keep)[features.indptr]
    return csr_matrix((features.data[keep], features.indices[keep], starts), features.shape)


def nearest(features: csr_matrix, by_feature: csr_matrix, count: int) -> Neighbors:
    """The `count` stored points of highest cosine that share a feature.

    Reads the stored entries of each feature that a point has. Where every stored point has every
    feature, it multiplies dense matrices. If more points tie for the last places than fit, the
    choice among them is arbitrary but deterministic.

    Args:
      features: CSR [m, d] with rows of length 1 (`unit_rows`).
      by_feature: CSR [d, n], the transpose of the stored points, which have length 1 too.
      count: the number of neighbours of each point.
    """
    num_points, num_stored = features.shape[0], by_feature.shape[1]
    ids = np.full((num_points, count), -1, np.int32)
    cosines = np.zeros((num_points, count), np.float32)

    def search(rows: slice) -> None:
        block = features if len(blocks) == 1 else features[rows]  # indexing copies
        points, values, starts = _block_cosines(block, by_feature)
        places, counts = top_k_of_rows(values, starts, count)
        valid = np.arange(count) < counts[:, None]
        near, near_cosines = ids[rows], cosines[rows]
        near[valid], near_cosines[valid] = points[places], values[places]
        order = np.argsort(near.view(np.uint32), axis=1)  # -1 comes last
        ids[rows] = np.take_along_axis(near, order, axis=1)
        cosines[rows] = np.take_along_axis(near_cosines, order, axis=1)

    read = row_starts(_count_points(features, by_feature))
    entries = np.minimum(np.diff(read[features.indptr]), num_stored)
    if _is_dense(by_feature):
        by_feature.sort_indices()  # before threads read it as a dense matrix
        entries[:] = num_stored
    blocks = _blocks(np.maximum(entries, count))
    on_all_cores(search, blocks)
    return Neighbors(ids, cosines)


def _blocks(entries: NDArray[np.int64]) -> list[slice]:
    """Cuts rows with [m] entries each into blocks: one per core if there is enough work."""
    starts = row_starts(entries)
    size = min(
        max(_MIN_BLOCK, int(starts[-1]) // num_cores()), _MAX_BLOCK, _MAX_TOTAL // num_cores()
    )
    return [slice(*rows) for rows in row_blocks(starts, size)]


def _block_cosines(features: csr_matrix, by_feature: csr_matrix) -> tuple[Any, Any, Any]:
    """The stored points that share a feature with each point, as CSR rows: ids, cosines, starts."""
    if _is_dense(by_feature):
        cosines = features.toarray() @ by_feature.data.reshape(by_feature.shape)
        points, stored = cosines.shape
        return (
            np.tile(np.arange(stored, dtype=np.int32), points),
            cosines.ravel(),
            np.arange(0, cosines.size + 1, stored),
        )
    block = features @ by_feature
    return block.indices, block.data, block.indptr


def _is_dense(matrix: csr_matrix) -> bool:
    return 0 < matrix.nnz == matrix.shape[0] * matrix.shape[1]


def unit_rows(features: csr_matrix) -> csr_matrix:
    """CSR [n, d] with rows of length 1; rows of zeros stay."""
    return _divide_rows(features, _lengths(features))


def _divide_rows(features: csr_matrix, lengths: NDArray[np.float64]) -> csr_matrix:
    """Each row divided by a number, in float32."""
    scaled = features.copy()
    entry_lengths = np.repeat(lengths, np.diff(features.indptr))
    scaled.data = (features.data / entry_lengths).astype(np.float32)
    return scaled


def _lengths(features: csr_matrix) -> NDArray[np.float64]:
    """The lengths of rows in float64 [n], where squares do not overflow; 1 for a row of zeros."""
    squares = features.copy()
    squares.data = np.square(features.data, dtype=np.float64)
    lengths = np.sqrt(np.asarray(squares.sum(axis=1)).ravel())
    lengths[lengths == 0] = 1
    return lengths

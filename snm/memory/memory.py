"""A memory of training points: the labels of a point's neighbours add to its scores.

The final score of label l is s_l + w sqrt(v_l). s_l is the model's score, and v_l the share of
the neighbours' weights that is with neighbours that have the label, in [0, 1]. Interpolation with
neighbours is as in kNN-LM (Khandelwal et al., 2020) and, for this task, PEFA (Chang et al., 2024)
and RAE (Wang et al., 2025), which mix probabilities or scores of neighbours found by embeddings.
Here, features find them, features and embeddings weigh them, and the square root raises the share
of a single near neighbour.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix

from snm.data.csr import row_starts
from snm.machine.cores import num_cores, on_all_cores
from snm.memory.neighbors import Neighbors, StoredPoints
from snm.system.numbers import stable_argsort

__all__ = [
    "EARLIER_POINT",
    "LABEL_NAME",
    "NUM_FOUND",
    "Memory",
    "MemorySettings",
    "Witness",
    "as_float32",
    "joint_cosines",
    "votes",
    "with_query_cosines",
]

EARLIER_POINT, LABEL_NAME = -1, -2
"""Values of `Memory.rows` for a point of an earlier training set (`snm grow`), and for the name of
a label."""

NUM_FOUND = 200
"""Neighbours found by features, of which the most similar vote."""

_MAX_WITNESSES = 3  # per label
_MAX_SHARED = 5  # features per witness
_MIN_POINTS = 32  # per thread; the cosines of fewer take less time than its start
_EXACT_ROOM = 1 << 16  # votes of a few points up to which there is room for the most they can be
_MAX_CACHED = 1 << 18  # numbers of neighbours' queries that are converted at once


@dataclasses.dataclass(frozen=True)
class MemorySettings:
    """How neighbours vote.

    Attributes:
      neighbors: the number of neighbours that vote.
      power: the exponent of a neighbour's similarity in the weight of its vote.
      feature_share: the share of the cosine of features in the similarity; the rest is the cosine
        of queries.
      weight: w, the multiplier of the square root of a label's share of the votes.
    """

    neighbors: int
    power: float
    feature_share: float
    weight: float

    def __post_init__(self) -> None:
        if self.neighbors < 1:
            raise ValueError("neighbors of 1 or more")


class Witness(NamedTuple):
    """A training point, or a label's name, that voted for a label.

    Attributes:
      row: its index in the training set; or `EARLIER_POINT` or `LABEL_NAME`.
      similarity: the cosines mixed by `MemorySettings.feature_share`.
      features: at most 5 features that it shares with the point, by descending product of values.
        `Memory` returns ids, `Predictor` words where it knows them.
    """

    row: int
    similarity: float
    features: list[int] | list[str]


@dataclasses.dataclass(frozen=True, eq=False)
class Memory:
    """Training points that vote for their labels.

    Attributes:
      features: float32 CSR [n, d], weighted as for the model.
      labels: float32 CSR [n, K] of ones.
      queries: float16 [n, D], the model's queries of these points with length 1; None if
        `settings.feature_share` is 1.
      rows: int64 [n], their indices in the training set; or `EARLIER_POINT` or `LABEL_NAME`.
      settings: how neighbours vote.
      weights: float32 [n], above 0, by which the votes of these points are multiplied; None is 1
        for all.
      transposed: `by_feature`, if it is already computed.
    """

    features: csr_matrix
    labels: csr_matrix
    queries: NDArray[np.float16] | None
    rows: NDArray[np.int64]
    settings: MemorySettings
    weights: NDArray[np.float32] | None = None
    transposed: csr_matrix | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays; the features are stored twice, by point and by feature."""
        matrices = (self.features, self.features, self.labels)
        matrix_bytes = sum(m.data.nbytes + m.indices.nbytes + m.indptr.nbytes for m in matrices)
        arrays = [array for array in (self.rows, self.queries, self.weights) if array is not None]
        return matrix_bytes + sum(array.nbytes for array in arrays)

    @functools.cached_property
    def _stored(self) -> StoredPoints:
        return StoredPoints(self.features, self.transposed)

    @property
    def by_feature(self) -> csr_matrix:
        """CSR [d, n]: for each feature, the points that have it, whose rows have length 1."""
        return self._stored.by_feature

    def additions(self, features: csr_matrix, queries: ArrayLike | None) -> csr_matrix:
        """The values to add to the scores of a few points.

        Args:
          features: CSR [m, d], weighted.
          queries: float32 [>= m, D], the first of the same points, of any length; may be on a
            device and still being computed. Only read if the memory has queries.

        Returns:
          float32 CSR [m, K].
        """
        found = self._find_neighbors(features, queries)
        count, power = self.settings.neighbors, self.settings.power
        shares = votes(found, self.labels, count, power, self.weights)
        shares.data = (self.settings.weight * np.sqrt(shares.data)).astype(np.float32)
        return shares

    def room_for_additions(self, num_points: int, num_labels: int) -> int:
        """Room for the values that `additions` has for so many points, but for rare exceptions.

        It is exact for a few points, and twice the usual number for many: what all neighbours can
        have is far more than they do have.

        Args:
          num_points: the number of points.
          num_labels: the number of labels of which the values are used.
        """
        most, usual = self._votes_of_point
        exact = num_points * min(most, num_labels)
        return min(exact, max(_EXACT_ROOM, math.ceil(2 * num_points * usual)))

    @functools.cached_property
    def _votes_of_point(self) -> tuple[int, float]:
        """The most votes that a point can get, and those that it gets from average neighbours.

        That is, the most labels that its neighbours can have together, and the mean number of
        labels of a stored point times the number of neighbours.
        """
        counts = np.diff(self.labels.indptr)
        voters = min(self.settings.neighbors, NUM_FOUND, len(counts))
        if not voters:
            return 0, 0.0
        highest = np.partition(counts, -voters)[-voters:]
        return int(highest.sum()), voters * float(counts.mean())

    def witnesses(
        self,
        features: csr_matrix,
        queries: ArrayLike | None,
        answers: NDArray[np.int32],
        *,
        of_texts: bool = False,
    ) -> list[list[list[Witness]]]:
        """The neighbours that voted for the answers.

        Args:
          features: as in `additions`.
          queries: as in `additions`.
          answers: int [m, k] labels; -1 is none.
          of_texts: whether features are words. Of standardized words, two points that both lack a
            word do not share it.

        Returns:
          for each point and each of its answers, at most three voters with that label, the most
          similar first, each with at most five features that they share.
        """
        found = self._find_neighbors(features, queries)

        def witness(row: int, voter: int) -> Witness:
            stored, similarity = int(found.ids[row, voter]), float(found.cosines[row, voter])
            shared = _shared_features(features[row], self.features[stored], of_texts)
            return Witness(int(self.rows[stored]), similarity, shared)

        witnesses = []
        for row, labels in enumerate(answers.tolist()):
            order = np.argsort(-found.cosines[row], kind="stable")[: self.settings.neighbors]
            voters = [i for i in order if found.ids[row, i] >= 0 and found.cosines[row, i] > 0]
            labels_of = {i: set(self._point_labels(found.ids[row, i])) for i in voters}
            witnesses.append(
                [
                    [
                        witness(row, i)
                        for i in [i for i in voters if label in labels_of[i]][:_MAX_WITNESSES]
                    ]
                    for label in labels
                ]
            )
        return witnesses

    def _point_labels(self, stored: int) -> list[int]:
        first, last = self.labels.indptr[stored : stored + 2]
        return self.labels.indices[first:last].tolist()

    def _find_neighbors(self, features: csr_matrix, queries: ArrayLike | None) -> Neighbors:
        """The neighbours found by features, with their similarities in place of cosines."""
        found = self._stored.similar(features, NUM_FOUND)
        if self.queries is None:
            return found
        assert queries is not None
        ready = np.asarray(queries)[: len(found.ids)]  # waits for a device only now
        cosines = joint_cosines(found.ids, ready, self.queries)
        return with_query_cosines(found, cosines, self.settings.feature_share)


def _shared_features(point: csr_matrix, other: csr_matrix, of_texts: bool) -> list[int]:
    """The features that two points share, by descending product."""
    if of_texts:  # a missing word has the value 0, or a negative one if standardized
        point, other = point.maximum(0), other.maximum(0)
    shared = point.multiply(other).tocsr()
    best: list[int] = shared.indices[np.argsort(-shared.data, kind="stable")][:_MAX_SHARED].tolist()
    return best


def with_query_cosines(
    found: Neighbors, cosines: NDArray[np.float32], feature_share: float
) -> Neighbors:
    """Mixes the cosines of features and of queries into similarities; 0 for an id of -1.

    Args:
      found: the neighbours by features.
      cosines: float32 [m, count], the cosines of the queries, from `joint_cosines`.
      feature_share: as in `MemorySettings`.
    """
    mixed = feature_share * found.cosines + (1 - feature_share) * cosines
    return Neighbors(found.ids, np.where(found.ids >= 0, mixed, 0))


def joint_cosines(
    ids: NDArray[np.int32], queries: NDArray[np.float32], stored: NDArray[np.float16]
) -> NDArray[np.float32]:
    """Cosines float32 [m, count] of queries [m, D] with those stored under `ids` [m, count]."""
    lengths = np.linalg.norm(queries, axis=1, keepdims=True)
    units = (queries / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    cosines = np.empty(ids.shape, np.float32)
    chunk = max(1, _MAX_CACHED // (ids.shape[1] * queries.shape[1]))

    def fill(rows: range) -> None:
        for first in rows[::chunk]:  # the neighbours of a chunk fit into the cache
            points = slice(first, min(first + chunk, rows.stop))
            # Not a matrix product: each thread would start all threads of BLAS.
            cosines[points] = np.vecdot(as_float32(stored[ids[points]]), units[points, None, :])

    all_rows, share = range(len(ids)), max(_MIN_POINTS, -(-len(ids) // num_cores()))
    on_all_cores(fill, [all_rows[first : first + share] for first in all_rows[::share]])
    return cosines


def as_float32(halves: NDArray[np.float16]) -> NDArray[np.float32]:
    """Converts finite float16 numbers to float32 exactly, in a third of the time of `astype`.

    The sign, exponent and fraction are moved to their bits of a float32. The exponent biases differ
    by 112, so the result is then multiplied by 2^112.
    """
    bits = halves.view(np.uint16).astype(np.uint32)
    sign = (bits & 0x8000) << 16
    bits &= 0x7FFF
    bits <<= 13
    bits |= sign
    floats: NDArray[np.float32] = bits.view(np.float32)
    floats *= np.float32(2.0**112)
    return floats


def _argsort_descending(values: NDArray[np.floating]) -> NDArray[np.uint32]:
    """A stable argsort of [m, n] values >= 0 in descending order."""
    positive = values.astype(np.float32) + np.float32(0)  # the bits of -0 would be the highest
    return stable_argsort(~positive.view(np.uint32))


def votes(
    found: Neighbors,
    labels: csr_matrix,
    count: int,
    power: float,
    point_weights: NDArray[np.float32] | None = None,
) -> csr_matrix:
    """Each label's share of the votes: float64 CSR [m, K], in [0, 1].

    Args:
      found: similar points, in any order; the similarities may be of any kind.
      labels: CSR [n, K] of ones.
      count: the number of neighbours that vote, the most similar ones.
      power: the weight of a vote is its similarity, if that is positive, to this power.
      point_weights: [n], multipliers of the votes of the stored points; None is 1.
    """
    ids, similarities = found
    similarities = np.where(ids >= 0, np.maximum(similarities, 0), 0)
    if count < ids.shape[1]:
        order = _argsort_descending(similarities)[:, :count]
        ids = np.take_along_axis(ids, order, axis=1)
        similarities = np.take_along_axis(similarities, order, axis=1)
    weights = similarities.astype(np.float64) ** power
    weights[similarities == 0] = 0
    if point_weights is not None:
        weights *= point_weights[ids]  # the similarity of id -1 is 0
    sums = weights.sum(axis=1, keepdims=True)
    weights /= np.where(sums > 0, sums, 1)
    keep = weights > 0
    starts = row_starts(keep.sum(axis=1))
    shape = (ids.shape[0], labels.shape[0])
    return csr_matrix((weights[keep], ids[keep], starts), shape=shape) @ labels

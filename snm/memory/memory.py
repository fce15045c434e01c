"""A memory of training points: what the labels of a point's neighbours add to its scores.

The final score of label l is s_l + w sqrt(v_l). s_l is the model's score, and v_l the share of
the neighbours' weights that is with neighbours that have the label, in [0, 1]. Interpolation with
neighbours is as in kNN-LM (Khandelwal et al., 2020) and, for this task, PEFA (Chang et al., 2024)
and RAE (Wang et al., 2025), which mix probabilities or scores of neighbours found by embeddings.
Here, features find them, features and embeddings weigh them, and the root lets one near neighbour
be heard.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix

from snm.machine.cores import on_all_cores, share_of_core
from snm.machine.sorting import stable_order
from snm.memory.neighbors import Neighbors, Stored

__all__ = [
    "EARLIER",
    "FOUND",
    "NAME",
    "Memory",
    "MemorySettings",
    "Witness",
    "as_float32",
    "joint_cosines",
    "votes",
    "with_query_cosines",
]

EARLIER, NAME = -1, -2
"""In place of the number of a stored point: it is of an earlier training set (`snm grow`), or it is
the name of a label."""

FOUND = 200
"""Neighbours found by features, of which the most similar vote."""

_WITNESSES = 3  # a label
_SHARED = 5  # features a witness
_LEAST_POINTS = 32  # the cosines of fewer are done before a thread starts
_CACHED = 1 << 18  # numbers of neighbours' queries that are converted at once


@dataclasses.dataclass(frozen=True)
class MemorySettings:
    """How neighbours vote.

    Attributes:
      neighbors: how many vote.
      power: their weights are similarity to this power.
      feature_share: similarity is this share of the cosine of features, and the rest of the cosine
        of queries.
      weight: w, what the root of a label's share of the votes is multiplied by.
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
      row: its number in the training set, from 0; or `EARLIER` or `NAME`.
      similarity: as `MemorySettings.feature_share` mixes it.
      features: the features that it shares with the point, those of the largest product first; at
        most 5. `Memory` gives ids, `Predictor` words where it knows them.
    """

    row: int
    similarity: float
    features: list[int] | list[str]


@dataclasses.dataclass(frozen=True, eq=False)
class Memory:
    """Stored training points.

    Attributes:
      features: float32 CSR [n, d], weighted as for the model.
      labels: float32 CSR [n, K] of ones.
      queries: float16 [n, D], the model's queries of these points with length 1; None if
        `settings.feature_share` is 1.
      rows: int64 [n], the numbers of these points in the training set; or `EARLIER` or `NAME`.
      settings: how neighbours vote.
      weights: float32 [n], above 0, by which the votes of these points are multiplied; None is 1
        for all.
      transposed: `by_feature`, where it is known already.
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
        """Bytes of the arrays, of which the features are held twice: by point and by feature."""
        matrices = (self.features, self.features, self.labels)
        of_matrices = sum(m.data.nbytes + m.indices.nbytes + m.indptr.nbytes for m in matrices)
        arrays = [array for array in (self.rows, self.queries, self.weights) if array is not None]
        return of_matrices + sum(array.nbytes for array in arrays)

    @functools.cached_property
    def _stored(self) -> Stored:
        return Stored(self.features, self.transposed)

    @property
    def by_feature(self) -> csr_matrix:
        """CSR [d, n]: for each feature, the points that have it, whose rows have length 1."""
        return self._stored.by_feature

    def additions(self, features: csr_matrix, queries: ArrayLike | None) -> csr_matrix:
        """What to add to the scores of a few points.

        Args:
          features: CSR [m, d], weighted.
          queries: float32 [>= m, D], the first of the same points, of any length; perhaps on a
            device, and not done yet. Only used where the memory has queries.

        Returns:
          float32 CSR [m, K].
        """
        found = self._similar(features, queries)
        count, power = self.settings.neighbors, self.settings.power
        votes_of = votes(found, self.labels, count, power, self.weights)
        votes_of.data = (self.settings.weight * np.sqrt(votes_of.data)).astype(np.float32)
        return votes_of

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
          of_texts: whether features are words, which a point has or lacks: where they are
            standardized, two points that lack a word share nothing.

        Returns:
          for each point and each of its answers, at most three voters with that label, the most
          similar first, each with at most five features that they share.
        """
        found = self._similar(features, queries)

        def witness(row: int, voter: int) -> Witness:
            stored, similarity = int(found.ids[row, voter]), float(found.cosines[row, voter])
            shared = _shared(features[row], self.features[stored], of_texts)
            return Witness(int(self.rows[stored]), similarity, shared)

        witnesses = []
        for row, labels in enumerate(answers.tolist()):
            order = np.argsort(-found.cosines[row], kind="stable")[: self.settings.neighbors]
            voters = [i for i in order if found.ids[row, i] >= 0 and found.cosines[row, i] > 0]
            held = {i: set(self._labels_of(found.ids[row, i])) for i in voters}
            witnesses.append(
                [
                    [witness(row, i) for i in [i for i in voters if label in held[i]][:_WITNESSES]]
                    for label in labels
                ]
            )
        return witnesses

    def _labels_of(self, stored: int) -> list[int]:
        first, last = self.labels.indptr[stored : stored + 2]
        return self.labels.indices[first:last].tolist()

    def _similar(self, features: csr_matrix, queries: ArrayLike | None) -> Neighbors:
        """The neighbours found by features, with their similarities in place of cosines."""
        found = self._stored.similar(features, FOUND)
        if self.queries is None:
            return found
        assert queries is not None
        ready = np.asarray(queries)[: len(found.ids)]  # waits for a device only now
        cosines = joint_cosines(found.ids, ready, self.queries)
        return with_query_cosines(found, cosines, self.settings.feature_share)


def _shared(point: csr_matrix, other: csr_matrix, of_texts: bool) -> list[int]:
    """The features that two points share, those of the largest product first."""
    if of_texts:  # a word that a text lacks has the value 0 or, standardized, a lower one
        point, other = point.maximum(0), other.maximum(0)
    shared = point.multiply(other).tocsr()
    best: list[int] = shared.indices[np.argsort(-shared.data, kind="stable")][:_SHARED].tolist()
    return best


def with_query_cosines(
    found: Neighbors, cosines: NDArray[np.float32], feature_share: float
) -> Neighbors:
    """Neighbours with similarities in place of cosines; that of an id of -1, for none, is 0.

    Args:
      found: by features.
      cosines: float32 [m, count], of the queries, as `joint_cosines`.
      feature_share: as in `MemorySettings`.
    """
    both = feature_share * found.cosines + (1 - feature_share) * cosines
    return Neighbors(found.ids, np.where(found.ids >= 0, both, 0))


def joint_cosines(
    ids: NDArray[np.int32], queries: NDArray[np.float32], stored: NDArray[np.float16]
) -> NDArray[np.float32]:
    """Cosines float32 [m, count] of queries [m, D] with those stored under `ids` [m, count]."""
    lengths = np.linalg.norm(queries, axis=1, keepdims=True)
    units = (queries / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    found = np.empty(ids.shape, np.float32)

    few = max(1, _CACHED // (ids.shape[1] * queries.shape[1]))

    def fill(rows: range) -> None:
        for first in rows[::few]:  # the neighbours of a few points fit the cache
            some = slice(first, min(first + few, rows.stop))
            # Not a product of matrices: each thread would wake all of BLAS.
            found[some] = np.vecdot(as_float32(stored[ids[some]]), units[some, None, :])

    every, share = range(len(ids)), share_of_core(len(ids), _LEAST_POINTS)
    on_all_cores(fill, [every[first : first + share] for first in every[::share]])
    return found


def as_float32(halves: NDArray[np.float16]) -> NDArray[np.float32]:
    """Finite float16 numbers as float32, the same ones, in a third of the time of `astype`.

    NumPy converts number by number. Moved to their places in a float32, sign, exponent and fraction
    are the number divided by 2^112, the difference of what the exponents count from.
    """
    bits = halves.view(np.uint16).astype(np.uint32)
    sign = (bits & 0x8000) << 16
    bits &= 0x7FFF
    bits <<= 13
    bits |= sign
    found: NDArray[np.float32] = bits.view(np.float32)
    found *= np.float32(2.0**112)
    return found


def _highest_first(values: NDArray[np.floating]) -> NDArray[np.uint32]:
    """Places of [m, n] values >= 0 in falling order, the first of equal ones first."""
    positive = values.astype(np.float32) + np.float32(0)  # the bits of -0 would be the highest
    return stable_order(~positive.view(np.uint32))


def votes(
    found: Neighbors,
    labels: csr_matrix,
    count: int,
    power: float,
    of_points: NDArray[np.float32] | None = None,
) -> csr_matrix:
    """Each label's share of the votes: float64 CSR [m, K], in [0, 1].

    Args:
      found: similar points, in any order; the similarities may be of any kind.
      labels: CSR [n, K] of ones.
      count: how many of them vote, the most similar.
      power: the weight of a vote is its similarity, if that is positive, to this power.
      of_points: [n], what the votes of the stored points are multiplied by; None is 1.
    """
    ids, similarities = found
    similarities = np.where(ids >= 0, np.maximum(similarities, 0), 0)
    if count < ids.shape[1]:
        most = _highest_first(similarities)[:, :count]
        ids = np.take_along_axis(ids, most, axis=1)
        similarities = np.take_along_axis(similarities, most, axis=1)
    weights = similarities.astype(np.float64) ** power
    weights[similarities == 0] = 0
    if of_points is not None:
        weights *= of_points[ids]  # of id -1, too, whose similarity is 0
    sums = weights.sum(axis=1, keepdims=True)
    weights /= np.where(sums > 0, sums, 1)
    keep = weights > 0
    starts = np.concatenate([[0], np.cumsum(keep.sum(axis=1))])
    shape = (ids.shape[0], labels.shape[0])
    return csr_matrix((weights[keep], ids[keep], starts), shape=shape) @ labels

"""Chooses how a memory's neighbours vote, on held-out points; or that they had better not."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.machine.cores import on_all_cores
from snm.memory.adjustment import STRENGTHS, shifts_of
from snm.memory.gain import Gain, gain_of
from snm.memory.memory import MemorySettings, votes, with_query_cosines
from snm.memory.neighbors import Neighbors
from snm.memory.row_tops import tops_of_rows

__all__ = ["Answered", "Choice", "Tried", "Voters", "are_in", "choose"]


class _Voting(NamedTuple):
    """Settings of a memory but its weight; see `MemorySettings`."""

    feature_share: float
    neighbors: int
    power: float


# Each varies one setting. The share comes first: the best of the others depend on it, and once they
# fit one share, the other is hardly ever better.
_VARIED: tuple[Callable[[_Voting], list[_Voting]], ...] = (
    lambda one: [one._replace(feature_share=share) for share in (0.5, 1.0)],
    lambda one: [one._replace(neighbors=count) for count in (10, 30, 100, 200)],
    lambda one: [one._replace(power=power) for power in (1.0, 2.0, 4.0)],
)
_WEIGHTS = (1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0, 8.0)  # of the range of a point's scores
_START = _Voting(0.5, 100, 2.0)
_VOTED = 50  # labels of most votes that are looked at
_SCRATCH = 1 << 18  # votes that are looked up at once
_FEW = 10  # answers that are found one by one; sorting a point's labels takes several times as long


class Answered(NamedTuple):
    """What the model answers for the held-out points, and what is true.

    Attributes:
      labels: int [m, T], the model's best labels, best first; -1 for none.
      scores: float [m, T], theirs. Other labels count as scored like the last of these.
      truth: CSR [m, K] of ones.
      own: CSR [m, K], whose entries of any value are labels that are never answers; or None.
    """

    labels: NDArray[np.int32]
    scores: NDArray[np.float32]
    truth: csr_matrix
    own: csr_matrix | None = None


class Voters(NamedTuple):
    """Who votes for the labels of the held-out points.

    Attributes:
      found: the nearest stored points of each by features.
      cosines: float [m, count], the cosines of the queries of the same points.
      labels: CSR [n, K] of ones, the labels of the stored points.
      weights: float32 [n], of their votes; None is 1 for all.
    """

    found: Neighbors
    cosines: NDArray[np.float32]
    labels: csr_matrix
    weights: NDArray[np.float32] | None = None

    def votes(self, voting: _Voting) -> csr_matrix:
        """The share of each label in the votes for each point, CSR [m, K]."""
        share, count, power = voting
        similar = with_query_cosines(self.found, self.cosines, share)
        return votes(similar, self.labels, count, power, self.weights)


@dataclasses.dataclass(frozen=True)
class Tried(Gain):
    """What a memory with some settings gains on held-out points.

    Attributes:
      settings: how neighbours vote.
    """

    settings: MemorySettings


class Choice(NamedTuple):
    """The settings that are chosen, and the answers with them.

    Attributes:
      tried: the settings, and what they gain; a memory that does not pay has no part in the rest.
      labels: int64 [m, answers], the best answers; -1 where there are fewer.
      scores: float64 [m, answers], theirs; -inf for none.
      right: bool [m, answers], whether these answers are right.
      strength: of the logit adjustment that these answers have, 0 for none; see
        `snm.memory.adjustment`.
      unadjusted: P@1, P@3 and P@5 of the answers at strength 0, in percent.
      adjusted: the same at `strength`.
    """

    tried: Tried
    labels: NDArray[np.int64]
    scores: NDArray[np.float64]
    right: NDArray[np.bool_]
    strength: float
    unadjusted: tuple[float, ...]
    adjusted: tuple[float, ...]


def choose(
    answered: Answered,
    voters: Voters,
    *,
    frequency: NDArray[np.int64] | None = None,
    ks: tuple[int, ...] = (1, 3, 5),
    answers: int = 50,
) -> Choice:
    """Tries settings, and chooses those whose gain is most surely the highest.

    That is the highest `Tried.sure_gain`. Of share, neighbours and power, one at a time takes all
    of its values, each with every weight, until none of the three finds better.

    Args:
      answered: m held-out points.
      voters: their neighbours among n stored points.
      frequency: int [K], the training points of each label, to choose a logit adjustment; or None.
      ks: the numbers of answers that precision is measured at.
      answers: of a point, how many `Choice.labels` has at most.
    """
    labels, scores, truth, _ = answered
    lowest = np.where(labels >= 0, scores, np.inf).min(axis=1)
    span = float(np.mean(scores[:, 0] - np.minimum(lowest, scores[:, 0])))
    true = are_in(labels, truth)
    alone = _Merged.of(answered, true, csr_matrix(truth.shape))
    base = alone.hits(0.0, max(ks))

    def tried(voting: _Voting) -> Tried:
        share, count, power = voting
        merged, found = _Merged.of(answered, true, voters.votes(voting)), []
        for weight in (span * part for part in _WEIGHTS):
            settings = MemorySettings(count, power, share, weight)
            gain = gain_of(base, merged.hits(weight, max(ks)), ks)
            found.append(Tried(**vars(gain), settings=settings))
        return max(found, key=lambda one: one.sure_gain)

    best, done = _START, {_START: tried(_START)}
    steps, unchanged = itertools.cycle(_VARIED), 0
    while unchanged < len(_VARIED):
        fresh = [one for one in next(steps)(best) if one not in done]
        done.update(zip(fresh, on_all_cores(tried, fresh), strict=True))
        before, best = best, max(done, key=lambda one: done[one].sure_gain)
        unchanged = unchanged + 1 if best == before else 0
    chosen, merged, weight = done[best], alone, 0.0
    if chosen.pays:
        merged, weight = _Merged.of(answered, true, voters.votes(best)), chosen.settings.weight
    strength, adjusted = 0.0, merged
    if frequency is not None:
        strength, adjusted = _adjusted(merged, weight, frequency, ks)
    return Choice(
        chosen,
        *adjusted.best(weight, min(answers, labels.shape[1])),
        strength=strength,
        unadjusted=chosen.precision if chosen.pays else chosen.before,
        adjusted=adjusted.precision(weight, ks),
    )


def _adjusted(
    merged: _Merged, weight: float, frequency: NDArray[np.int64], ks: tuple[int, ...]
) -> tuple[float, _Merged]:
    """The largest strength that keeps half of the highest gain of mean precision; 0 if none gains.

    Rare labels gain more by a larger one, and the mean is flat about its highest place.
    """
    tried = {s: merged.shifted(shifts_of(frequency, s)) for s in STRENGTHS}
    base = np.mean(merged.precision(weight, ks))
    gains = {s: np.mean(one.precision(weight, ks)) - base for s, one in tried.items()}
    highest = max(gains.values())
    if highest <= 0:
        return 0.0, merged
    strength = max(s for s, gain in gains.items() if gain >= highest / 2)
    return strength, tried[strength]


@dataclasses.dataclass(frozen=True, eq=False)
class _Merged:
    """The model's best labels and those of most votes.

    Attributes:
      labels: int [m, T + V]; -1 for none.
      model: float [m, T + V], the model's scores.
      roots: float [m, T + V], the roots of the votes.
      true: bool [m, T + V], whether the label is one of the point.
    """

    labels: NDArray[np.int64]
    model: NDArray[np.float64]
    roots: NDArray[np.float64]
    true: NDArray[np.bool_]

    @classmethod
    def of(cls, answered: Answered, true: NDArray[np.bool_], voted: csr_matrix) -> _Merged:
        """Merges; a label that is among both is kept among the model's, one of `own` nowhere.

        Args:
          answered: the model's labels.
          true: bool [m, T], whether each of these is one of the point.
          voted: CSR [m, K], the votes.
        """
        labels, scores, truth, own = answered
        dense, others = _apart(voted, labels, own)
        places, found = tops_of_rows(others, voted.indptr, _VOTED)
        there = np.arange(_VOTED) < found[:, None]
        new = np.full(there.shape, -1, np.int64)
        new_votes = np.zeros(there.shape)
        new[there], new_votes[there] = voted.indices[places], others[places]
        new[new_votes == 0] = -1
        last = np.where(labels >= 0, scores, np.inf).min(axis=1, keepdims=True)
        return cls(
            np.concatenate([labels, new], axis=1),
            np.concatenate([scores, np.broadcast_to(last, new.shape)], axis=1),
            np.sqrt(np.concatenate([dense, new_votes], axis=1)),
            np.concatenate([true, are_in(new, truth)], axis=1),
        )

    def hits(self, weight: float, count: int) -> NDArray[np.bool_]:
        """Whether each of the `count` best labels is true, with this weight; bool [m, count]."""
        return self.best(weight, count)[2]

    def precision(self, weight: float, ks: tuple[int, ...]) -> tuple[float, ...]:
        """P@k in percent, with this weight."""
        hits = self.hits(weight, max(ks))
        return tuple(100 * float(hits[:, :k].mean()) for k in ks)

    def shifted(self, shifts: NDArray[np.float32]) -> _Merged:
        """The same with float [K] `shifts` added to the scores of the labels."""
        added = np.where(self.labels >= 0, shifts[self.labels], 0)
        return dataclasses.replace(self, model=self.model + added)

    def best(
        self, weight: float, count: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_]]:
        """The `count` best labels with this weight, their scores, and whether they are true."""
        scores = np.where(self.labels >= 0, self.model + weight * self.roots, -np.inf)
        best = _highest(scores, count)
        labels, scores, true = (
            np.take_along_axis(values, best, axis=1) for values in (self.labels, scores, self.true)
        )
        return labels, scores, true


def _highest(scores: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Where the `count` highest of each row are, highest first; ties go to the lowest place."""
    if count > _FEW:
        return np.argsort(-scores, axis=1, kind="stable")[:, :count]
    left, rows = np.maximum(scores, np.finfo(np.float64).min), np.arange(len(scores))
    best = np.empty((len(scores), count), np.int64)
    for place in range(count):
        best[:, place] = np.argmax(left, axis=1)
        left[rows, best[:, place]] = -np.inf
    return best


def _apart(
    voted: csr_matrix, labels: NDArray[np.integer], own: csr_matrix | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Votes for the labels [m, T] of each point, and those of `voted` that are for none of them.

    Returns:
      float [m, T], 0 for a label of -1 or of `own`; and float [nnz], 0 where a label is among
      `labels` or `own`.
    """
    points, num_labels = voted.shape
    dense, others = np.zeros(labels.shape), np.empty(voted.nnz)
    rows = max(1, min(points, _SCRATCH // num_labels))
    scratch = np.zeros((rows, num_labels + 1))  # zeros again after each block; -1 has a column
    for first in range(0, points, rows):
        block = slice(first, first + rows)
        at, entries = _entries(voted, block)
        scratch[at] = voted.data[entries]
        if own is not None:
            scratch[_entries(own, block)[0]] = 0
        answers = np.arange(len(labels[block]))[:, None], labels[block]
        dense[block] = scratch[answers]
        scratch[answers] = 0
        others[entries] = scratch[at]
        scratch[at] = 0
    return dense, others


def _entries(
    matrix: csr_matrix, rows: slice
) -> tuple[tuple[NDArray[np.int64], NDArray[np.int32]], slice]:
    """Rows, from 0 on, and columns of the entries of some rows; and the entries."""
    starts = matrix.indptr[rows.start : rows.stop + 1]
    entries = slice(starts[0], starts[-1])
    at = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    return (at, matrix.indices[entries]), entries


def are_in(labels: NDArray[np.integer], matrix: csr_matrix) -> NDArray[np.bool_]:
    """Whether the row of each [m, count] label has it, in a matrix of ones; -1 is in none."""
    rows = np.repeat(np.arange(len(labels)), labels.shape[1])
    found = np.asarray(matrix[rows, np.maximum(labels, 0).ravel()]).reshape(labels.shape)
    return (found > 0) & (labels >= 0)

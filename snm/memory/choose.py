"""Chooses how the neighbours of a memory vote, on held-out points, and whether that pays."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.data.csr import are_entries, rows_of_entries
from snm.machine.cores import on_all_cores
from snm.memory.adjustment import STRENGTHS, label_shifts
from snm.memory.gain import Gain, measure_gain
from snm.memory.memory import MemorySettings, votes, with_query_cosines
from snm.memory.neighbors import Neighbors
from snm.memory.row_top_k import top_k_of_rows

__all__ = ["Choice", "ModelAnswers", "SettingsGain", "Voters", "choose"]


# Each step of the search varies one setting. The share comes first: the best values of the others
# depend on it, and once they fit one share, the other share is hardly ever better.
_SEARCH_STEPS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("feature_share", (0.5, 1.0)),
    ("neighbors", (10, 30, 100, 200)),
    ("power", (1.0, 2.0, 4.0, 8.0, 16.0)),
)
_WEIGHTS = (1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0, 8.0)  # of the range of a point's scores
_START = MemorySettings(neighbors=100, power=2.0, feature_share=0.5, weight=1.0)
_MAX_VOTED = 50  # labels with the most votes that are considered
_MAX_SCRATCH = 1 << 18  # numbers of a dense block of votes
_MAX_ARGMAX = 10  # up to so many answers, repeated argmax takes less time than sorting


class ModelAnswers(NamedTuple):
    """The predictions of the model for the held-out points, and their true labels.

    Attributes:
      labels: int [m, T], the model's best labels, best first; -1 for none.
      scores: float [m, T], the scores of these; any other label counts as scored like the last.
      truth: CSR [m, K] of ones.
      excluded: CSR [m, K], whose entries of any value are labels that are never answers; or None.
    """

    labels: NDArray[np.int32]
    scores: NDArray[np.float32]
    truth: csr_matrix
    excluded: csr_matrix | None = None


class Voters(NamedTuple):
    """The neighbours that vote for labels of the held-out points.

    Attributes:
      found: the nearest stored points of each by features.
      cosines: float [m, count], the cosines of the queries of the same points.
      labels: CSR [n, K] of ones, the labels of the stored points.
      weights: float32 [n], the weights of their votes; None is 1 for all.
    """

    found: Neighbors
    cosines: NDArray[np.float32]
    labels: csr_matrix
    weights: NDArray[np.float32] | None = None

    def votes(self, settings: MemorySettings) -> csr_matrix:
        """The share of each label in the votes for each point, CSR [m, K], before `weight`."""
        similar = with_query_cosines(self.found, self.cosines, settings.feature_share)
        return votes(similar, self.labels, settings.neighbors, settings.power, self.weights)


@dataclasses.dataclass(frozen=True)
class SettingsGain(Gain):
    """The gain of a memory with some settings on held-out points.

    Attributes:
      settings: how neighbours vote.
    """

    settings: MemorySettings


class Choice(NamedTuple):
    """The chosen settings, and the answers with them.

    Attributes:
      tried: the settings and their gain; a memory that does not pay is not used in the rest.
      labels: int64 [m, answers], the best answers; -1 where there are fewer.
      scores: float64 [m, answers], the scores of these; -inf for none.
      right: bool [m, answers], whether these answers are right.
      strength: the strength of the logit adjustment of these answers, 0 for none; see
        `snm.memory.adjustment`.
      unadjusted: P@1, P@3 and P@5 of the answers at strength 0, in percent.
      adjusted: the same at `strength`.
    """

    tried: SettingsGain
    labels: NDArray[np.int64]
    scores: NDArray[np.float64]
    right: NDArray[np.bool_]
    strength: float
    unadjusted: tuple[float, ...]
    adjusted: tuple[float, ...]


def choose(
    answered: ModelAnswers,
    voters: Voters,
    *,
    frequency: NDArray[np.int64] | None = None,
    ks: tuple[int, ...] = (1, 3, 5),
    answers: int = 50,
) -> Choice:
    """Tries settings by coordinate search, and chooses those of the highest `sure_gain`.

    Each step varies one of share, neighbours and power over all of its values, each with every
    weight. The search ends when none of the three improves the gain.

    Args:
      answered: m held-out points.
      voters: their neighbours among n stored points.
      frequency: int [K], the training points of each label, to choose a logit adjustment; or None.
      ks: the numbers of answers that precision is measured at.
      answers: the most answers of a point in `Choice.labels`.
    """
    labels, scores, truth, _ = answered
    lowest = np.where(labels >= 0, scores, np.inf).min(axis=1)
    span = float(np.mean(scores[:, 0] - np.minimum(lowest, scores[:, 0])))
    true = are_entries(labels, truth)
    alone = _Merged.of(answered, true, csr_matrix(truth.shape))
    base = alone.hits(0.0, max(ks))

    def best_weight(settings: MemorySettings) -> SettingsGain:
        merged, gains = _Merged.of(answered, true, voters.votes(settings)), []
        for weight in (span * part for part in _WEIGHTS):
            gain = measure_gain(base, merged.hits(weight, max(ks)), ks)
            weighted = dataclasses.replace(settings, weight=weight)
            gains.append(SettingsGain(**vars(gain), settings=weighted))
        return max(gains, key=lambda gain: gain.sure_gain)

    best, tried = _START, {_START: best_weight(_START)}  # the keys keep the weight of the start
    steps, unchanged = itertools.cycle(_SEARCH_STEPS), 0
    while unchanged < len(_SEARCH_STEPS):
        name, values = next(steps)
        varied = [dataclasses.replace(best, **{name: value}) for value in values]
        untried = [settings for settings in varied if settings not in tried]
        tried.update(zip(untried, on_all_cores(best_weight, untried), strict=True))
        before, best = best, max(tried, key=lambda settings: tried[settings].sure_gain)
        unchanged = unchanged + 1 if best == before else 0
    chosen, merged, weight = tried[best], alone, 0.0
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
    """The largest strength with at least half of the highest gain of mean precision; 0 if none.

    A larger strength helps rare labels more, and the mean is flat around its maximum.
    """
    tried = {s: merged.shifted(label_shifts(frequency, s)) for s in STRENGTHS}
    base = np.mean(merged.precision(weight, ks))
    gains = {s: np.mean(shifted.precision(weight, ks)) - base for s, shifted in tried.items()}
    highest = max(gains.values())
    if highest <= 0:
        return 0.0, merged
    strength = max(s for s, gain in gains.items() if gain >= highest / 2)
    return strength, tried[strength]


@dataclasses.dataclass(frozen=True, eq=False)
class _Merged:
    """The best labels of the model and the labels with the most votes.

    Attributes:
      labels: int [m, T + V]; -1 for none.
      model: float [m, T + V], the model's scores.
      roots: float [m, T + V], the square roots of the votes.
      true: bool [m, T + V], whether the label is one of the point.
    """

    labels: NDArray[np.int64]
    model: NDArray[np.float64]
    roots: NDArray[np.float64]
    true: NDArray[np.bool_]

    @classmethod
    def of(cls, answered: ModelAnswers, true: NDArray[np.bool_], voted: csr_matrix) -> _Merged:
        """Merges both; a label in both is kept once, and `excluded` labels are left out.

        Args:
          answered: the predictions of the model.
          true: bool [m, T], whether each of these labels is one of the point.
          voted: CSR [m, K], the votes.
        """
        labels, scores, truth, excluded = answered
        dense, others = _split_votes(voted, labels, excluded)
        places, counts = top_k_of_rows(others, voted.indptr, _MAX_VOTED)
        valid = np.arange(_MAX_VOTED) < counts[:, None]
        new = np.full(valid.shape, -1, np.int64)
        new_votes = np.zeros(valid.shape)
        new[valid], new_votes[valid] = voted.indices[places], others[places]
        new[new_votes == 0] = -1
        last = np.where(labels >= 0, scores, np.inf).min(axis=1, keepdims=True)
        return cls(
            np.concatenate([labels, new], axis=1),
            np.concatenate([scores, np.broadcast_to(last, new.shape)], axis=1),
            np.sqrt(np.concatenate([dense, new_votes], axis=1)),
            np.concatenate([true, are_entries(new, truth)], axis=1),
        )

    def hits(self, weight: float, count: int) -> NDArray[np.bool_]:
        """Whether each of the `count` best labels is true, with this weight; bool [m, count]."""
        return self.best(weight, count)[2]

    def precision(self, weight: float, ks: tuple[int, ...]) -> tuple[float, ...]:
        """P@k in percent, with this weight."""
        hits = self.hits(weight, max(ks))
        return tuple(100 * float(hits[:, :k].mean()) for k in ks)

    def shifted(self, shifts: NDArray[np.float32]) -> _Merged:
        """Adds float [K] `shifts` to the scores of the labels."""
        added = np.where(self.labels >= 0, shifts[self.labels], 0)
        return dataclasses.replace(self, model=self.model + added)

    def best(
        self, weight: float, count: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_]]:
        """The `count` best labels with this weight, their scores, and whether they are true."""
        scores = np.where(self.labels >= 0, self.model + weight * self.roots, -np.inf)
        best = _top_columns(scores, count)
        labels, scores, true = (
            np.take_along_axis(values, best, axis=1) for values in (self.labels, scores, self.true)
        )
        return labels, scores, true


def _top_columns(scores: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """The columns of the `count` highest scores of each row, in descending order of score."""
    if count > _MAX_ARGMAX:
        return np.argsort(-scores, axis=1, kind="stable")[:, :count]
    remaining, rows = np.maximum(scores, np.finfo(np.float64).min), np.arange(len(scores))
    best = np.empty((len(scores), count), np.int64)
    for place in range(count):
        best[:, place] = np.argmax(remaining, axis=1)
        remaining[rows, best[:, place]] = -np.inf
    return best


def _split_votes(
    voted: csr_matrix, labels: NDArray[np.integer], excluded: csr_matrix | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Splits the votes into those for `labels` [m, T] and those for other labels.

    Returns:
      float [m, T], 0 for a label of -1 or an excluded one; and float [nnz], 0 where a label is in
      `labels` or excluded.
    """
    points, num_labels = voted.shape
    dense, others = np.zeros(labels.shape), np.empty(voted.nnz)
    rows = max(1, min(points, _MAX_SCRATCH // num_labels))
    scratch = np.zeros((rows, num_labels + 1))  # zeros again after each block; -1 has a column
    for first in range(0, points, rows):
        block = slice(first, first + rows)
        at, entries = _entries(voted, block)
        scratch[at] = voted.data[entries]
        if excluded is not None:
            scratch[_entries(excluded, block)[0]] = 0
        answers = np.arange(len(labels[block]))[:, None], labels[block]
        dense[block] = scratch[answers]
        scratch[answers] = 0
        others[entries] = scratch[at]
        scratch[at] = 0
    return dense, others


def _entries(
    matrix: csr_matrix, rows: slice
) -> tuple[tuple[NDArray[np.int64], NDArray[np.int32]], slice]:
    """The (row, column) indices of the entries of some rows, and their slice of `data`."""
    starts = matrix.indptr[rows.start : rows.stop + 1]
    entries = slice(starts[0], starts[-1])
    at = rows_of_entries(starts)
    return (at, matrix.indices[entries]), entries

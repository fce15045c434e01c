"""Computes the metrics of a trained model over a labelled set of points."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.data.dataset import Points
from snm.data.propensity import PROPENSITY
from snm.errors import InputError
from snm.evaluation.auc import Areas
from snm.evaluation.f1 import F1
from snm.evaluation.filters import kept_first, most_filtered, pairs_of, without_filtered
from snm.evaluation.metrics import KS, Metrics, frequency_groups, propensities
from snm.evaluation.popularity import Popularity
from snm.evaluation.reliability import Reliability
from snm.prediction.pair_counts import pair_counts_of
from snm.prediction.predictor import Predictor
from snm.prediction.thresholds import LOOKED_AT

__all__ = [
    "PLAIN",
    "Measures",
    "TrainCounts",
    "evaluate_points",
    "has_score",
    "without_filtered_labels",
]


class TrainCounts(NamedTuple):
    """What PSP, PSnDCG and the groups by label frequency need to know of the training set.

    Attributes:
      label_frequency: int64 [K], the points of the whole training set with each label.
      num_points: the points of the whole training set, at least 1.
      a: A of the propensity model of Jain et al. (2016), at least 0.
      b: B of that model, above 0.
    """

    label_frequency: NDArray[np.int64]
    num_points: int
    a: float = PROPENSITY[0]
    b: float = PROPENSITY[1]


class Measures(NamedTuple):
    """What is measured of a model.

    Attributes:
      ks: the numbers of answers that metrics are computed at, as far as there are as many labels.
      auc: whether to compute the AUC as well, which scores all labels twice more; it is of the
        model's own scores, without the votes of a memory.
      thresholds: to measure F1 at, as in `Predictor.threshold`, each on the answers that it was
        chosen on; those of a number are 50.
      by_label: whether to count the answers of each label as well.
      popularity: whether to measure the most frequent training labels as answers as well, if their
        frequencies are known.
    """

    ks: Sequence[int] = KS
    auc: bool = False
    thresholds: Sequence[str | float] = ()
    by_label: bool = False
    popularity: bool = False


PLAIN = Measures()
"""Metrics at 1, 3 and 5 answers, and no more."""


def without_filtered_labels(points: Points) -> Points:
    """The points with those of their labels that no pair of their filter removes."""
    if points.filter is None:
        return points
    labels = csr_matrix(without_filtered(points.labels, points.filter))
    return dataclasses.replace(points, labels=labels)


def has_score(points: Points, metric: str) -> bool:
    """Whether points have the labels that a metric of `metric_names` needs.

    That is a label that is not filtered, and for AUC also, at the same point, a label that it lacks
    and that is not filtered.
    """
    right = np.diff(without_filtered_labels(points).labels.indptr)
    if metric != "AUC":
        return bool(right.any())
    filtered = np.zeros(points.num_points, np.int64)
    if points.filter is not None:
        pairs = np.unique(points.filter, axis=0)
        filtered = np.bincount(pairs[:, 0], minlength=points.num_points)
    return bool(((right > 0) & (right + filtered < points.num_labels)).any())


def evaluate_points(
    predictor: Predictor,
    points: Points,
    train: TrainCounts | None,
    measures: Measures = PLAIN,
    *,
    duplicates: NDArray[np.bool_] | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Evaluates a model on labelled points.

    Args:
      predictor: the model.
      points: features and true labels; the (point, label) pairs of their filter count neither as
        correct nor as wrong.
      train: counts of the training set. None where they are unknown; then there is no PSP, no
        PSnDCG and no group of labels.
      measures: what to compute.
      duplicates: bool [n], points whose features are equal to those of a training point. A second
        set of metrics leaves them out.
      on_progress: called with the number of points done.

    Returns:
      `metrics`: name -> value in percent, and the counts `points` and `points_without_labels`;
      `by_label_frequency`: one row for each tenth of the labels, rarest first; none without
        `train`;
      `without_repeats`: `metrics` over the points that are not `duplicates`, if there are any;
      `by_popularity`, if asked for: `metrics` of the most frequent training labels as answers to
        every point, but for labels that are never answers to it; none without `train`;
      `reliability`: of the probabilities of the best answers of points with labels, as
      `Reliability.result` says, and their number a point `k`, if the model has probabilities;
      `at_threshold`: of each threshold its name as `threshold`, and what `F1.result` says, if any
        is asked for;
      `by_label`, if asked for: `k`, which is max(ks), and arrays, int64 [K] each: `train`, the
        training points of a label, or None without `train`; and over the points that have labels,
        `test`, the points that carry it; `answers`, the points that have it among their best k
        answers, and `right`, those of them that carry it.

    Raises:
      InputError: the width of features or labels differs from the model's, or a threshold as in
        `Predictor.threshold`.
    """
    num_labels = predictor.model.spec.num_labels
    if points.num_labels != num_labels:
        raise InputError("labels", f"{points.num_labels}", f"{num_labels}, as in training")
    ks = tuple(k for k in measures.ks if k <= num_labels)
    start = Metrics.start(
        num_labels,
        ks=ks,
        propensity=None if train is None else propensities(*train),
        groups=None if train is None else frequency_groups(train.label_frequency),
    )
    every, others, each, popular = start, start, F1.start(num_labels), start
    popularity = None
    if measures.popularity and train is not None:
        popularity = Popularity.of(train.label_frequency)
    of_probabilities = _Probabilities(predictor, measures.thresholds, max(ks))
    kept = max(max(ks), of_probabilities.most)
    for rows, answers, p, truth, dropped in _answers(predictor, points, kept):
        every = every.update(answers, truth)
        if duplicates is not None:
            others = others.update(answers, truth, leave_out=duplicates[rows])
        if measures.by_label:
            each = each.update(answers[:, : max(ks)], truth)
        if popularity is not None:
            if predictor.model.drop_seen:
                dropped = np.concatenate([dropped, pairs_of(points.features[rows])])
            best = popularity.best(len(answers), max(ks), dropped)
            popular = popular.update(best, truth)
        if p is not None:
            of_probabilities.update(answers, p, truth)
        if on_progress:
            on_progress(rows.stop)
    found: dict[str, Any] = {
        "metrics": every.result(),
        "by_label_frequency": every.by_group(max(ks)),
        **of_probabilities.result(),
    }
    if measures.by_label:
        counts = {"test": each.true, "answers": each.answers, "right": each.hits}
        known = None if train is None else train.label_frequency
        found["by_label"] = {"k": max(ks), "train": known, **counts}
    repeats = duplicates is not None and bool(duplicates.any())
    if repeats:
        found["without_repeats"] = others.result()
    if popularity is not None:
        found["by_popularity"] = popular.result()
    if measures.auc:
        every_area, other_areas = _areas(predictor, points, duplicates, on_progress)
        found["metrics"] |= every_area.result()
        if repeats:
            found["without_repeats"] |= other_areas.result()
    return found


class _Answered(NamedTuple):
    """A block of m points, without filtered labels.

    Attributes:
      rows: of the points.
      answers: int32 [m, up to kept], the best labels; -1 where there is none.
      p: their probabilities, float32 of that shape, if the model has some.
      truth: CSR [m, K], the true labels.
      filtered: int64 [p, 2], pairs (row of the block, label) that were left out.
    """

    rows: slice
    answers: NDArray[np.int32]
    p: NDArray[np.float32] | None
    truth: csr_matrix
    filtered: NDArray[np.int64]


def _answers(predictor: Predictor, points: Points, kept: int) -> Iterator[_Answered]:
    """The best labels of each block of points, and the true ones."""
    num_labels, row = points.num_labels, 0
    pairs = np.zeros((0, 2), np.int64)
    if points.filter is not None:
        pairs = points.filter[np.argsort(points.filter[:, 0], kind="stable")]
    extra = most_filtered(pairs)
    for answers, scores in predictor.top(points.features, min(kept + extra, num_labels)):
        rows = slice(row, row + len(answers))
        truth = points.labels[rows]
        p = None if predictor.calibration is None else predictor.probabilities(scores)
        first, last = np.searchsorted(pairs[:, 0], [row, rows.stop])
        here = pairs[first:last] - np.array([row, 0])
        if points.filter is not None:
            answers, places = kept_first(answers, here, num_labels, kept)
            truth = without_filtered(truth, here)
            p = None if p is None else np.take_along_axis(p, places, axis=1)
        yield _Answered(rows, answers, p, truth, here)
        row = rows.stop


class _Probabilities:
    """What the probabilities of answers are worth: how well they fit, and F1 at thresholds.

    Args:
      predictor: the model; without probabilities there is nothing to tell.
      thresholds: as in `Measures`.
      k: the best answers whose probabilities are compared with the truth.
    """

    def __init__(self, predictor: Predictor, thresholds: Sequence[str | float], k: int):
        num_labels = predictor.model.spec.num_labels
        self._likely = predictor.calibration is not None
        self._names, self._k = [str(one) for one in thresholds], k
        self._cuts = [predictor.threshold(one) for one in thresholds]
        self._f1 = [F1.start(num_labels) for _ in self._cuts]
        self._reliability = Reliability.start()
        # How many answers of a point the thresholds look at.
        self.most = max((min(cut.k or LOOKED_AT, num_labels) for cut in self._cuts), default=0)

    def update(self, answers: NDArray[np.int32], p: NDArray[np.float32], truth: csr_matrix) -> None:
        """More points: their answers and probabilities [m, kept], and true labels [m, K]."""
        for number, cut in enumerate(self._cuts):
            looked_at = np.s_[:, : cut.k or LOOKED_AT]
            best = answers[looked_at]
            left = np.where(cut(best, p[looked_at]), best, -1)
            self._f1[number] = self._f1[number].update(left, truth)
        answers, p = answers[:, : self._k], p[:, : self._k]
        given = (answers >= 0) & (np.diff(truth.indptr) > 0)[:, None]
        if given.any():  # SciPy selects no entry as a matrix, and some as an array
            right = np.asarray(truth[np.nonzero(given)[0], answers[given]]).ravel() > 0
            self._reliability = self._reliability.update(p[given], right)

    def result(self) -> dict[str, Any]:
        """`reliability` and `at_threshold` of `evaluate_points`, as far as there is any."""
        found: dict[str, Any] = {}
        if self._likely:
            found["reliability"] = {"k": self._k, **self._reliability.result()}
        if self._cuts:
            of_each = zip(self._names, self._f1, strict=True)
            found["at_threshold"] = [{"threshold": x, **f1.result()} for x, f1 in of_each]
        return found


def _areas(
    predictor: Predictor,
    points: Points,
    duplicates: NDArray[np.bool_] | None,
    on_progress: Callable[[int], None] | None,
) -> tuple[Areas, Areas]:
    """AUC counts over all points, and over the points that are not `duplicates`."""
    pairs = (
        np.zeros((0, 2), np.int64) if points.filter is None else np.unique(points.filter, axis=0)
    )
    labels = without_filtered(points.labels, pairs)
    filtered = np.bincount(pairs[:, 0], minlength=labels.shape[0])
    every, others, row = Areas(), Areas(), 0
    for count, twice in pair_counts_of(predictor, points.features, labels, pairs):
        rows = slice(row, row + count)
        every = every.update(twice, labels[rows], filtered[rows])
        if duplicates is not None:
            others = others.update(twice, labels[rows], filtered[rows], leave_out=duplicates[rows])
        row = rows.stop
        if on_progress:
            on_progress(row)
    return every, others

"""Evaluates a trained model on labelled points."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.data.dataset import Points
from snm.data.repository.registry import PROPENSITY
from snm.errors import InputError
from snm.evaluation.auc import Areas
from snm.evaluation.f1 import F1
from snm.evaluation.filters import first_unfiltered, max_filtered, nonzero_pairs, remove_filtered
from snm.evaluation.metrics import KS, Metrics, frequency_groups, propensities
from snm.evaluation.popularity import Popularity
from snm.evaluation.reliability import Reliability
from snm.prediction.concordant_pairs import count_concordant_pairs
from snm.prediction.predictor import Predictor
from snm.prediction.thresholds import DEFAULT_THRESHOLD_K

__all__ = [
    "Measures",
    "TrainCounts",
    "can_evaluate",
    "evaluate_points",
    "remove_filtered_labels",
]


class TrainCounts(NamedTuple):
    """Counts of the training set, for PSP, PSnDCG and the groups of labels by frequency.

    Attributes:
      label_frequency: int64 [K], the number of points of the whole training set with each label.
      num_points: the number of points of the whole training set, at least 1.
      a: A of the propensity model of Jain et al. (2016), at least 0.
      b: B of that model, above 0.
    """

    label_frequency: NDArray[np.int64]
    num_points: int
    a: float = PROPENSITY[0]
    b: float = PROPENSITY[1]


class Measures(NamedTuple):
    """Which metrics to compute.

    Attributes:
      ks: the values of k; those above the number of labels are omitted.
      auc: whether to compute the AUC, which scores all labels twice more. It uses the scores of the
        model without the votes of a memory.
      thresholds: for F1, as in `Predictor.threshold`. Each selects from as many answers per point
        as it was chosen on; a number selects from 50.
      by_label: whether to count the answers of each label.
      popularity: whether to measure the most frequent training labels as answers as well, if their
        frequencies are known.
    """

    ks: Sequence[int] = KS
    auc: bool = False
    thresholds: Sequence[str | float] = ()
    by_label: bool = False
    popularity: bool = False


_DEFAULT_MEASURES = Measures()


def remove_filtered_labels(points: Points) -> Points:
    """The points without the labels that their filter removes."""
    if points.filter is None:
        return points
    labels = csr_matrix(remove_filtered(points.labels, points.filter))
    return dataclasses.replace(points, labels=labels)


def can_evaluate(points: Points, metric: str) -> bool:
    """Whether a metric of `metric_names` is defined on the points.

    At least one point must have a label that is not filtered. For AUC, the same point must also
    lack a label that is not filtered.
    """
    num_true = np.diff(remove_filtered_labels(points).labels.indptr)
    if metric != "AUC":
        return bool(num_true.any())
    filtered = np.zeros(points.num_points, np.int64)
    if points.filter is not None:
        pairs = np.unique(points.filter, axis=0)
        filtered = np.bincount(pairs[:, 0], minlength=points.num_points)
    return bool(((num_true > 0) & (num_true + filtered < points.num_labels)).any())


def evaluate_points(
    predictor: Predictor,
    points: Points,
    train: TrainCounts | None,
    measures: Measures = _DEFAULT_MEASURES,
    *,
    duplicates: NDArray[np.bool_] | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Evaluates a model on labelled points.

    Args:
      predictor: the model.
      points: features and true labels; the (point, label) pairs of their filter count neither as
        correct nor as wrong.
      train: counts of the training set. None if they are unknown: then there is no PSP, no PSnDCG
        and no group of labels.
      measures: which metrics to compute; by default those at k = 1, 3 and 5 only.
      duplicates: bool [n], points whose features equal those of a training point. A second set of
        metrics excludes them.
      on_progress: called with the number of points done; the AUC counts from the start again.

    Returns:
      `metrics`: name -> value in percent, and the counts `points` and `points_without_labels`;
      `by_label_frequency`: one row for each tenth of the labels, rarest first; empty without
        `train`;
      `without_repeats`: `metrics` over the points that are not `duplicates`, if there are any;
      `by_popularity`, if asked for: `metrics` of the most frequent training labels as answers to
        every point, but for labels that are never answers to it; absent without `train`;
      `reliability`, if the model has probabilities: `Reliability.result` for the best `k` answers
        of the points with labels, and `k`;
      `at_threshold`, if there are thresholds: for each, its name as `threshold`, and `F1.result`;
      `by_label`, if asked for: `k`, which is max(ks), and int64 [K] arrays: `train`, the number of
        training points with each label, or None without `train`; and over the points with labels,
        `test`, the number with each label; `answers`, the number with it among the best k answers;
        and `right`, the number of these that are correct.

    Raises:
      InputError: the numbers of features or labels differ from the model's, or a threshold is not
        valid (see `Predictor.threshold`).
    """
    num_labels = predictor.model.spec.num_labels
    if points.num_labels != num_labels:
        raise InputError("labels", f"{points.num_labels}", f"{num_labels}, as in training")
    if duplicates is not None and not duplicates.any():
        duplicates = None
    ks = tuple(k for k in measures.ks if k <= num_labels)
    start = Metrics.start(
        num_labels,
        ks=ks,
        propensity=None if train is None else propensities(*train),
        groups=None if train is None else frequency_groups(train.label_frequency),
    )
    metrics, unique_metrics, label_counts = start, start, F1.start(num_labels)
    popularity, popularity_metrics = None, start
    if measures.popularity and train is not None:
        popularity = Popularity.of(train.label_frequency)
    probability_metrics = _ProbabilityMetrics(predictor, measures.thresholds, max(ks))
    num_answers = max(max(ks), probability_metrics.num_answers)
    for rows, answers, p, truth, filtered in _answers(predictor, points, num_answers):
        metrics = metrics.update(answers, truth)
        if duplicates is not None:
            unique_metrics = unique_metrics.update(answers, truth, leave_out=duplicates[rows])
        if measures.by_label:
            label_counts = label_counts.update(answers[:, : max(ks)], truth)
        if popularity is not None:
            dropped = filtered
            if predictor.model.drop_seen:
                dropped = np.concatenate([filtered, nonzero_pairs(points.features[rows])])
            best = popularity.best(len(answers), max(ks), dropped)
            popularity_metrics = popularity_metrics.update(best, truth)
        if p is not None:
            probability_metrics.update(answers, p, truth)
        if on_progress:
            on_progress(rows.stop)
    result: dict[str, Any] = {
        "metrics": metrics.result(),
        "by_label_frequency": metrics.by_group(max(ks)),
        **probability_metrics.result(),
    }
    if measures.by_label:
        result["by_label"] = {
            "k": max(ks),
            "train": None if train is None else train.label_frequency,
            "test": label_counts.true,
            "answers": label_counts.answers,
            "right": label_counts.hits,
        }
    if duplicates is not None:
        result["without_repeats"] = unique_metrics.result()
    if popularity is not None:
        result["by_popularity"] = popularity_metrics.result()
    if measures.auc:
        areas, unique_areas = _areas(predictor, points, duplicates, on_progress)
        result["metrics"] |= areas.result()
        if duplicates is not None:
            result["without_repeats"] |= unique_areas.result()
    return result


class _Answered(NamedTuple):
    """The answers to a block of m points, without filtered labels.

    Attributes:
      rows: the rows of the points.
      answers: int32 [m, up to num_answers], the best labels, padded with -1.
      p: their probabilities, float32 in that shape, if the model has any.
      truth: CSR [m, K], the true labels.
      filtered: int64 [f, 2], the (row of the block, label) pairs that were removed.
    """

    rows: slice
    answers: NDArray[np.int32]
    p: NDArray[np.float32] | None
    truth: csr_matrix
    filtered: NDArray[np.int64]


def _answers(predictor: Predictor, points: Points, num_answers: int) -> Iterator[_Answered]:
    """The best labels and the true labels of each block of points."""
    num_labels, row = points.num_labels, 0
    pairs = np.zeros((0, 2), np.int64)
    if points.filter is not None:
        pairs = points.filter[np.argsort(points.filter[:, 0], kind="stable")]
    extra = max_filtered(pairs)
    for answers, scores in predictor.top(points.features, min(num_answers + extra, num_labels)):
        rows = slice(row, row + len(answers))
        truth = points.labels[rows]
        p = None if predictor.calibration is None else predictor.probabilities(scores)
        first, last = np.searchsorted(pairs[:, 0], [row, rows.stop])
        block_pairs = pairs[first:last] - np.array([row, 0])
        if points.filter is not None:
            answers, columns = first_unfiltered(answers, block_pairs, num_labels, num_answers)
            truth = remove_filtered(truth, block_pairs)
            p = None if p is None else np.take_along_axis(p, columns, axis=1)
        yield _Answered(rows, answers, p, truth, block_pairs)
        row = rows.stop


class _ProbabilityMetrics:
    """Metrics of the probabilities of answers: their reliability, and F1 at thresholds.

    Args:
      predictor: the model; if it has no probabilities, there is no metric.
      thresholds: as in `Measures`.
      k: how many answers of a point the reliability takes into account.

    Attributes:
      num_answers: how many answers of a point the thresholds select from.
    """

    def __init__(self, predictor: Predictor, thresholds: Sequence[str | float], k: int):
        num_labels = predictor.model.spec.num_labels
        self._has_probabilities = predictor.calibration is not None
        self._names, self._k = [str(threshold) for threshold in thresholds], k
        self._thresholds = [predictor.threshold(threshold) for threshold in thresholds]
        self._f1 = [F1.start(num_labels) for _ in self._thresholds]
        self._reliability = Reliability.start()
        self.num_answers = max(
            (min(threshold.k or DEFAULT_THRESHOLD_K, num_labels) for threshold in self._thresholds),
            default=0,
        )

    def update(self, answers: NDArray[np.int32], p: NDArray[np.float32], truth: csr_matrix) -> None:
        """Adds a batch: answers and probabilities [m, num_answers], and true labels [m, K]."""
        for number, threshold in enumerate(self._thresholds):
            columns = np.s_[:, : threshold.k or DEFAULT_THRESHOLD_K]
            best = answers[columns]
            selected = np.where(threshold(best, p[columns]), best, -1)
            self._f1[number] = self._f1[number].update(selected, truth)
        answers, p = answers[:, : self._k], p[:, : self._k]
        valid = (answers >= 0) & (np.diff(truth.indptr) > 0)[:, None]
        if valid.any():  # an empty selection of SciPy is a matrix, another one an array
            correct = np.asarray(truth[np.nonzero(valid)[0], answers[valid]]).ravel() > 0
            self._reliability = self._reliability.update(p[valid], correct)

    def result(self) -> dict[str, Any]:
        """The keys `reliability` and `at_threshold` of `evaluate_points`, if they apply."""
        result: dict[str, Any] = {}
        if self._has_probabilities:
            result["reliability"] = {"k": self._k, **self._reliability.result()}
        if self._thresholds:
            named = zip(self._names, self._f1, strict=True)
            result["at_threshold"] = [{"threshold": name, **f1.result()} for name, f1 in named]
        return result


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
    labels = remove_filtered(points.labels, pairs)
    filtered = np.bincount(pairs[:, 0], minlength=labels.shape[0])
    areas, unique_areas, row = Areas(), Areas(), 0
    for count, doubled_counts in count_concordant_pairs(predictor, points.features, labels, pairs):
        rows = slice(row, row + count)
        areas = areas.update(doubled_counts, labels[rows], filtered[rows])
        if duplicates is not None:
            unique_areas = unique_areas.update(
                doubled_counts, labels[rows], filtered[rows], leave_out=duplicates[rows]
            )
        row = rows.stop
        if on_progress:
            on_progress(row)
    return areas, unique_areas

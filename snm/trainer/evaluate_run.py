"""Evaluation of a finished run."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from snm.data.dataset import Dataset, Points
from snm.distributed.dataset import duplicate_test_rows_together, label_frequency_together
from snm.errors import InputError
from snm.evaluation.evaluate import (
    Measures,
    TrainCounts,
    can_evaluate,
    evaluate_points,
)
from snm.evaluation.metrics import KS
from snm.prediction.candidates.parse import parse_whole_k
from snm.prediction.predictor import Predictor
from snm.runs.stored_run import StoredRun
from snm.text import counted
from snm.trainer.run_data import evaluation_data, seen_training_points

__all__ = ["evaluate", "score_test_points"]


def evaluate(
    run: str | Path,
    data: str | Path | Dataset | None = None,
    *,
    same_ids: bool = False,
    ks: Sequence[int] | None = None,
    auc: bool | None = None,
    thresholds: Sequence[str | float] = (),
    by_label: bool = False,
    propensity_a: float | None = None,
    propensity_b: float | None = None,
    on_progress: Callable[[int], None] | None = None,
    predictor: Predictor | None = None,
    indexed: Predictor | None = None,
) -> dict[str, Any]:
    """Scores a trained model on the test points of its data set, or of another.

    The labels of another data set are mapped to those of the run by their names. Where it has no
    test part, all of its points are test points, and the label frequencies are those of the run's
    data, if these can still be read.

    Args:
      run: the run's folder, or its address in a store.
      data: another data set than the run's.
      same_ids: labels without names mean the same in the other data set.
      ks: the numbers of answers that metrics are computed at, each 1 to K; None is 1, 3 and 5.
      auc: also the AUC; None is the setting of the run.
      thresholds: of probabilities, to measure F1 at; as in `Predictor.threshold`.
      by_label: also the counts of each label, as arrays; `train` is None where nothing is known of
        the training points.
      propensity_a: A of the propensity model, as in `TrainCounts`; None is that of the run.
      propensity_b: B, likewise.
      on_progress: called with the number of points done; the AUC and `indexed` count from the
        start again.
      predictor: the run's model, if it is open already, perhaps with an index; None opens it.
      indexed: the run's model with an index, to compare with it.

    Returns:
      As `evaluation.evaluate_points`; with `notes`, lines on how another data set was read, and on
      A and B if they are not those of the run; with `by_index`, the `metrics` of `indexed`, without
      AUC, if it is given.

    Raises:
      InputError: no run, no test points or none with labels, data of other features or labels, a
        k out of range, A or B not above 0, or a predictor of a model of other sizes or settings.
      StoreError: a store gave up.
    """
    stored = StoredRun.open(run)
    predictor = stored.load() if predictor is None else predictor
    model = dataclasses.replace(stored.model, members=stored.members)
    for name, given in (("predictor", predictor), ("indexed", indexed)):
        if given is not None and given.model != model:
            raise InputError(name, "another model", f"that of {run}")
    num_labels = predictor.model.spec.num_labels
    expected = f"1 to {num_labels}, the number of labels"
    ks = [] if ks is None else [parse_whole_k(k, num_labels, expected) for k in ks]
    dataset, notes = evaluation_data(stored, data, same_ids=same_ids)
    assert dataset.test is not None
    if not can_evaluate(dataset.test, "P@1"):
        points = counted(dataset.test.num_points, "test point")
        raise InputError(dataset.name, f"{points}, none with a label that counts", "labels")
    config = stored.config
    own = config.propensity_a, config.propensity_b
    propensity = _propensity(own, propensity_a, propensity_b)
    if propensity != own:
        (a, b), (run_a, run_b) = propensity, own
        notes.append(f"PSP and PSnDCG have A = {a:g}, B = {b:g}; the run has {run_a:g}, {run_b:g}")
    measures = Measures(
        ks=ks or KS,
        auc=config.auc if auc is None else auc,
        thresholds=thresholds,
        by_label=by_label,
        popularity=True,
    )
    result = score_test_points(
        predictor,
        dataset,
        propensity,
        measures,
        trained_on=seen_training_points(stored.origin, dataset),
        on_progress=on_progress,
        indexed=indexed,
    )
    return {**result, "notes": notes} if notes else result


def _propensity(own: tuple[float, float], a: float | None, b: float | None) -> tuple[float, float]:
    """A and B as given, or else those of the run.

    Raises:
      InputError: a value that is not above 0.
    """
    for flag, value in (("--propensity-a", a), ("--propensity-b", b)):
        if value is not None and not 0 < value < math.inf:
            raise InputError(flag, str(value), "a number above 0")
    return own[0] if a is None else float(a), own[1] if b is None else float(b)


def score_test_points(
    predictor: Predictor,
    dataset: Dataset,
    propensity: tuple[float, float],
    measures: Measures,
    *,
    trained_on: Sequence[Points],
    on_progress: Callable[[int], None] | None = None,
    indexed: Predictor | None = None,
) -> dict[str, Any]:
    """Metrics of a model on the test points of a data set.

    Args:
      predictor: of the model.
      dataset: with test points; the label frequencies are those of its train part, and unknown if
        that is empty.
      propensity: A and B of the propensity model, as in `TrainCounts`.
      measures: the metrics to compute.
      trained_on: at least one set of training points, to find test points that repeat them.
      on_progress: as in `evaluate`.
      indexed: the model with an index.

    Returns:
      As `evaluation.evaluate_points`; and `points_without_features`, the number of test points with
      labels but without a feature that the model knows, if there are any; and `by_index`, the
      `metrics` of `indexed`, without AUC, if it is given.
    """
    assert dataset.test is not None
    blank = predictor.blank(dataset.test.features)
    empty = int(np.count_nonzero(blank & (np.diff(dataset.test.labels.indptr) > 0)))
    repeats = [duplicate_test_rows_together(dataset.test, points) for points in trained_on]
    train = None
    if num_points := dataset.train.num_points:
        train = TrainCounts(label_frequency_together(dataset), num_points, *propensity)
    result = evaluate_points(
        predictor,
        dataset.test,
        train,
        measures,
        duplicates=np.any(repeats, axis=0),
        on_progress=on_progress,
    )
    if empty:
        result["points_without_features"] = empty
    if indexed is not None:
        found = evaluate_points(
            indexed, dataset.test, train, Measures(measures.ks), on_progress=on_progress
        )
        result["by_index"] = found["metrics"]
    return result

"""Evaluation of a finished run."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from snm.data.dataset import Dataset, Points
from snm.data.id_space import renumber_labels
from snm.data.load import load as load_dataset
from snm.distributed.dataset import duplicate_test_rows_together, label_frequency_together
from snm.distributed.processes import has_several_processes
from snm.errors import InputError, counted
from snm.evaluation.evaluate import (
    DEFAULT_MEASURES,
    Measures,
    TrainCounts,
    can_evaluate,
    evaluate_points,
)
from snm.evaluation.metrics import KS
from snm.prediction.candidates import parse_whole_k
from snm.prediction.predictor import Predictor
from snm.runs.folder import RunFolder
from snm.runs.schema import RunOrigin
from snm.runs.stored_run import StoredRun
from snm.stores.address import Address
from snm.stores.objects import StoreError

__all__ = [
    "earlier_training_points",
    "evaluate",
    "evaluation_data",
    "score_test_points",
    "training_data",
]


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
      on_progress: called with the number of points done.
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
        trained_on=_seen_training_points(stored.origin, dataset),
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


def evaluation_data(
    stored: StoredRun,
    data: str | Path | Dataset | None = None,
    *,
    same_ids: bool = False,
    own_train: bool = False,
) -> tuple[Dataset, list[str]]:
    """The data set of a run, or another in the ids of the run, with test points.

    Args:
      stored: the run.
      data: another data set than the run's.
      same_ids: labels without names mean the same in the other data set.
      own_train: the train part of the result is always that of the run, even if the other data set
        has a train part.

    Returns:
      The data set, and notes on how it was read. Without `own_train`, its train part is empty if
      the other data set has no test part and the run's data cannot be read.

    Raises:
      InputError: no test points, other features or labels, or data that changed since the run;
        with `own_train`, the run's data cannot be read.
      StoreError: a store gave up.
    """
    origin, ids = stored.origin, stored.ids()
    notes = []
    if data is None:
        dataset = training_data(origin)
    else:
        dataset = data if isinstance(data, Dataset) else load_dataset(data)
        if dataset.test is None and dataset.sha256 != origin.sha256:
            notes.append(f"{dataset.name} has no test part: all of its points are test points")
            dataset = dataclasses.replace(
                dataset, train=dataset.train.take(np.arange(0)), test=dataset.train
            )
    if dataset.test is None:
        found = "no test points, and its points are those that the run was trained on"
        raise InputError(dataset.name, found, "--data with other points")
    dataset, note = renumber_labels(dataset, ids, same_ids=same_ids)
    if note is not None:
        notes.append(note)
    if own_train and dataset.sha256 != origin.sha256:
        own, _ = renumber_labels(training_data(origin), ids)
        dataset = dataclasses.replace(dataset, train=own.train)
    elif not dataset.train.num_points:
        with contextlib.suppress(InputError, StoreError):
            own, _ = renumber_labels(training_data(origin), ids)
            dataset = dataclasses.replace(dataset, train=own.train)
    return dataset, notes


def _seen_training_points(origin: RunOrigin, dataset: Dataset) -> list[Points]:
    """The training points of a run and of the runs that it started from, as far as readable.

    Args:
      origin: of the run.
      dataset: the data set that the run is evaluated on. Its train part is used if it is the data
        set of the run, or if no other training points can be read.

    Returns:
      At least one set of points, which may be empty.
    """
    seen = earlier_training_points(origin)
    is_own = dataset.sha256 == origin.sha256
    if not is_own and not has_several_processes():
        with contextlib.suppress(InputError, StoreError):
            seen.append(training_data(origin).train)
    if is_own or not seen:
        seen.append(dataset.train)
    return seen


def earlier_training_points(origin: RunOrigin) -> list[Points]:
    """The training points of the runs that a run started from or grew from, as far as readable.

    Their features are those of the run; their labels may differ. The list is empty in several
    processes, and it ends at a run in a store.

    Args:
      origin: of the run.
    """
    points: list[Points] = []
    if has_several_processes():
        return points
    visited: set[str] = set()
    while (parent := origin.grown_from or origin.warm_start) is not None:
        if parent in visited or Address.of(parent) is not None:
            break
        visited.add(parent)
        try:
            origin = RunFolder(Path(parent)).read_origin()
        except InputError:
            break
        with contextlib.suppress(InputError, StoreError):
            points.append(training_data(origin).train)
    return points


def training_data(origin: RunOrigin) -> Dataset:
    """The data set that a run was trained on.

    Raises:
      InputError: it was in memory, cannot be read, or has changed since.
      StoreError: a store gave up.
    """
    in_memory = origin.in_memory
    try:
        dataset = load_dataset(origin.data)  # data in memory may have the name of a built-in set
        if dataset.sha256 == origin.sha256:
            return dataset
    except InputError:
        if not in_memory:
            raise
    if in_memory:
        found = f"data that a program had in memory ({origin.data})"
        expected = "--data with a folder of them, and --same-ids if labels have no names"
        raise InputError("the data of the run", found, expected)
    found = "other content than when the run was trained"
    raise InputError(origin.data, found, "the same, or --data with another place")


def score_test_points(
    predictor: Predictor,
    dataset: Dataset,
    propensity: tuple[float, float],
    measures: Measures = DEFAULT_MEASURES,
    *,
    trained_on: Sequence[Points] = (),
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
      trained_on: training points, to find test points that repeat them; by default the train part.
      on_progress: called with the number of points done.
      indexed: the model with an index.

    Returns:
      As `evaluation.evaluate_points`; and `points_without_features`, the number of test points with
      labels but without a feature that the model knows, if there are any; and `by_index`, the
      `metrics` of `indexed`, without AUC, if it is given.
    """
    assert dataset.test is not None
    blank = predictor.blank(dataset.test.features)
    empty = int(np.count_nonzero(blank & (np.diff(dataset.test.labels.indptr) > 0)))
    repeats = [duplicate_test_rows_together(dataclasses.replace(dataset, train=points))
               for points in trained_on or [dataset.train]]  # fmt: skip
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
        found = evaluate_points(indexed, dataset.test, train, Measures(measures.ks))
        result["by_index"] = found["metrics"]
    return result

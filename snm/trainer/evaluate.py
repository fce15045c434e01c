"""Evaluation of a finished run."""

from __future__ import annotations

import contextlib
import dataclasses
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
from snm.prediction.candidates import whole_k
from snm.prediction.predictor import Predictor
from snm.runs.folder import RunFolder
from snm.runs.load import StoredRun
from snm.runs.schema import RunOrigin
from snm.stores.address import Address
from snm.stores.objects import StoreError

__all__ = ["data_of_run", "evaluate", "own_data", "score_test_points", "trained_before"]


def evaluate(
    run: str | Path,
    data: str | Path | Dataset | None = None,
    *,
    same_ids: bool = False,
    ks: Sequence[int] | None = None,
    auc: bool | None = None,
    thresholds: Sequence[str | float] = (),
    by_label: bool = False,
    on_progress: Callable[[int], None] | None = None,
    predictor: Predictor | None = None,
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
      on_progress: called with the number of points done.
      predictor: the run's model, if it is open already, perhaps with an index; None opens it.

    Returns:
      As `evaluation.evaluate_points`; with `notes`, lines on how another data set was read.

    Raises:
      InputError: no run, no test points or none with labels, data of other features or labels, a
        k out of range, or a predictor of a model of other sizes or settings.
      StoreError: a store gave up.
    """
    stored = StoredRun.open(run)
    predictor = stored.load() if predictor is None else predictor
    model = dataclasses.replace(stored.model, members=stored.members)
    if predictor.model != model:
        raise InputError("predictor", "another model", f"that of {run}")
    most = predictor.model.spec.num_labels
    expected = f"1 to {most}, the number of labels"
    ks = [whole_k(k, most, expected) for k in (() if ks is None else ks)]
    dataset, notes = data_of_run(stored, data, same_ids=same_ids)
    assert dataset.test is not None
    if not can_evaluate(dataset.test, "P@1"):
        points = counted(dataset.test.num_points, "test point")
        raise InputError(dataset.name, f"{points}, none with a label that counts", "labels")
    config = stored.config
    measures = Measures(
        ks=ks or KS,
        auc=config.auc if auc is None else auc,
        thresholds=thresholds,
        by_label=by_label,
        popularity=True,
    )
    found = score_test_points(
        predictor,
        dataset,
        (config.propensity_a, config.propensity_b),
        measures,
        trained_on=_points_trained_on(stored.origin, dataset),
        on_progress=on_progress,
    )
    return {**found, "notes": notes} if notes else found


def data_of_run(
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
      own_train: train is what the run was trained on, also where the other data set has a train
        part.

    Returns:
      The data set, and lines on what was done with it. Without `own_train`, train is empty where
      the other data set has no test part and the run's data cannot be read.

    Raises:
      InputError: no test points, other features or labels, or data that changed since the run;
        with `own_train`, the run's data cannot be read.
      StoreError: a store gave up.
    """
    origin, ids = stored.origin, stored.ids()
    notes = []
    if data is None:
        dataset = own_data(origin)
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
    dataset, mapped = renumber_labels(dataset, ids, same_ids=same_ids)
    if mapped is not None:
        notes.append(mapped)
    if own_train and dataset.sha256 != origin.sha256:
        own, _ = renumber_labels(own_data(origin), ids)
        dataset = dataclasses.replace(dataset, train=own.train)
    elif not dataset.train.num_points:
        with contextlib.suppress(InputError, StoreError):
            own, _ = renumber_labels(own_data(origin), ids)
            dataset = dataclasses.replace(dataset, train=own.train)
    return dataset, notes


def _points_trained_on(origin: RunOrigin, dataset: Dataset) -> list[Points]:
    """The points that a run and the runs it came from were trained on, as far as they are known.

    Args:
      origin: of the run.
      dataset: the data set that the run is evaluated on. Its train counts where it is the data set
        of the run, or where no other points are known.

    Returns:
      At least one set of points, perhaps an empty one.
    """
    found = trained_before(origin)
    own = dataset.sha256 == origin.sha256
    if not own and not has_several_processes():
        with contextlib.suppress(InputError, StoreError):
            found.append(own_data(origin).train)
    if own or not found:
        found.append(dataset.train)
    return found


def trained_before(origin: RunOrigin) -> list[Points]:
    """What the runs were trained on that a run came from, as far as it can be read here.

    Their labels may be others; their features are the same. In several processes, and of runs in a
    store, it is nothing.

    Args:
      origin: of the run.
    """
    found: list[Points] = []
    if has_several_processes():
        return found
    seen: set[str] = set()
    while (before := origin.grown_from or origin.warm_start) is not None:
        if before in seen or Address.of(before) is not None:
            break
        seen.add(before)
        try:
            origin = RunFolder(Path(before)).read_origin()
        except InputError:
            break
        with contextlib.suppress(InputError, StoreError):
            found.append(own_data(origin).train)
    return found


def own_data(origin: RunOrigin) -> Dataset:
    """The data set that a run was trained on.

    Raises:
      InputError: it was in memory, cannot be read, or has changed since.
      StoreError: a store gave up.
    """
    in_memory = origin.in_memory
    try:
        dataset = load_dataset(origin.data)  # what was in memory may be a set of this name
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
) -> dict[str, Any]:
    """Metrics of a model on the test points of a data set that has some.

    Args:
      predictor: of the model.
      dataset: with test points; the frequencies of the labels are those of its train, and unknown
        where that has no points.
      propensity: A and B of the propensity model, as in `TrainCounts`.
      measures: what to compute.
      trained_on: points that a test point may repeat; by default train of the data set.
      on_progress: called with the number of points done.

    Returns:
      As `evaluation.evaluate_points`; and `points_without_features`, how many of the test points
      with labels say nothing to the model, if some do.
    """
    assert dataset.test is not None
    blank = predictor.blank(dataset.test.features)
    empty = int(np.count_nonzero(blank & (np.diff(dataset.test.labels.indptr) > 0)))
    repeats = [duplicate_test_rows_together(dataclasses.replace(dataset, train=points))
               for points in trained_on or [dataset.train]]  # fmt: skip
    train = None
    if num_points := dataset.train.num_points:
        train = TrainCounts(label_frequency_together(dataset), num_points, *propensity)
    found = evaluate_points(
        predictor,
        dataset.test,
        train,
        measures,
        duplicates=np.any(repeats, axis=0),
        on_progress=on_progress,
    )
    return {**found, "points_without_features": empty} if empty else found

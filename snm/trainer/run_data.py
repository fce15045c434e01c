"""The data of a run: what it was trained on, and what it is evaluated on."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path

import numpy as np

from snm.data.dataset import Dataset, Points
from snm.data.id_space import renumber_labels
from snm.data.load import load as load_dataset
from snm.distributed.processes import has_several_processes
from snm.errors import InputError
from snm.runs.folder import RunFolder
from snm.runs.schema import RunOrigin
from snm.runs.stored_run import StoredRun
from snm.stores.address import Address
from snm.stores.objects import StoreError

__all__ = ["earlier_training_points", "evaluation_data", "seen_training_points", "training_data"]


def evaluation_data(
    stored: StoredRun,
    data: str | Path | Dataset | None,
    *,
    same_ids: bool = False,
    own_train: bool = False,
) -> tuple[Dataset, list[str]]:
    """The data set of a run, or another in the ids of the run, with test points.

    Args:
      stored: the run.
      data: another data set than the run's; None is the run's.
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
        try:
            own, _ = renumber_labels(training_data(origin), ids)
        except InputError as error:
            if data is None or not origin.in_memory:
                raise
            found = "other content than the data of the run, which a program had in memory"
            expected = "that content, for its training points"
            raise InputError(dataset.name, found, expected) from error
        dataset = dataclasses.replace(dataset, train=own.train)
    elif not dataset.train.num_points:
        with contextlib.suppress(InputError, StoreError):
            own, _ = renumber_labels(training_data(origin), ids)
            dataset = dataclasses.replace(dataset, train=own.train)
    return dataset, notes


def seen_training_points(origin: RunOrigin, dataset: Dataset) -> list[Points]:
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
        raise InputError("the data of the run", found, "--data with a folder of them")
    found = "other content than when the run was trained"
    raise InputError(origin.data, found, "the same, or --data with another place")

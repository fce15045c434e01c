"""The meaning of feature and label ids: compares two data sets, and renumbers labels by name.

Two data sets of equal shape may number their labels differently, such as imports of the texts of
two months. Labels are matched by name. Ids without names have the same meaning only within one data
set.
"""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.data.csr import row_starts
from snm.data.dataset import Dataset, Points
from snm.data.names import normalize_name
from snm.data.vectorizer import Vectorizer
from snm.errors import InputError
from snm.text import counted

__all__ = [
    "TRAIN_ANEW",
    "IdSpace",
    "check_features",
    "features_are_labels",
    "match_labels",
    "renumber_labels",
]


TRAIN_ANEW = "new items need a training anew, on data with the old and the new ones"
"""The advice in messages on new items, for a run whose labels and features are the same items."""


@dataclasses.dataclass(frozen=True, eq=False)
class IdSpace:
    """The meaning of the feature and label ids of a run or a data set.

    Attributes:
      name: of the run or data set, for messages.
      num_features: number of features d.
      num_labels: number of labels K.
      label_names: K names by label id, or None.
      sha256: hash of the data set that numbers features and labels in this way.
      vectorizer: file of the vectorizer, or None.
    """

    name: str
    num_features: int
    num_labels: int
    label_names: tuple[str, ...] | None
    sha256: str
    vectorizer: Path | None = None

    @classmethod
    def of(cls, dataset: Dataset) -> IdSpace:
        """The ids of a data set."""
        return cls(
            dataset.name,
            dataset.train.num_features,
            dataset.train.num_labels,
            dataset.label_names,
            dataset.sha256,
            dataset.vectorizer,
        )


def features_are_labels(dataset: Dataset) -> bool | None:
    """Whether features and labels are the same items in the same order, by their names.

    There may be more labels than features: those of items that came later.

    Returns:
      None where features or labels have no names, and labels are not fewer.
    """
    num_features = dataset.train.num_features
    if num_features > dataset.train.num_labels:
        return False
    if dataset.vectorizer is None or dataset.label_names is None:
        return None
    return Vectorizer.read(dataset.vectorizer).vocabulary == dataset.label_names[:num_features]


def check_features(data_ids: IdSpace, run_ids: IdSpace) -> None:
    """Checks that features have the same meaning, if both vocabularies are known.

    Raises:
      InputError: the vocabularies or the numbers of features differ.
    """
    own, other = data_ids.vectorizer, run_ids.vectorizer
    # Most often one is a copy of the other.
    if own is not None and other is not None and own.read_bytes() != other.read_bytes():
        theirs = Vectorizer.read(other)
        if not Vectorizer.read(own).makes_features_of(theirs):
            found = f"features of another vocabulary than those of {run_ids.name}"
            raise InputError(data_ids.name, found, _makes_features_of(run_ids, theirs))
    if data_ids.num_features != run_ids.num_features:
        expected = f"{run_ids.num_features}, as in training"
        raise InputError(data_ids.name, counted(data_ids.num_features, "feature"), expected)


def _makes_features_of(run_ids: IdSpace, texts: Vectorizer) -> str:
    """What makes data with the features of `texts`, the vectorizer there, for messages."""
    like = f"--like {shlex.quote(run_ids.name)}"
    if texts.item_separator is None:
        return f"`snm data import {like}`"
    return (
        f"`snm data interactions {like}` for a log, or `snm data import {like} --new-labels drop` "
        f"for lists: both leave out items that it lacks; {TRAIN_ANEW}"
    )


def match_labels(
    data_ids: IdSpace, run_ids: IdSpace, *, same_ids: bool
) -> NDArray[np.int64] | None:
    """Matches the labels of `data_ids` with those of `run_ids` by name.

    Args:
      data_ids: the label ids of the data.
      run_ids: the label ids of the run.
      same_ids: assume that labels without names have the same ids, if their numbers are equal.

    Returns:
      For each label of `data_ids`, its id in `run_ids` or -1: int64 [K]; None if all ids are equal.

    Raises:
      InputError: labels without names, in another number or of another data set; a name twice.
    """
    if data_ids.label_names is not None and run_ids.label_names is not None:
        if data_ids.label_names == run_ids.label_names:
            return None
        for space in (data_ids, run_ids):
            if len(set(space.label_names or ())) < space.num_labels:
                found, expected = "a label name twice", "different names, to map labels by them"
                raise InputError(space.name, found, expected)
        names = [
            [*map(normalize_name, space)] for space in (data_ids.label_names, run_ids.label_names)
        ]
        # Some may differ in their spelling only.
        if any(len(set(space)) < len(space) for space in names):
            names = [[*data_ids.label_names], [*run_ids.label_names]]
        ids = {name: label for label, name in enumerate(names[1])}
        return np.array([ids.get(name, -1) for name in names[0]], np.int64)
    if data_ids.num_labels != run_ids.num_labels:
        expected = f"{run_ids.num_labels}, as in training"
        raise InputError(data_ids.name, counted(data_ids.num_labels, "label"), expected)
    if data_ids.sha256 != run_ids.sha256 and not same_ids:
        without = data_ids if data_ids.label_names is None else run_ids
        found = f"labels without names in {without.name}, and other data than in training"
        raise InputError(
            data_ids.name, found, "names on both sides, or --same-ids if ids mean the same"
        )
    return None


def renumber_labels(
    dataset: Dataset, run_ids: IdSpace, *, same_ids: bool = False, train_too: bool = False
) -> tuple[Dataset, str | None]:
    """Renumbers the labels of a data set like those of a run, by name.

    Args:
      dataset: the data.
      run_ids: the ids of the run.
      same_ids: as in `match_labels`.
      train_too: whether to reject labels of training points that the run lacks. By default they are
        dropped, since an evaluation only counts training labels.

    Returns:
      The data set with K labels in the order of `run_ids`, and a message about it; or the unchanged
      data set and None.

    Raises:
      InputError: features or labels that cannot be the run's; a test point (with `train_too` any
        point) with a label that the run lacks.
    """
    data_ids = IdSpace.of(dataset)
    check_features(data_ids, run_ids)
    slots = match_labels(data_ids, run_ids, same_ids=same_ids)
    if slots is None:
        return dataset, None
    lacking = np.flatnonzero(slots < 0)
    for points in (dataset.test, dataset.train if train_too else None):
        if points is None:
            continue
        counts = np.bincount(points.labels.indices, minlength=data_ids.num_labels)
        if (used := lacking[counts[lacking] > 0]).size:
            assert data_ids.label_names is not None
            name = data_ids.label_names[used[0]]
            found = f"{counted(len(used), 'label')} that {run_ids.name} lacks, such as {name!r}"
            expected = f"its labels (`snm data import --like {run_ids.name}` drops or adds others)"
            raise InputError(data_ids.name, found, expected)
    test = None if dataset.test is None else _renumbered(dataset.test, slots, run_ids.num_labels)
    mapped = dataclasses.replace(
        dataset,
        train=_renumbered(dataset.train, slots, run_ids.num_labels),
        test=test,
        label_names=run_ids.label_names,
    )
    return mapped, f"labels of {data_ids.name} were mapped by name to those of {run_ids.name}"


def _renumbered(points: Points, slots: NDArray[np.int64], num_labels: int) -> Points:
    """Points in which label j becomes `slots[j]`; labels of slot -1 are dropped."""
    labels, pairs = points.labels, points.filter
    new = slots[labels.indices]
    kept = new >= 0
    ends = row_starts(kept)[labels.indptr]
    renumbered = csr_matrix(
        (labels.data[kept], new[kept].astype(np.int32), ends),
        shape=(labels.shape[0], num_labels),
    )
    renumbered.sort_indices()
    if pairs is not None:
        pairs = np.stack([pairs[:, 0], slots[pairs[:, 1]]], axis=1)
        pairs = pairs[pairs[:, 1] >= 0]
    label_weights = None
    if points.label_weights is not None:
        label_weights = np.ones(num_labels, np.float32)
        label_weights[slots[slots >= 0]] = points.label_weights[slots >= 0]
    return dataclasses.replace(points, labels=renumbered, filter=pairs, label_weights=label_weights)

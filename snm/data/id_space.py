"""What feature and label ids stand for: whether two data sets mean the same, and data renumbered.

Two data sets of one shape may number their labels in another order, as two imports of one month's
texts and the next one's do. Label names tell; ids without names mean the same only within one data
set.
"""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.data.dataset import Dataset, Points
from snm.data.names import one_name
from snm.data.vectorizer import Vectorizer
from snm.errors import InputError, counted

__all__ = [
    "TRAIN_ANEW",
    "IdSpace",
    "check_features",
    "features_are_labels",
    "in_ids_of",
    "slots_by_name",
]


TRAIN_ANEW = "new items need a training anew, on data with the old and the new ones"
"""What is told of new items for a run whose labels and features are the same items."""


@dataclasses.dataclass(frozen=True, eq=False)
class IdSpace:
    """What the ids of a run or of a data set stand for.

    Attributes:
      name: of the run or data set, for messages.
      num_features: number of features d.
      num_labels: number of labels K.
      label_names: K names by label id, or None.
      sha256: hash of the data set that numbers features and labels in this way.
      vectorizer: file of the vectoriser, or None.
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
    """Whether features and labels are the same items in the same order, as far as names tell.

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


def check_features(here: IdSpace, there: IdSpace) -> None:
    """Checks that features mean the same, as far as the vocabularies are known.

    Raises:
      InputError: other vocabularies, or other numbers of features.
    """
    own, other = here.vectorizer, there.vectorizer
    # Most often one is a copy of the other.
    if own is not None and other is not None and own.read_bytes() != other.read_bytes():
        theirs = Vectorizer.read(other)
        if not Vectorizer.read(own).makes_features_of(theirs):
            found = f"features of another vocabulary than those of {there.name}"
            raise InputError(here.name, found, _makes_features_of(there, theirs))
    if here.num_features != there.num_features:
        expected = f"{there.num_features}, as in training"
        raise InputError(here.name, counted(here.num_features, "feature"), expected)


def _makes_features_of(there: IdSpace, texts: Vectorizer) -> str:
    """What makes data with the features of `texts`, the vectoriser there, for messages."""
    like = f"--like {shlex.quote(there.name)}"
    if texts.item_separator is None:
        return f"`snm data import {like}`"
    return (
        f"`snm data interactions {like}` for a log, or `snm data import {like} --new-labels drop` "
        f"for lists: both leave out items that it lacks; {TRAIN_ANEW}"
    )


def slots_by_name(here: IdSpace, there: IdSpace, *, same_ids: bool) -> NDArray[np.int64] | None:
    """Finds the labels of `here` among those of `there`, by their names.

    Args:
      here: some label ids.
      there: other label ids.
      same_ids: take labels without names to mean the same where there are as many.

    Returns:
      For each label of `here` its id there, or -1, int64 [K of here]; None if all ids are equal.

    Raises:
      InputError: labels without names, in another number or of another data set; a name twice.
    """
    if here.label_names is not None and there.label_names is not None:
        if here.label_names == there.label_names:
            return None
        for space in (here, there):
            if len(set(space.label_names or ())) < space.num_labels:
                found, expected = "a label name twice", "different names, to map labels by them"
                raise InputError(space.name, found, expected)
        names = [[*map(one_name, space)] for space in (here.label_names, there.label_names)]
        if any(len(set(space)) < len(space) for space in names):  # which the spelling tells apart
            names = [[*here.label_names], [*there.label_names]]
        ids = {name: label for label, name in enumerate(names[1])}
        return np.array([ids.get(name, -1) for name in names[0]], np.int64)
    if here.num_labels != there.num_labels:
        expected = f"{there.num_labels}, as in training"
        raise InputError(here.name, counted(here.num_labels, "label"), expected)
    if here.sha256 != there.sha256 and not same_ids:
        without = here if here.label_names is None else there
        found = f"labels without names in {without.name}, and other data than in training"
        raise InputError(
            here.name, found, "names on both sides, or --same-ids if ids mean the same"
        )
    return None


def in_ids_of(
    dataset: Dataset, there: IdSpace, *, same_ids: bool = False, train_too: bool = False
) -> tuple[Dataset, str | None]:
    """Renumbers the labels of a data set as those of a run, by their names.

    Args:
      dataset: the data.
      there: the ids of the run.
      same_ids: as for `slots_by_name`.
      train_too: refuse labels that the run lacks in train too; by default they are left out there,
        for an evaluation only counts them.

    Returns:
      The data set with K labels in the order of `there`, and a line that tells so; or the data set
      as it is and None.

    Raises:
      InputError: features or labels that cannot be the run's; a test point (with `train_too` any
        point) with a label that the run lacks.
    """
    here = IdSpace.of(dataset)
    check_features(here, there)
    slots = slots_by_name(here, there, same_ids=same_ids)
    if slots is None:
        return dataset, None
    lacking = np.flatnonzero(slots < 0)
    for points in (dataset.test, dataset.train if train_too else None):
        if points is None:
            continue
        counts = np.bincount(points.labels.indices, minlength=here.num_labels)
        if (used := lacking[counts[lacking] > 0]).size:
            assert here.label_names is not None
            name = here.label_names[used[0]]
            found = f"{counted(len(used), 'label')} that {there.name} lacks, such as {name!r}"
            expected = f"its labels (`snm data import --like {there.name}` drops or adds others)"
            raise InputError(here.name, found, expected)
    test = None if dataset.test is None else _renumbered(dataset.test, slots, there.num_labels)
    mapped = dataclasses.replace(
        dataset,
        train=_renumbered(dataset.train, slots, there.num_labels),
        test=test,
        label_names=there.label_names,
    )
    return mapped, f"labels of {here.name} were mapped by name to those of {there.name}"


def _renumbered(points: Points, slots: NDArray[np.int64], num_labels: int) -> Points:
    """Points whose label j is `slots[j]`; labels of slot -1 are left out."""
    labels, pairs = points.labels, points.filter
    new = slots[labels.indices]
    kept = new >= 0
    ends = np.concatenate([[0], np.cumsum(kept)])[labels.indptr]
    renumbered = csr_matrix(
        (labels.data[kept], new[kept].astype(np.int32), ends),
        shape=(labels.shape[0], num_labels),
    )
    renumbered.sort_indices()
    if pairs is not None:
        pairs = np.stack([pairs[:, 0], slots[pairs[:, 1]]], axis=1)
        pairs = pairs[pairs[:, 1] >= 0]
    of_labels = None
    if points.label_weights is not None:
        of_labels = np.ones(num_labels, np.float32)
        of_labels[slots[slots >= 0]] = points.label_weights[slots >= 0]
    return dataclasses.replace(points, labels=renumbered, filter=pairs, label_weights=of_labels)

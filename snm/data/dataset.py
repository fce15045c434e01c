"""The in-memory form of a data set: points with CSR features and labels, in train and test."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, vstack

from snm.data.csr import count_ids, csr_of_ones, with_ones
from snm.data.mapped import select_rows
from snm.data.matrices import to_csr
from snm.data.vectorizer import Vectorizer
from snm.data.weights import check_weights, to_array, weights_or_ones
from snm.errors import InputError
from snm.text import counted

__all__ = [
    "Dataset",
    "Points",
    "hash_matrices",
    "name_to_text",
    "points_from_names",
]


@dataclass(frozen=True, eq=False, repr=False)
class Points:
    """n points with their labels.

    Attributes:
      features: float32 CSR [n, d] with sorted ids; an array [n, d], or another form of SciPy, is
        converted to it.
      labels: float32 CSR [n, K] of ones, converted likewise; unsorted ids are sorted.
      filter: int64 [pairs, 2], (row, label) pairs that evaluation ignores, or None; it and the
        weights may also be lists.
      weights: float32 [n], at least 0: the loss of a training point is multiplied by its weight /
        `mean_weight`; None is 1 for all.
      label_weights: float32 [K], above 0: the loss of a label of a training point is also
        multiplied by the weight of the label; None is 1 for all.
      mean_weight: the divisor of `weights`; None is their mean over the training points, so that
        the length of steps does not depend on the unit of the weights.

    Raises:
      InputError: features or labels are not matrices of numbers; features, labels and weights have
        different numbers of rows; the filter has no pairs of integers, or one out of range; or a
        weight is no number, negative, not finite or so small that float32 makes 0 of it, or a label
        weight is 0.
    """

    features: csr_matrix
    labels: csr_matrix
    filter: NDArray[np.int64] | None = None
    weights: NDArray[np.float32] | None = None
    label_weights: NDArray[np.float32] | None = None
    mean_weight: float | None = None

    def __post_init__(self) -> None:
        for name, columns in (("features", "d"), ("labels", "K")):
            object.__setattr__(self, name, to_csr(getattr(self, name), name, columns))
        if self.features.shape[0] != self.labels.shape[0]:
            found = f"{self.features.shape[0]} rows of features, {self.labels.shape[0]} of labels"
            raise InputError("points", found, "equal numbers of rows")
        if not self.labels.has_sorted_indices:  # for example the result of a matrix product
            object.__setattr__(self, "labels", self.labels.sorted_indices())
        expected = "pairs of a row and a label, integers"
        object.__setattr__(self, "filter", to_array(self.filter, np.int64, "filter", expected))
        for name, what in (("weights", "point"), ("label_weights", "label")):
            where, expected = f"weights of {what}s", f"one weight a {what}"
            weights = to_array(getattr(self, name), np.float32, where, expected)
            object.__setattr__(self, name, weights)
        if self.filter is not None and self.filter.shape[1:] != (2,):
            found = f"shape {self.filter.shape}"
            raise InputError("filter", found, "pairs of a row and a label, [pairs, 2]")
        if self.filter is not None and len(self.filter):
            low, high = self.filter.min(axis=0), self.filter.max(axis=0)
            if (low < 0).any() or (high >= self.labels.shape).any():
                found = f"rows {low[0]} to {high[0]}, labels {low[1]} to {high[1]}"
                expected = f"below {self.num_points} and {self.num_labels}"
                raise InputError("filter", found, expected)
        check_weights(self.weights, "point", self.num_points)
        check_weights(self.label_weights, "label", self.num_labels)

    def __repr__(self) -> str:
        """The sizes, in one line: `Points(24,000 points, 40,981 features, 40,981 labels)`."""
        return f"Points({counted(self.num_points, 'point')}, {_sizes(self)})"

    @property
    def num_points(self) -> int:
        """Number of points n."""
        return int(self.features.shape[0])

    @property
    def num_features(self) -> int:
        """Number of features d."""
        return int(self.features.shape[1])

    @property
    def num_labels(self) -> int:
        """Number of labels K."""
        return int(self.labels.shape[1])

    @property
    def points_per_label(self) -> float:
        """The mean number of points of a label."""
        return self.labels.nnz / self.num_labels

    @property
    def labels_per_labelled_point(self) -> float:
        """The mean number of labels of a point with labels; there must be such a point."""
        return self.labels.nnz / np.count_nonzero(np.diff(self.labels.indptr))

    @property
    def points_per_feature(self) -> float:
        """The mean number of points of a feature."""
        return self.features.nnz / self.num_features

    @property
    def features_per_point(self) -> float:
        """The mean number of features of a point; 0 without points."""
        return self.features.nnz / max(1, self.num_points)

    def take(self, rows: NDArray[np.int64]) -> Points:
        """Selects the points `rows` (int64 [m], distinct) in that order, and renumbers filters.

        Of mapped data, the result is mapped too.
        """
        pairs = self.filter
        if pairs is not None:
            new_row = np.full(self.num_points, -1, np.int64)
            new_row[rows] = np.arange(len(rows))
            pairs = np.stack([new_row[pairs[:, 0]], pairs[:, 1]], axis=1)
            pairs = pairs[pairs[:, 0] >= 0]
        weights = None if self.weights is None else self.weights[rows]
        return replace(
            self,
            features=select_rows(self.features, rows),
            labels=select_rows(self.labels, rows),
            filter=pairs,
            weights=weights,
        )

    def concatenate(self, others: Points | None) -> Points:
        """These points, then others with as many features and labels; without filters."""
        if others is None:
            return self
        weights = None
        if self.weights is not None or others.weights is not None:
            both = (weights_or_ones(p.weights, p.num_points) for p in (self, others))
            weights = np.concatenate(list(both))
        return replace(
            self,
            features=csr_matrix(vstack([self.features, others.features], "csr")),
            labels=csr_matrix(vstack([self.labels, others.labels], "csr")),
            filter=None,
            weights=weights,
        )

    def with_positive_weight(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows (int64 [m]) whose points have a weight above 0."""
        return rows if self.weights is None else rows[self.weights[rows] > 0]

    def labelled(self, rows: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """The given rows (int64 [m]; None for all) that have labels and a weight above 0."""
        counts = np.diff(self.labels.indptr)
        labelled = np.flatnonzero(counts) if rows is None else rows[counts[rows] > 0]
        return self.with_positive_weight(labelled)

    def baskets(self) -> Points:
        """Each point with all of its items, both as its features and as its labels.

        This is for data whose features and labels number the same items. Labels past the last
        feature are of items that came later.

        Raises:
          InputError: fewer labels than features.
        """
        if self.num_labels < self.num_features:
            found = f"{self.num_features} features, {self.num_labels} labels"
            raise InputError("points", found, "the same items, or more labels")
        features = self.features.copy()
        features.resize(self.labels.shape)
        items = csr_matrix(features + self.labels)
        features = items[:, : self.num_features]
        return replace(self, features=features, labels=with_ones(items), filter=None)


def points_from_names(names: Sequence[str], vectorizer: Vectorizer, first: int = 0) -> Points:
    """Makes a point of each label name, with this label only.

    A name without a word of the vocabulary is skipped. Underscores become spaces.

    Args:
      names: the names of m labels with consecutive ids.
      vectorizer: that of the texts of the data set.
      first: the id of the first label.

    Returns:
      at most m points, with first + m labels.
    """
    features = vectorizer.transform([name_to_text(name) for name in names])
    rows = np.flatnonzero(np.diff(features.indptr))
    ids, starts = (first + rows).astype(np.int32), np.arange(len(rows) + 1)
    labels = csr_of_ones(ids, starts, (len(rows), first + len(names)))
    return Points(features[rows], labels)


def name_to_text(name: str) -> str:
    """The text of a label name, for a vectorizer.

    Example:
      >>> name_to_text("deep_learning")
      'deep learning'
    """
    return name.replace("_", " ")


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A training set with an optional test set and optional label names.

    Attributes:
      name: the folder's name, or `synthetic`.
      train: the training points.
      test: the test points, or None.
      label_names: K names by label id, or None.
      sha256: hash of the source, by which a run knows its data: names and contents of its files, or
        the arrays of generated data. If it is empty, it is computed from points and names. A split
        and `dataclasses.replace` keep the hash of the whole.
      vectorizer: path of the `vectorizer.json` that `snm data import` wrote, or None.

    Raises:
      InputError: test points with other numbers of features or labels than the training points;
        another number of names, or a name that is no text or has a line break.
    """

    name: str
    train: Points
    test: Points | None = None
    label_names: tuple[str, ...] | None = None
    sha256: str = ""
    vectorizer: Path | None = None

    def __post_init__(self) -> None:
        for name in ("features", "labels") if self.test is not None else ():
            found, expected = (getattr(p, name).shape[1] for p in (self.test, self.train))
            if found != expected:
                raise InputError(
                    f"test {name}", counted(found, "column"), f"{expected}, as in train"
                )
        if self.label_names is not None:
            object.__setattr__(self, "label_names", tuple(self.label_names))
            _check_names(self.label_names, self.train.num_labels)
        if not self.sha256:
            object.__setattr__(self, "sha256", _hash(self))

    def __repr__(self) -> str:
        """The name and the sizes, in one line; not the names of labels, which may be millions."""
        tests = 0 if self.test is None else self.test.num_points
        points = f"{self.train.num_points:,} training and {counted(tests, 'test point')}"
        return f"Dataset({self.name!r}: {points}, {_sizes(self.train)})"

    def split(self, fraction: float, seed: int) -> Dataset:
        """Holds out a part of train as the test set of the result; the old test set is dropped.

        Args:
          fraction: share of the points to hold out, rounded to the nearest number of points.
          seed: seed of the permutation that chooses them. Both parts keep the order of the points.

        Raises:
          InputError: a fraction that leaves one part empty.
        """
        kept, held_out = self.rows_of_split(fraction, seed)
        return replace(self, train=self.train.take(kept), test=self.train.take(held_out))

    def rows_of_split(
        self, fraction: float, seed: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The rows of train that `split` keeps and those that it holds out, each ascending."""
        points = self.train.num_points
        if not 0 < fraction < 1 or not 0 < (held := round(fraction * points)) < points:
            found = f"{fraction} of {points} points"
            raise InputError(
                "--validation-fraction", found, "two parts with at least one point each"
            )
        order = np.random.default_rng(seed).permutation(self.train.num_points)
        return np.sort(order[held:]), np.sort(order[:held])

    @functools.cached_property
    def name_points(self) -> Points | None:
        """Label names as points (`points_from_names`); None without names or a vectorizer.

        In weighted data, a name has the mean weight of the training points.

        Raises:
          InputError: no vectorizer can be read, or scikit-learn is not installed.
        """
        if self.label_names is None or self.vectorizer is None:
            return None
        vectorizer = Vectorizer.read(self.vectorizer)
        if vectorizer.num_features != self.train.num_features:
            return None  # the vectorizer of other data
        points = points_from_names(self.label_names, vectorizer)
        weights = None
        if self.train.weights is not None:
            mean = self.train.weights.mean(dtype=np.float64)
            weights = np.full(points.num_points, mean, np.float32)
        return replace(points, weights=weights, label_weights=self.train.label_weights)

    def label_frequency(self) -> NDArray[np.int64]:
        """Number of training points of each label, int64 [K]."""
        return count_ids(self.train.labels.indices, self.train.num_labels)


def _check_names(names: Sequence[str], num_labels: int) -> None:
    """Raises `InputError` unless these can be the lines of a file of label names."""
    if len(names) != num_labels:
        raise InputError("label_names", counted(len(names), "name"), f"{num_labels}, one a label")
    # No loop in Python: there may be millions.
    are_texts = all(map(isinstance, names, repeat(str)))
    lines = "\n".join((*names, "")) if are_texts else ""
    if lines.count("\n") != len(names) or "\r\n" in lines:
        wrong = (n for n, name in enumerate(names)
                 if not isinstance(name, str) or "\n" in name or name.endswith("\r"))  # fmt: skip
        label = next(wrong)
        found = f"{names[label]!r:.40} of label {label}"
        raise InputError("label_names", found, "texts of one line")


def _hash(data: Dataset) -> str:
    """The hash of the points and names of a data set."""
    about: list[Any] = [data.label_names and "\n".join(data.label_names)]
    matrices: list[csr_matrix] = []
    more: list[NDArray[Any]] = []
    for points in (data.train, data.test):
        if points is None:
            about.append(None)
            continue
        matrices += points.features, points.labels
        arrays = points.filter, points.weights, points.label_weights
        more += (array for array in arrays if array is not None)
        shapes = points.features.shape, points.labels.shape
        about += *shapes, *(array is None for array in arrays), points.mean_weight
    return hash_matrices(matrices, repr(about), more)


def hash_matrices(
    matrices: Iterable[csr_matrix], about: str = "", more: Iterable[NDArray[Any]] = ()
) -> str:
    """SHA-256 over a text, the arrays of matrices and `more`: `Dataset.sha256` without files."""
    total = hashlib.sha256(about.encode())
    parts = ((m.data, m.indices, m.indptr.astype(np.int64)) for m in matrices)
    for array in chain(chain.from_iterable(parts), more):
        total.update(np.ascontiguousarray(array).data)
    return total.hexdigest()


def _sizes(points: Points) -> str:
    features, labels = points.num_features, points.num_labels
    return f"{counted(features, 'feature')}, {counted(labels, 'label')}"

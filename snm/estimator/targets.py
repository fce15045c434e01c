"""Converts the targets y of scikit-learn to a CSR label matrix, and predictions back."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.preprocessing import MultiLabelBinarizer
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, column_or_1d

from snm.data.csr import csr_of_ones, row_starts
from snm.errors import InputError
from snm.text import counted, first_line

__all__ = ["Targets"]

Form = Literal["classes", "lists", "dense", "sparse"]

_NESTED = (list, tuple, set, frozenset, np.ndarray)  # the labels of a point
_ROWS = "a class, or a list, tuple, set or array of labels"
_CLASS_WEIGHT = "`balanced`, a mapping from class to weight, or one weight a class"
_FORMS = "a list or an array of classes, a list of labels a point, or an indicator"


@dataclasses.dataclass(frozen=True, eq=False)
class Targets:
    """The classes, and the form of y.

    - `classes`: one class a point, array [n].
    - `lists`: lists of labels, a list a point.
    - `dense`, `sparse`: indicator [n, K], a NumPy array or a SciPy matrix.

    Attributes:
      form: one of these.
      classes: [K], the class of each column, in ascending order; for an indicator 0 to K - 1, or
        the names of the columns of a data frame, if they are strings, as objects.
      dtype: the dtype of the predictions.
    """

    form: Form
    classes: NDArray[Any]
    dtype: np.dtype

    @classmethod
    def of(cls, y: Any, classes: Any = None) -> Targets:
        """The form and the classes of y.

        Args:
          y: the targets.
          classes: all classes, if y may lack some of them; for an indicator 0 to K - 1, or the
            names of its columns.

        Raises:
          ValueError: y is no classification target; the message is scikit-learn's.
          InputError: y is an indicator, and the classes are not its columns; or two columns have
            the same name.
        """
        names, y = _column_names(y), _to_array(y)
        # If classes are given, lists that hold only 0 and 1 are lists of labels.
        form = _form(y, pairs="dense" if classes is None else "lists")
        if form in ("dense", "sparse"):
            y = y if form == "sparse" else np.asarray(y)
            width = int(y.shape[1])
            if classes is not None and len(classes) != width:
                found = f"{len(classes)} classes for {counted(width, 'column')}"
                raise InputError("classes", found, "one a column")
            if names is not None and (classes is None or set(classes) == set(names)):
                return cls(form, _each_once(names), np.dtype(y.dtype))
            if classes is not None and not np.array_equal(np.sort(classes), np.arange(width)):
                found = "names, with an indicator y"
                raise InputError("classes", found, f"0 to {width - 1}, its columns, or None")
            return cls(form, np.arange(width), np.dtype(y.dtype))
        if classes is None:
            with _refusals_as_input_error():
                if form == "lists":
                    classes = MultiLabelBinarizer().fit(y).classes_
                else:
                    classes = np.unique(column_or_1d(y, warn=True))
        if any(isinstance(label, tuple | frozenset) for label in classes):
            raise InputError("y", "labels that are tuples or sets", "names, or numbers")
        classes = np.unique(np.asarray(classes))
        return cls(form, classes, classes.dtype)

    def matrix(self, y: Any, *, unknown: Literal["refuse", "drop"] = "refuse") -> sparse.csr_matrix:
        """Encodes targets as labels, float32 CSR [n, K] of ones.

        Args:
          y: the targets.
          unknown: whether to `refuse` or `drop` classes that are not in `classes`.

        Raises:
          InputError: another form than that of the classes, another width, other names of columns,
            an unknown class, or a value of an indicator that is neither 0 nor 1.
        """
        names, y = _column_names(y), _to_array(y)
        form = _form(y, pairs="lists" if self.form == "lists" else "dense")
        if form != self.form and {form, self.form} != {"dense", "sparse"}:
            raise InputError("y", f"targets of the form {form!r}", f"{self.form!r}, as before")
        if form in ("dense", "sparse"):
            indicator = sparse.csr_matrix(y if form == "sparse" else np.asarray(y), copy=True)
            indicator.eliminate_zeros()
            if (indicator.data != 1).any():
                value = indicator.data[indicator.data != 1][0]
                raise InputError("y", f"{value} in an indicator", "only 0 and 1")
            indicator.sum_duplicates()
            if indicator.shape[1] != len(self.classes):
                found = counted(indicator.shape[1], "column")
                raise InputError("y", found, f"{len(self.classes)}")
            if names is not None and self.named and (differs := names != self.classes).any():
                first = np.argmax(differs)
                expected = f"{self.classes[first]!r}, as before"
                raise InputError("y", f"the column {names[first]!r}", expected)
            return csr_of_ones(indicator.indices, indicator.indptr, indicator.shape)
        if form == "classes":
            flat: Any = column_or_1d(y, warn=True)
            counts = np.ones(len(flat), np.int64)
        else:
            flat = [label for row in y for label in set(row)]
            counts = np.array([len(set(row)) for row in y], np.int64)
        values = np.asarray(flat)
        columns, known = self._find_columns(values)
        if unknown == "refuse" and not known.all():
            found = f"the class {values.tolist()[np.argmin(known)]!r}"
            raise InputError("y", found, "one of the known classes")
        row = np.repeat(np.arange(len(counts)), counts)[known]
        counts = np.bincount(row, minlength=len(counts))
        starts = row_starts(counts)
        labels = csr_of_ones(columns[known], starts, (len(starts) - 1, len(self.classes)))
        labels.sort_indices()
        return labels

    @property
    def named(self) -> bool:
        """Whether the classes are names, or numbers, that y gave; else they are its columns."""
        return self.form in ("classes", "lists") or self.classes.dtype == object

    def columns(
        self, labels: Any, num_points: int, where: str = "labels"
    ) -> NDArray[np.int32] | sparse.csr_matrix:
        """The columns of some classes, for all points or for each of n points.

        Args:
          labels: classes, or for each point a list, tuple, set or array of them.
          num_points: n.
          where: what they are, for messages.

        Returns:
          int32 [S], ascending, each once, for all points; or CSR [n, K] for each, whose entries are
          the classes, as often as they are listed.

        Raises:
          InputError: an unknown class, or lists for another number of points.
        """
        labels = list(labels)
        nested = [isinstance(row, _NESTED) for row in labels]
        if of_points := any(nested):
            if not all(nested):
                found = "lists of classes and other things"
                raise InputError(where, found, "a list for each point")
            if len(labels) != num_points:
                raise InputError(where, counted(len(labels), "list"), f"{num_points}, one a point")
        values = np.asarray([label for row in labels for label in row] if of_points else labels)
        columns, known = self._find_columns(values)
        if not known.all():
            found = f"the class {values.tolist()[np.argmin(known)]!r}"
            raise InputError(where, found, "some of the known classes")
        if not of_points:
            return np.unique(columns).astype(np.int32)
        starts = row_starts([*map(len, labels)])
        return csr_of_ones(columns.astype(np.int32), starts, (num_points, len(self.classes)))

    def weights(self, class_weight: Any, labels: sparse.csr_matrix) -> NDArray[np.float32] | None:
        """The weights of the classes, float32 [K], or None for 1 each.

        Args:
          class_weight: None; weights by class, 1 where there is none; [K] in the order of the
            classes; or `balanced`: the number of labels of all points, divided by K and by the
            points of the label. With one class a point that is scikit-learn's formula.
          labels: CSR [n, K] of ones, of the points.

        Raises:
          InputError: none of these, an unknown class, or a weight that is not finite and above 0.
        """
        if isinstance(class_weight, Mapping):
            columns, known = self._find_columns(np.asarray(list(class_weight)))
            if not known.all():
                found = f"the class {list(class_weight)[np.argmin(known)]!r}"
                raise InputError("class_weight", found, "some of the classes of y")
            weights = np.ones(len(self.classes))
            weights[columns] = list(class_weight.values())
            class_weight = weights
        return None if class_weight is None else _label_weights(class_weight, labels)

    def _find_columns(self, values: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The column of each value, and whether it is a known class."""
        if not len(values):
            return np.zeros(0, np.int64), np.zeros(0, bool)
        try:
            columns = np.searchsorted(self.classes, values, sorter=self._order)
            columns = self._order[np.minimum(columns, len(self.classes) - 1)]
            return columns, np.asarray(self.classes[columns] == values, bool)
        except TypeError:  # the values have another type than the classes, so none is known
            return np.zeros(len(values), np.int64), np.zeros(len(values), bool)

    @functools.cached_property
    def _order(self) -> NDArray[np.int64]:
        """The columns in ascending order of their classes."""
        return np.argsort(self.classes, kind="stable")

    def decode(self, columns: NDArray[np.int32]) -> Any:
        """Converts predicted columns to the form of the targets.

        Args:
          columns: int [n, k]; -1 is padding, except for one class per point.
        """
        if self.form == "classes":
            return self.classes[columns[:, 0]]
        if self.form == "lists":
            return [list(self.classes[row[row >= 0]]) for row in columns]
        starts = row_starts((columns >= 0).sum(axis=1))
        labels = csr_of_ones(columns[columns >= 0], starts, (len(columns), len(self.classes)))
        labels.sort_indices()
        labels = labels.astype(self.dtype)
        return labels.toarray() if self.form == "dense" else labels


def _column_names(y: Any) -> NDArray[Any] | None:
    """The names of the columns of a data frame, if all are strings, as scikit-learn reads X's.

    Returns:
      objects [K], or None.
    """
    names = list(getattr(y, "columns", ()))
    if not names or not all(isinstance(name, str) for name in names):
        return None
    return np.asarray(names, object)


def _each_once(names: NDArray[Any]) -> NDArray[Any]:
    """Returns the names of columns, if they are distinct.

    Raises:
      InputError: two columns have the same name.
    """
    name, count = Counter(names.tolist()).most_common(1)[0]
    if count > 1:
        raise InputError("y", f"the column {name!r} twice", "each name once")
    return names


def _to_array(y: Any) -> Any:
    """Converts data frames and series of lists to arrays; returns other targets unchanged."""
    if sparse.issparse(y) or isinstance(y, list | tuple | np.ndarray):
        return y
    return np.asarray(y) if getattr(y, "dtype", None) in (None, object) else y


def _form(y: Any, *, pairs: Literal["lists", "dense"]) -> Form:
    """The form of y; `pairs` is the form of nested lists that are all [0, 1] or [1, 0]."""
    if sparse.issparse(y):
        return "sparse"
    if getattr(y, "ndim", 1) == 0:  # NumPy's array of an iterator, or of a single class
        raise InputError("y", f"a {type(y[()]).__name__}", _FORMS)
    _refuse_rows(y)
    with _refusals_as_input_error():
        if _is_lists(y, pairs=pairs == "lists"):
            return "lists"
    if not hasattr(y, "ndim"):
        y = np.asarray(y)
    if y.dtype.kind == "f":
        assert_all_finite(y, input_name="y")
    with _refusals_as_input_error():
        check_classification_targets(y)
    return "dense" if y.ndim == 2 and y.shape[1] > 1 else "classes"


def _refuse_rows(y: Any) -> None:
    """Refuses rows of another container than `_NESTED`, and values that a table lacks.

    Numbers are left to scikit-learn, as is what stands in an indicator.

    Raises:
      InputError: such a container, or None, NaN or the NA of pandas; names its row.
    """
    if getattr(y, "ndim", 1) != 1 or (hasattr(y, "dtype") and y.dtype.kind != "O"):
        return
    for number, row in enumerate(y):
        if isinstance(row, _NESTED):
            for label in filter(_is_missing, row):
                expected = "names, or numbers; [] for a point without labels"
                raise InputError("y", f"{label} in the labels of row {number}", expected)
        elif hasattr(row, "__iter__") and not isinstance(row, str | bytes):
            if not hasattr(row, "__array__"):
                raise InputError("y", f"row {number} of the type {type(row).__name__}", _ROWS)
        elif _is_missing(row):
            lists = any(isinstance(other, _NESTED) for other in y)
            expected = "a list of labels, [] for none" if lists else "a class"
            raise InputError("y", f"{row} at row {number}", expected)


def _is_missing(value: Any) -> bool:
    if value is None or isinstance(value, str):
        return value is None
    try:
        return bool(value != value)
    except TypeError:  # the NA of pandas has no truth
        return True
    except ValueError:  # an array has several
        return False


@contextlib.contextmanager
def _refusals_as_input_error() -> Iterator[None]:
    """Turns a TypeError into InputError: of labels without an order, or of other targets."""
    try:
        yield
    except TypeError as error:
        found = f"what cannot be classes ({first_line(error)})"
        if types := re.search(r"not supported between instances of '(.*)' and '(.*)'", str(error)):
            found = "labels of several types, " + " and ".join(sorted(types.groups()))
        raise InputError("y", found, "names, or numbers") from error


def _is_lists(y: Any, *, pairs: bool) -> bool:
    """Whether y holds a list (or set, or array) of labels for each point.

    Nested lists may also be a dense indicator: rows of one length, at least 2, of only zeros and
    ones. A list of labels has no duplicates, so only rows of length 2 are ambiguous: `pairs` says
    whether these are lists of labels.
    """
    if not isinstance(y, list | tuple) and not (isinstance(y, np.ndarray) and y.dtype == object):
        return False
    nested = [isinstance(row, _NESTED) for row in y]
    if not any(nested):
        return False
    if not all(nested):
        raise InputError("y", "lists of labels and other things", "a list of labels a point")
    if isinstance(y, np.ndarray) and y.ndim == 1:
        return True
    width = len(y[0])
    flat = {value for row in y if len(row) == width for value in row}
    one_length = all(len(row) == width for row in y) and not any(isinstance(r, set) for r in y)
    if not one_length or not flat <= {0, 1} or width < 2:
        return True
    return pairs and all(len(set(row)) == width for row in y)


def _label_weights(class_weight: Any, labels: sparse.csr_matrix) -> NDArray[np.float32]:
    """The weights of the labels in the order of the classes; see `Targets.weights`."""
    num_labels = labels.shape[1]
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise InputError("class_weight", repr(class_weight), _CLASS_WEIGHT)
        counts = np.bincount(labels.indices, minlength=num_labels)
        weights, present = np.ones(num_labels, np.float32), counts > 0
        weights[present] = labels.nnz / (num_labels * counts[present])
    else:
        try:
            weights = np.asarray(class_weight, np.float32)
        except (TypeError, ValueError) as error:
            raise InputError("class_weight", repr(class_weight)[:60], _CLASS_WEIGHT) from error
    if weights.shape != (num_labels,):
        expected = f"one weight a class, {num_labels} of them"
        raise InputError("class_weight", f"shape {weights.shape}", expected)
    if not (np.isfinite(weights) & (weights > 0)).all():
        raise InputError("class_weight", f"{weights.min()}", "finite numbers above 0")
    return weights

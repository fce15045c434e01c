"""The targets y of scikit-learn: to a CSR matrix of labels, and predictions back to their form."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.preprocessing import MultiLabelBinarizer
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, column_or_1d

from snm.errors import InputError, counted, first_line
from snm.estimator.inputs import weights_of_classes

__all__ = ["Form", "Targets"]

Form = Literal["classes", "lists", "dense", "sparse"]

_NESTED = (list, tuple, set, frozenset, np.ndarray)  # the labels of a point


@dataclasses.dataclass(frozen=True, eq=False)
class Targets:
    """The classes, and the form of y.

    - `classes`: one class a point, array [n].
    - `lists`: lists of labels, a list a point.
    - `dense`, `sparse`: indicator [n, K], a NumPy array or a SciPy matrix.

    Attributes:
      form: one of these.
      classes: [K], the class of each column: classes in ascending order; of an indicator 0 to
        K - 1, or the names of the columns of a data frame, if they are texts, as objects.
      dtype: of the predictions.
    """

    form: Form
    classes: NDArray[Any]
    dtype: np.dtype

    @classmethod
    def of(cls, y: Any, classes: Any = None) -> Targets:
        """The form and the classes of y.

        Args:
          y: the targets.
          classes: all classes, where y may lack some of them, each once or more; for an indicator
            0 to K - 1, or the names of its columns.

        Raises:
          ValueError: y is no classification target; the message is scikit-learn's.
          InputError: other classes than its columns for an indicator, or a column's name twice.
        """
        names, y = _column_names(y), _plain(y)
        # Names of classes come with lists of labels, which may all be of 0 and 1.
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
            with _of_one_type():
                if form == "lists":
                    classes = MultiLabelBinarizer().fit(y).classes_
                else:
                    classes = np.unique(_column(y))
        if any(isinstance(one, tuple | frozenset) for one in classes):
            raise InputError("y", "labels that are tuples or sets", "names, or numbers")
        classes = np.unique(np.asarray(classes))
        return cls(form, classes, classes.dtype)

    def matrix(self, y: Any, *, unknown: Literal["refuse", "drop"] = "refuse") -> sparse.csr_matrix:
        """The targets of some points as labels, float32 CSR [n, K] of ones.

        Args:
          y: the targets.
          unknown: `refuse` or `drop` a class that is not in `classes`.

        Raises:
          InputError: another form than that of the classes, another width, other names of columns,
            an unknown class, or a value of an indicator that is neither 0 nor 1.
        """
        names, y = _column_names(y), _plain(y)
        form = _form(y, pairs="lists" if self.form == "lists" else "dense")
        if form != self.form and {form, self.form} != {"dense", "sparse"}:
            raise InputError("y", f"targets of the form {form!r}", f"{self.form!r}, as before")
        if form in ("dense", "sparse"):
            found = sparse.csr_matrix(y if form == "sparse" else np.asarray(y), copy=True)
            found.eliminate_zeros()
            if (found.data != 1).any():
                value = found.data[found.data != 1][0]
                raise InputError("y", f"{value} in an indicator", "only 0 and 1")
            found.sum_duplicates()
            if found.shape[1] != len(self.classes):
                raise InputError("y", counted(found.shape[1], "column"), f"{len(self.classes)}")
            if names is not None and self.named and (other := names != self.classes).any():
                first = np.argmax(other)
                expected = f"{self.classes[first]!r}, as before"
                raise InputError("y", f"the column {names[first]!r}", expected)
            return _ones(found.indices, found.indptr, found.shape)
        column = _column(y) if form == "classes" else None
        counts = np.ones(len(column), np.int64) if column is not None else [len(set(r)) for r in y]
        flat = column if column is not None else [label for row in y for label in set(row)]
        values = np.asarray(flat, None if len(flat) else self.classes.dtype)
        place, known = self._places(values)
        if unknown == "refuse" and not known.all():
            found = f"the class {values.tolist()[np.argmin(known)]!r}"
            raise InputError("y", found, "one of the known classes")
        row = np.repeat(np.arange(len(counts)), counts)[known]
        counts = np.bincount(row, minlength=len(counts))
        place = place[known]
        starts = np.concatenate([[0], np.cumsum(counts)])
        labels = _ones(place, starts, (len(starts) - 1, len(self.classes)))
        labels.sort_indices()
        return labels

    @property
    def named(self) -> bool:
        """Whether the classes are names, or numbers, that y gave; else they are its columns."""
        return self.form in ("classes", "lists") or self.classes.dtype == object

    def columns(self, labels: Any) -> NDArray[np.int32]:
        """The columns of some classes, int32 [S], ascending, each once.

        Raises:
          InputError: no class, or an unknown one.
        """
        values = np.asarray(list(labels))
        place, known = self._places(values)
        if not known.all() or not len(values):
            found = f"the class {values.tolist()[np.argmin(known)]!r}" if len(values) else "none"
            raise InputError("labels", found, "some of the known classes")
        return np.unique(place).astype(np.int32)

    def weights(self, class_weight: Any, labels: sparse.csr_matrix) -> NDArray[np.float32] | None:
        """The weights of the classes, float32 [K], or None for 1 each.

        Args:
          class_weight: weights by class, 1 where there is none; or as in `weights_of_classes`.
          labels: CSR [n, K], of the points.

        Raises:
          InputError: an unknown class, or as in `weights_of_classes`.
        """
        if isinstance(class_weight, Mapping):
            place, known = self._places(np.asarray(list(class_weight)))
            if not known.all():
                found = f"the class {list(class_weight)[np.argmin(known)]!r}"
                raise InputError("class_weight", found, "some of the classes of y")
            given = list(class_weight.values())
            class_weight = np.ones(len(self.classes))
            class_weight[place] = given
        return weights_of_classes(class_weight, labels)

    def _places(self, values: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The column of each class, and whether there is one."""
        if not len(values):
            return np.zeros(0, np.int64), np.zeros(0, bool)
        try:
            place = np.searchsorted(self.classes, values, sorter=self._order)
            place = self._order[np.minimum(place, len(self.classes) - 1)]
            return place, np.asarray(self.classes[place] == values, bool)
        except TypeError:  # of another type than the classes: none of them
            return np.zeros(len(values), np.int64), np.zeros(len(values), bool)

    @functools.cached_property
    def _order(self) -> NDArray[np.int64]:
        """The columns in ascending order of their classes."""
        return np.argsort(self.classes, kind="stable")

    def answers(self, slots: NDArray[np.int32]) -> Any:
        """The best labels of each point in the form of the targets.

        Args:
          slots: int [n, k] columns; -1 for none, where there are several.
        """
        if self.form == "classes":
            return self.classes[slots[:, 0]]
        if self.form == "lists":
            return [list(self.classes[row[row >= 0]]) for row in slots]
        starts = np.append(0, np.cumsum((slots >= 0).sum(axis=1)))
        found = _ones(slots[slots >= 0], starts, (len(slots), len(self.classes)))
        found.sort_indices()
        found = found.astype(self.dtype)
        return found.toarray() if self.form == "dense" else found


def _column_names(y: Any) -> NDArray[Any] | None:
    """The names of the columns of a data frame, if all are texts, as scikit-learn reads those of X.

    Returns:
      objects [K], or None.
    """
    names = list(getattr(y, "columns", ()))
    if not names or not all(isinstance(name, str) for name in names):
        return None
    return np.asarray(names, object)


def _each_once(names: NDArray[Any]) -> NDArray[Any]:
    """The names of columns.

    Raises:
      InputError: two columns have the same.
    """
    name, count = Counter(names.tolist()).most_common(1)[0]
    if count > 1:
        raise InputError("y", f"the column {name!r} twice", "each name once")
    return names


def _plain(y: Any) -> Any:
    """Lists, arrays and matrices as they are; data frames and series of lists as an array."""
    if sparse.issparse(y) or isinstance(y, list | tuple | np.ndarray):
        return y
    return np.asarray(y) if getattr(y, "dtype", None) in (None, object) else y


def _form(y: Any, *, pairs: Literal["lists", "dense"]) -> Form:
    """The form of y; `pairs` is that of nested lists that are all [0, 1] or [1, 0]."""
    if sparse.issparse(y):
        return "sparse"
    _refuse_missing(y)
    if _is_lists(y, pairs=pairs == "lists"):
        return "lists"
    if not hasattr(y, "ndim"):
        y = np.asarray(y)
    if y.dtype.kind == "f":
        assert_all_finite(y, input_name="y")
    with _of_one_type():
        check_classification_targets(y)
    return "dense" if y.ndim == 2 and y.shape[1] > 1 else "classes"


def _refuse_missing(y: Any) -> None:
    """Refuses classes or lists of labels with a value that a table lacks.

    Numbers are left to scikit-learn, as is what stands in an indicator.

    Raises:
      InputError: None, NaN or the NA of pandas; names its row.
    """
    if getattr(y, "ndim", 1) != 1 or (hasattr(y, "dtype") and y.dtype.kind != "O"):
        return
    for number, row in enumerate(y):
        if isinstance(row, _NESTED):
            for label in filter(_is_missing, row):
                expected = "names, or numbers; [] for a point without labels"
                raise InputError("y", f"{label} in the labels of row {number}", expected)
        elif _is_missing(row):
            lists = any(isinstance(one, _NESTED) for one in y)
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
def _of_one_type() -> Iterator[None]:
    """Says it in one line where labels have no order, as `None` and names."""
    try:
        yield
    except TypeError as error:
        found = f"labels of several types ({first_line(error)})"
        raise InputError("y", found, "names, or numbers") from error


def _is_lists(y: Any, *, pairs: bool) -> bool:
    """Whether y holds a list (or set, or array) of labels for each point.

    Nested lists may also be a dense indicator: rows of one length, at least 2, that hold only zeros
    and ones. A list of labels repeats no label, so that only rows of 2 may be both: `pairs` says
    whether they are lists of labels then.
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


def _column(y: Any) -> NDArray[Any]:
    return column_or_1d(y, warn=True)


def _ones(ids: Any, starts: Any, shape: tuple[int, int]) -> sparse.csr_matrix:
    ids = np.asarray(ids, np.int32)
    return sparse.csr_matrix((np.ones(len(ids), np.float32), ids, starts), shape=shape)

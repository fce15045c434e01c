"""Targets as tables have them: names of columns, lists in a series, missing values."""

import array
import collections
import re

import numpy as np
import pytest
from estimator.small_fits import SMALL

import snm
from snm import SNMClassifier
from snm.errors import InputError
from snm.estimator.targets import Targets


class Frame:
    """As a data frame of pandas: it iterates over its columns, and has no `dtype`."""

    def __init__(self, values, columns=()):
        self.values = np.array(values)
        self.ndim, self.shape = self.values.ndim, self.values.shape
        self.columns = columns or range(self.shape[1])

    def __iter__(self):
        return iter(self.columns)

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype)


class Series:
    """As a series of pandas that was taken from another: no value has the number 0."""

    ndim, dtype = 1, np.dtype(object)

    def __init__(self, values):
        self.values = np.empty(len(values), object)
        self.values[:] = values

    def __len__(self):
        return len(self.values)

    def __iter__(self):
        return iter(self.values)

    def __getitem__(self, number):
        raise KeyError(number)

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype)


def test_targets_of_pandas():
    indicator = [[1, 0, 1], [0, 1, 0], [0, 0, 0]]
    targets = Targets.of(Frame(indicator))
    assert targets.form == "dense" and targets.dtype == int
    assert targets.matrix(Frame(indicator)).toarray().tolist() == indicator
    lists = Series([["a", "c"], ["b"], []])
    targets = Targets.of(lists)
    assert targets.form == "lists" and targets.classes.tolist() == ["a", "b", "c"]
    assert targets.matrix(lists).toarray().tolist() == indicator
    assert Targets.of(Series([[1, 0], [0, 0]])).form == "lists"  # an indicator is no column
    assert Targets.of(Series(["b", "a"])).classes.tolist() == ["a", "b"]


def test_columns_of_a_data_frame_are_the_names_of_the_classes(tmp_path):
    """In the order of the columns, as those of the answers are."""
    X, y = np.eye(4, dtype=np.float32), [[1, 0], [0, 1], [1, 0], [0, 1]]
    settings = {**SMALL, "sampled": "auto", "mined": "auto", "weighting": "none", "epochs": 20}
    model = SNMClassifier(**settings, class_weight={"net": 2.0}).fit(X, Frame(y, ["net", "hw"]))
    assert model.classes_.tolist() == ["net", "hw"]
    assert model.predict(X).tolist() == y
    names, scores = model.decision_topk(X[:1], k=2)
    assert names.tolist() == [["net", "hw"]]
    found = model.decision_topk(X[:1], k=1, labels=["hw"])
    assert found[0].tolist() == [["hw"]]
    assert found[1][0, 0] == pytest.approx(scores[0, 1], abs=1e-5)  # of another program
    assert model.score(X, Frame(y, ["net", "hw"])) == 1 == model.score(X, np.array(y))
    model.export(tmp_path / "model")
    assert list(snm.load(tmp_path / "model").label_names) == ["net", "hw"]
    for columns, found, expected in ((["hw", "net"], "hw", "net"), (["net", "sw"], "sw", "hw")):
        said = f"^y: found the column '{found}', expected '{expected}', as before$"
        with pytest.raises(InputError, match=said):
            model.score(X, Frame(y, columns))
    model.partial_fit(X, Frame(y, ["net", "hw"]), classes=["hw", "net"])


def test_which_names_of_columns_are_classes():
    named = Frame([[1, 0, 1], [0, 1, 0]], ["b", "a", "c"])
    assert Targets.of(named).classes.tolist() == ["b", "a", "c"]
    assert Targets.of(named, ["a", "b", "c"]).classes.tolist() == ["b", "a", "c"]
    assert Targets.of(named, [0, 1, 2]).classes.tolist() == [0, 1, 2]
    assert Targets.of(Frame([[1, 0, 1]], [7, "a", "b"])).classes.tolist() == [0, 1, 2]
    with pytest.raises(InputError, match=r"classes: found names, with an indicator y, expected"):
        Targets.of(named, ["a", "b", "d"])
    with pytest.raises(InputError, match=r"y: found the column 'a' twice, expected each name once"):
        Targets.of(Frame([[1, 0, 1]], ["a", "b", "a"]))


class NoValue:
    """As `pandas.NA`: a comparison has no truth."""

    def __ne__(self, other):
        return self

    def __bool__(self):
        raise TypeError("boolean value of NA is ambiguous")

    def __repr__(self):
        return "<NA>"

    __hash__ = object.__hash__


@pytest.mark.parametrize("series", [False, True])
@pytest.mark.parametrize(
    ("y", "said"),
    [
        (["a", "b", None, "a"], "None at row 2, expected a class"),
        ([float("nan"), "b", "a", None], "nan at row 0, expected a class"),
        (["a", "b", "a", NoValue()], "<NA> at row 3, expected a class"),
        ([["a"], np.float32("nan"), ["b"], []], "nan at row 1, expected a list of labels, [] for"),
        ([["a"], ["b", None], ["b"], []], "None in the labels of row 1, expected names, or num"),
        ([{1}, (2, 3), [3, float("nan")], []], "nan in the labels of row 2, expected names, or"),
        ([["a"], [NoValue()], ["b"], []], "<NA> in the labels of row 1, expected names, or num"),
    ],
)
def test_missing_values_are_refused(y, said, series):
    """A NaN among names was an unknown kind of target, or a class of the name nan."""
    with pytest.raises(InputError, match=f"^y: found {re.escape(said)}"):
        SNMClassifier(**SMALL).fit(np.eye(4), Series(y) if series else y)


@pytest.mark.parametrize(
    ("y", "said"),
    [
        ([collections.deque("ab"), collections.deque("c")], "row 0 of the type deque, expected a"),
        ([["a"], {"b": 1}.keys()], "row 1 of the type dict_keys, expected a class, or a list, tu"),
        ([array.array("i", [1, 0]), array.array("i", [0, 1])], "row 0 of the type array, expecte"),
        ([range(2), range(1)], "row 0 of the type range, expected a class"),
        ((name for name in "ab"), "a generator, expected a list or an array of classes"),
    ],
)
def test_other_containers_are_refused(y, said):
    with pytest.raises(InputError, match=f"^y: found {re.escape(said)}"):
        Targets.of(y)


@pytest.mark.parametrize(
    ("y", "said"),
    [
        ([b"a", b"b"], "Support for labels represented as bytes is not supported"),
        (np.array(["a", "b"], np.dtypes.StringDType()), "dtype argument must be a NumPy dtype"),
        ([[["a"]], [["b"]]], "unhashable type: 'list'"),
    ],
)
def test_other_refusals_are_not_about_types_that_differ(y, said):
    with pytest.raises(InputError, match=f"^y: found what cannot be classes .{re.escape(said)}"):
        Targets.of(y)

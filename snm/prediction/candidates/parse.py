"""Checks candidates, answers and k, and finds the ids of labels that are passed by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csr_matrix

from snm.data.csr import csr_of_ones, row_starts
from snm.data.names import normalize_name
from snm.errors import InputError
from snm.text import counted

__all__ = [
    "DEFAULT_K",
    "IdsOf",
    "ids_by_name",
    "ids_of_labels",
    "parse_answers",
    "parse_candidates",
    "parse_k",
    "parse_whole_k",
    "unknown_labels_error",
]

DEFAULT_K = 5
"""The number of answers of a point, unless a caller asks for another."""

_AMBIGUOUS = -1  # in place of an id, for a name that several labels have

IdsOf = Callable[[Iterable[int | str]], NDArray[np.int32]]
"""Gives the ids of names and of ids, as `Predictor.ids_of`."""


def parse_candidates(
    labels: Any,
    num_points: int,
    num_labels: int,
    *,
    empty: bool = False,
    ids_of: IdsOf | None = None,
) -> NDArray[np.int32] | csr_matrix:
    """Checks the candidates that a caller passes.

    Args:
      labels: ids of labels for all points; or for each of n points a sequence of ids, or CSR
        [n, K], whose non-zero entries are the candidates.
      num_points: n.
      num_labels: K.
      empty: whether no label for all points is allowed.
      ids_of: for names among the sequences of ids; None refuses names.

    Returns:
      int32 [S], ascending, each once, for all points; or CSR [n, K] with sorted ids for each.

    Raises:
      InputError: no label for all points, an id that is not from 0 to K - 1, candidates for
        another number of points or labels, or as `ids_of`.
    """
    if sparse.issparse(labels):
        if labels.shape != (num_points, num_labels):
            found = f"a matrix of shape {tuple(labels.shape)}"
            raise InputError("labels", found, f"({num_points}, {num_labels}), points by labels")
        mask = csr_matrix(labels, copy=True)
        mask.sum_duplicates()
        mask.eliminate_zeros()
        return mask
    if isinstance(labels, str):
        raise InputError("labels", "one text", "a sequence of ids or names")
    if not isinstance(labels, Iterable) or getattr(labels, "ndim", 1) == 0:
        raise InputError("labels", f"{labels!r}"[:40], "ids of labels")
    labels = labels if isinstance(labels, np.ndarray) else list(labels)
    if not len(labels) and not num_points:  # the labels of each point
        return csr_matrix((0, num_labels), dtype=np.float32)
    if not len(labels) and not empty:
        raise InputError("labels", "no label", "at least one")
    if not len(labels) or np.ndim(labels[0]) == 0:
        return np.unique(_parse_ids(labels, num_labels, ids_of))
    if len(labels) != num_points:
        found = f"labels of {counted(len(labels), 'point')}"
        raise InputError("labels", found, f"of {num_points}, a sequence of ids for each point")
    ids_of_points = [
        np.unique(_parse_ids(point_labels, num_labels, ids_of)) for point_labels in labels
    ]
    starts = row_starts([*map(len, ids_of_points)])
    ids = np.concatenate(ids_of_points)
    return csr_of_ones(ids, starts, (num_points, num_labels))


def _parse_ids(
    labels: Sequence[int] | NDArray, num_labels: int, ids_of: IdsOf | None = None
) -> NDArray[np.int32]:
    if isinstance(labels, (list, tuple)):  # NumPy has no integers beyond int64
        for label in labels:
            if type(label) is int and not 0 <= label < num_labels:
                raise _unknown_id(label, num_labels)
    try:
        ids = np.asarray(labels)
    except ValueError as error:  # ids and lists of ids
        raise InputError("labels", "ids and other things", "ids of labels") from error
    if not ids.size:
        return np.zeros(0, np.int32)
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        if ids_of is not None and any(isinstance(label, str) for label in ids.ravel()):
            return ids_of(labels)
        raise InputError("labels", f"an array of {ids.dtype} {ids.shape}", "ids of labels")
    wrong = (ids < 0) | (ids >= num_labels)
    if wrong.any():
        raise _unknown_id(ids[np.argmax(wrong)], num_labels)
    return ids.astype(np.int32)


def parse_answers(answers: Any, num_points: int, num_labels: int) -> NDArray[np.int32]:
    """Checks labels such as `Predictor.top` returns: int32 [n, k], padded with -1.

    Args:
      answers: k ids for each point.
      num_points: n.
      num_labels: K.

    Raises:
      InputError: another number of points, or values that are not ids from -1 to K - 1.
    """
    try:
        ids = np.asarray(answers)
    except ValueError as error:  # another number for each point
        expected = "as many for each, -1 where there is none"
        raise InputError(
            "answers", "different numbers of labels for the points", expected
        ) from error
    are_integers = ids.dtype.kind in "iu" or not ids.size
    if ids.ndim != 2 or len(ids) != num_points or not are_integers:
        found = f"an array of {ids.dtype} {ids.shape}"
        raise InputError("answers", found, f"ids of labels, {num_points} x k")
    wrong = (ids < -1) | (ids >= num_labels)
    if wrong.any():
        expected = f"an id from 0 to {num_labels - 1}, or -1 for none"
        raise InputError("answers", f"label {ids[wrong][0]}", expected)
    return ids.astype(np.int32)


def _unknown_id(label: Any, num_labels: int) -> InputError:
    return InputError("labels", f"label {label}", f"an id from 0 to {num_labels - 1}")


def parse_k(k: int | None, among: NDArray[np.int32] | csr_matrix | None, num_labels: int) -> int:
    """The number of labels per point: k, or by default 5 or the number of labels if smaller.

    Raises:
      InputError: k is not from 1 to K.
    """
    if k is None:
        return min(DEFAULT_K, len(among) if isinstance(among, np.ndarray) else num_labels)
    return parse_whole_k(k, num_labels, f"1 to {num_labels}, the number of labels")


def parse_whole_k(k: Any, num_labels: int, expected: str) -> int:
    """Checks that k is an integer from 1 to K, of Python or NumPy; neither 4.0 nor True is one.

    Raises:
      InputError: it is not.
    """
    is_integer = isinstance(k, int | np.integer) and not isinstance(k, bool)
    if not is_integer or not 1 <= k <= num_labels:
        raise InputError("--k", str(k) if is_integer else f"{k!r}"[:40], expected)
    return int(k)  # a key of cached programs


def ids_by_name(names: Sequence[str]) -> dict[str, int]:
    """The id of each label name, for `ids_of_labels`, which refuses names of several labels."""
    ids = _ids_of_names(names)
    # `snm data import` normalizes names; a file of names from elsewhere may spell them differently.
    return _ids_of_names([normalize_name(name) for name in names]) | ids


def _ids_of_names(names: Sequence[str]) -> dict[str, int]:
    ids = {name: label for label, name in enumerate(names)}
    if len(ids) < len(names):
        ids |= {name: _AMBIGUOUS for name, count in Counter(names).items() if count > 1}
    return ids


def ids_of_labels(
    labels: Sequence[int | str],
    num_labels: int,
    id_of_name: Mapping[str, int],
    *,
    skip_unknown: bool = False,
) -> NDArray[np.int32]:
    """The ids of labels, int32 [S]: texts are names, whole numbers are ids.

    Args:
      labels: names, ids or both.
      num_labels: K.
      id_of_name: from `ids_by_name`; empty if the labels have no names.
      skip_unknown: skip unknown names instead of raising.

    Raises:
      InputError: an id that is not from 0 to K - 1, an unknown name, the name of several labels, or
        a name if the labels have none.
    """
    ids = []
    for label in labels:
        if not isinstance(label, str):
            ids.append(label)
        elif (number := id_of_name.get(label, id_of_name.get(normalize_name(label)))) is not None:
            if number == _AMBIGUOUS:
                raise InputError("labels", f"{label!r}, the name of several labels", "an id")
            ids.append(number)
        elif not (skip_unknown and id_of_name):
            expected = f"an id from 0 to {num_labels - 1}: the labels have no names"
            if id_of_name:
                expected = "a name of a label"
            raise InputError("labels", f"an unknown label {label!r}", expected)
    return _parse_ids(ids, num_labels)


def unknown_labels_error(where: str, first: int | str, unknown: int) -> InputError:
    """The error for labels of which none is known.

    Args:
      where: the place of the labels, for the message.
      first: the first label.
      unknown: the number of labels.
    """
    found = f"an unknown label {first!r}"
    if unknown > 1:
        found = f"{unknown:,} unknown labels, such as {first!r}, and no known one"
    return InputError(where, found, "a name of a label")

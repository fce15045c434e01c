"""Candidates: the labels that answers are chosen from, the same for all points or for each its own.

The cost of an answer grows with the number of candidates, not with K. Candidates that all points
share are scored by a matrix product with their class rows; of candidates for each point, each
(point, label) pair is scored alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csr_matrix

from snm.batches.csr_blocks import power_of_two
from snm.data.names import normalize_name
from snm.errors import InputError, counted

__all__ = [
    "IdsOf",
    "best_of_pairs",
    "by_name",
    "candidates_of",
    "checked_answers",
    "checked_k",
    "ids_of_labels",
    "none_known",
    "only",
    "padded",
    "values_at",
    "whole_k",
]

_K = 5  # labels of an answer, where none are asked for
_SEVERAL = -1  # in place of an id, for a name of several labels
_LEAST = 256  # of the padded sizes, so that small sets share a program

IdsOf = Callable[[Iterable[int | str]], NDArray[np.int32]]
"""Gives the ids of names and of ids, as `Predictor.ids_of`."""


def candidates_of(
    labels: Any,
    num_points: int,
    num_labels: int,
    *,
    empty: bool = False,
    ids_of: IdsOf | None = None,
) -> NDArray[np.int32] | csr_matrix:
    """The candidates that a caller names.

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
        return np.unique(_checked(labels, num_labels, ids_of))
    if len(labels) != num_points:
        found = f"labels of {counted(len(labels), 'point')}"
        raise InputError("labels", found, f"of {num_points}, a sequence of ids for each point")
    each = [np.unique(_checked(of_point, num_labels, ids_of)) for of_point in labels]
    starts = np.cumsum([0, *map(len, each)])
    ids = np.concatenate(each)
    return csr_matrix((np.ones(len(ids), np.float32), ids, starts), (num_points, num_labels))


def _checked(
    labels: Sequence[int] | NDArray, num_labels: int, ids_of: IdsOf | None = None
) -> NDArray[np.int32]:
    if isinstance(labels, (list, tuple)):  # numbers beyond int64 make no array of integers
        for label in labels:
            if type(label) is int and not 0 <= label < num_labels:
                raise _no_label(label, num_labels)
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
        raise _no_label(ids[np.argmax(wrong)], num_labels)
    return ids.astype(np.int32)


def checked_answers(answers: Any, num_points: int, num_labels: int) -> NDArray[np.int32]:
    """Labels as `Predictor.top` gives them for points: int32 [n, k], -1 where there is none.

    Args:
      answers: k ids for each point.
      num_points: n.
      num_labels: K.

    Raises:
      InputError: of another number of points, no ids, or an id that is not from -1 to K - 1.
    """
    try:
        found = np.asarray(answers)
    except ValueError as error:  # another number for each point
        expected = "as many for each, -1 where there is none"
        raise InputError(
            "answers", "different numbers of labels for the points", expected
        ) from error
    of_ids = found.dtype.kind in "iu" or not found.size
    if found.ndim != 2 or len(found) != num_points or not of_ids:
        shown = f"an array of {found.dtype} {found.shape}"
        raise InputError("answers", shown, f"ids of labels, {num_points} x k")
    wrong = (found < -1) | (found >= num_labels)
    if wrong.any():
        expected = f"an id from 0 to {num_labels - 1}, or -1 for none"
        raise InputError("answers", f"label {found[wrong][0]}", expected)
    return found.astype(np.int32)


def _no_label(label: Any, num_labels: int) -> InputError:
    return InputError("labels", f"label {label}", f"an id from 0 to {num_labels - 1}")


def checked_k(k: int | None, among: NDArray[np.int32] | csr_matrix | None, num_labels: int) -> int:
    """How many labels to answer with: k, or 5 where there are so many to choose from.

    Raises:
      InputError: k is not from 1 to K.
    """
    if k is None:
        return min(_K, len(among) if isinstance(among, np.ndarray) else num_labels)
    return whole_k(k, num_labels, f"1 to {num_labels}, the number of labels")


def whole_k(k: Any, num_labels: int, expected: str) -> int:
    """A whole number from 1 to K, of Python or NumPy; neither 4.0 nor True is one.

    Raises:
      InputError: k is none.
    """
    whole = isinstance(k, int | np.integer) and not isinstance(k, bool)
    if not whole or not 1 <= k <= num_labels:
        raise InputError("--k", str(k) if whole else f"{k!r}"[:40], expected)
    return int(k)  # programs are kept by it, and True == 1


def by_name(names: Sequence[str]) -> dict[str, int]:
    """The id of each label's name, for `ids_of_labels`, which refuses those of several labels."""
    ids = _ids_of(names)
    # A list of names that no import wrote may spell one otherwise than imports do.
    return _ids_of([normalize_name(name) for name in names]) | ids


def _ids_of(names: Sequence[str]) -> dict[str, int]:
    ids = {name: label for label, name in enumerate(names)}
    if len(ids) < len(names):
        ids |= {name: _SEVERAL for name, count in Counter(names).items() if count > 1}
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
      id_of_name: of `by_name`; empty where the labels have no names.
      skip_unknown: leave out unknown names, instead of refusing them.

    Raises:
      InputError: an id that is not from 0 to K - 1, an unknown name, one of several labels, or a
        name where the labels have none.
    """
    ids = []
    for label in labels:
        if not isinstance(label, str):
            ids.append(label)
        elif (number := id_of_name.get(label, id_of_name.get(normalize_name(label)))) is not None:
            if number == _SEVERAL:
                raise InputError("labels", f"{label!r}, the name of several labels", "an id")
            ids.append(number)
        elif not (skip_unknown and id_of_name):
            expected = f"an id from 0 to {num_labels - 1}: the labels have no names"
            if id_of_name:
                expected = "a name of a label"
            raise InputError("labels", f"an unknown label {label!r}", expected)
    return _checked(ids, num_labels)


def none_known(where: str, first: int | str, unknown: int) -> InputError:
    """The error of labels of which none is known.

    Args:
      where: names them, for the message.
      first: the first.
      unknown: how many there are.
    """
    found = f"an unknown label {first!r}"
    if unknown > 1:
        found = f"{unknown:,} unknown labels, such as {first!r}, and no known one"
    return InputError(where, found, "a name of a label")


def padded(ids: NDArray[np.int32], num_labels: int) -> NDArray[np.int32]:
    """Ids padded with K to a power of two, so that few lengths are compiled."""
    size = power_of_two(len(ids), _LEAST)
    return np.concatenate([ids, np.full(size - len(ids), num_labels, np.int32)])


def only(values: csr_matrix, ids: NDArray[np.int32]) -> csr_matrix:
    """The columns `ids` (ascending) of CSR [m, K], as CSR [m, S]; takes no time of order K."""
    place = np.minimum(np.searchsorted(ids, values.indices), len(ids) - 1)
    kept = ids[place] == values.indices
    starts = np.concatenate([[0], np.cumsum(kept)])[values.indptr]
    return csr_matrix((values.data[kept], place[kept], starts), (values.shape[0], len(ids)))


def values_at(values: csr_matrix, mask: csr_matrix) -> NDArray:
    """The value of CSR [m, .] at each entry of another, CSR [m, K]; 0 where it has none."""
    width = max(values.shape[1], mask.shape[1])
    keys, wanted = (
        np.repeat(np.arange(each.shape[0]), np.diff(each.indptr)) * width + each.indices
        for each in (values, mask)
    )
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    if not len(keys):
        return np.zeros(len(wanted), values.dtype)
    return np.where(keys[place] == wanted, values.data[order[place]], 0)


def best_of_pairs(
    mask: csr_matrix, scores: NDArray[np.float32], k: int, lowest: float
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The k best entries of each row; ties go to the lowest label.

    Args:
      mask: CSR [m, K].
      scores: float32, of its entries.
      k: how many.
      lowest: the score where a row has fewer entries; its label is -1. An entry with this score or
        less is none.

    Returns:
      int32 [m, k] labels and float32 [m, k] scores, best first.
    """
    counts = np.diff(mask.indptr)
    rows = np.repeat(np.arange(mask.shape[0]), counts)
    order = np.lexsort((mask.indices, -scores, rows))
    rank = np.arange(len(order)) - np.repeat(mask.indptr[:-1], counts)
    order, rank = order[rank < k], rank[rank < k]
    order, rank = order[scores[order] > lowest], rank[scores[order] > lowest]
    labels = np.full((mask.shape[0], k), -1, np.int32)
    best = np.full((mask.shape[0], k), lowest, np.float32)
    labels[rows[order], rank] = mask.indices[order]
    best[rows[order], rank] = scores[order]
    return labels, best

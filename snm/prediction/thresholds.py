"""Thresholds of probabilities that maximize F1: a label with at least the threshold is an answer.

F1 of a group of answers is 2 hits / (answers + true labels). A threshold is chosen on held-out
points: the answers are sorted by probability, and F1 is computed after each of them, so the
threshold is optimal for these points. A group is all answers (micro-F1), those of a label
(macro-F1), or those of a point (F1@k); the mean is over the groups. If the probabilities are exact,
the best threshold of a group is half of its highest F1 (Lipton, Elkan and Naryanaswamy, 2014).

References:
  Lipton, Elkan and Naryanaswamy, Optimal thresholding of classifiers to maximize F1 measure,
  ECML PKDD 2014.
  Yang, A study of thresholding strategies for text categorization, SIGIR 2001 (SCut: one threshold
  per label, which needs examples of it).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.config.marks import at_least, between
from snm.errors import InputError

__all__ = [
    "DEFAULT_THRESHOLD_K",
    "GOALS",
    "THRESHOLD_FORMS",
    "HeldOut",
    "Threshold",
    "best_threshold",
    "find_threshold",
    "fit_thresholds",
    "parse_threshold",
]

DEFAULT_THRESHOLD_K = 50
"""The best labels per point on which thresholds are fitted and applied, if no k is given."""

_MIN_TRUE_POINTS = 10  # held-out points with a label, for a threshold of its own
_MAX_K = 10  # of F1@k
THRESHOLD_FORMS = (
    f"a probability from 0 to 1, micro-f1, macro-f1, or f1@k with k from 1 to {_MAX_K}"
)
"""The valid thresholds, for messages."""


@dataclasses.dataclass(frozen=True)
class Threshold:
    """The least probability of an answer.

    Attributes:
      overall: the threshold of all labels but `labels`.
      k: the number of top answers of a point that it was chosen on; None if a user set it.
      labels: ascending, the labels with a threshold of their own.
      own: their thresholds.
    """

    overall: Annotated[float, between(0, 1)]
    k: Annotated[int, at_least(1)] | None = None
    labels: tuple[Annotated[int, between(0, 2**31 - 1)], ...] = ()
    own: tuple[Annotated[float, between(0, 1)], ...] = ()

    def __post_init__(self) -> None:
        if len(self.own) != len(self.labels) or list(self.labels) != sorted(self.labels):
            raise ValueError("labels that ascend, each with its own threshold")

    def __call__(self, labels: NDArray[np.integer], probabilities: NDArray) -> NDArray[np.bool_]:
        """Which of the answers to keep, in their shape; a label of -1 is never kept.

        Args:
          labels: int [...].
          probabilities: float32 [...], of the labels.
        """
        least = np.full(labels.shape, self.overall, np.float32)
        if self.labels:
            ids, own = np.asarray(self.labels), np.asarray(self.own, np.float32)
            index = np.minimum(np.searchsorted(ids, labels), len(ids) - 1)
            least = np.where(ids[index] == labels, own[index], least)
        return (labels >= 0) & (probabilities >= least)


class HeldOut(NamedTuple):
    """Answers of held-out points.

    Attributes:
      labels: int [m, c], best first, padded with -1.
      probabilities: float32 [m, c].
      right: bool [m, c].
      truth: CSR [m, K], the labels of the points.
    """

    labels: NDArray[np.integer]
    probabilities: NDArray[np.float32]
    right: NDArray[np.bool_]
    truth: csr_matrix


def best_threshold(
    probabilities: NDArray[np.float32],
    right: NDArray[np.bool_],
    groups: NDArray[np.integer],
    true_labels: NDArray[np.integer],
) -> float:
    """The threshold with the highest mean F1 over the groups; among ties the highest threshold.

    It lies halfway between the lowest probability of a kept answer and the next lower one.

    Args:
      probabilities: float32 [n], n at least 1.
      right: bool [n].
      groups: int [n], the group of each answer.
      true_labels: int [G], at least 1 where a group has an answer that is right.
    """
    order = np.argsort(-probabilities, kind="stable")
    p, hit, group = probabilities[order], right[order].astype(np.int64), groups[order]
    by_group = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[by_group], prepend=-1))
    sizes = np.diff(np.append(starts, len(p)))
    # Answers and hits of a group down to each of its answers, and so its F1.
    answers = np.arange(len(p)) - np.repeat(starts, sizes) + 1
    hits = np.cumsum(hit[by_group])
    hits -= np.repeat(hits[starts] - hit[by_group][starts], sizes)
    f1 = 2 * hits / (answers + true_labels[group[by_group]])
    gain = np.empty(len(p))
    gain[by_group] = f1 - np.where(answers == 1, 0, np.roll(f1, 1))
    # A threshold keeps all answers with equal probability or none.
    ends = np.flatnonzero(np.append(p[1:] != p[:-1], True))
    best = ends[np.argmax(np.cumsum(gain)[ends])]
    below = p[best + 1] if best + 1 < len(p) else np.float32(0)
    middle = (p[best] + below) / 2
    return float(middle if middle > below else p[best])


def _micro_f1(held: HeldOut) -> Threshold:
    is_label = held.labels >= 0
    groups = np.zeros(np.count_nonzero(is_label), np.int64)
    total = np.array([held.truth.nnz])
    best = best_threshold(held.probabilities[is_label], held.right[is_label], groups, total)
    return Threshold(best, held.labels.shape[1])


def _macro_f1(held: HeldOut) -> Threshold:
    """A threshold for each label with enough points, and one of the highest macro-F1 otherwise."""
    is_label = held.labels >= 0
    labels, p, right = held.labels[is_label], held.probabilities[is_label], held.right[is_label]
    counts = np.bincount(held.truth.indices, minlength=held.truth.shape[1])
    overall = best_threshold(p, right, labels, np.maximum(counts, 1))
    order = np.argsort(labels, kind="stable")
    ids, starts = np.unique(labels[order], return_index=True)
    own = {}
    for label, rows in zip(ids.tolist(), np.split(order, starts[1:]), strict=True):
        if counts[label] >= _MIN_TRUE_POINTS and right[rows].any():
            one_group = np.zeros(len(rows), np.int64)
            own[label] = best_threshold(p[rows], right[rows], one_group, counts[[label]])
    return Threshold(overall, held.labels.shape[1], tuple(own), tuple(own.values()))


def _f1_at_k(held: HeldOut, k: int) -> Threshold:
    k = min(k, held.labels.shape[1])
    is_label = held.labels[:, :k] >= 0
    p, right = held.probabilities[:, :k][is_label], held.right[:, :k][is_label]
    points = np.nonzero(is_label)[0]
    true_labels = np.maximum(np.diff(held.truth.indptr), 1)
    return Threshold(best_threshold(p, right, points, true_labels), k)


GOALS: dict[str, Callable[[HeldOut], Threshold]] = {
    "micro-f1": _micro_f1,
    "macro-f1": _macro_f1,
    **{f"f1@{k}": functools.partial(_f1_at_k, k=k) for k in range(1, _MAX_K + 1)},
}
"""The metrics that a threshold can maximize, each with the function that chooses it."""


def fit_thresholds(held: HeldOut) -> dict[str, Threshold]:
    """The best threshold for each of `GOALS`.

    Args:
      held: held-out answers, at least one of them right.
    """
    return {name: fit(held) for name, fit in GOALS.items()}


def parse_threshold(asked: str | float) -> str | float:
    """A name of `GOALS`, in lower case, or a probability; as a number or as its text.

    Raises:
      InputError: anything else.

    Example:
      >>> parse_threshold("Micro-F1"), parse_threshold("0.5")
      ('micro-f1', 0.5)
    """
    name = str(asked).lower()
    if name in GOALS:
        return name
    try:
        value = float(name)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise InputError("--threshold", str(asked), THRESHOLD_FORMS)
    return value


def find_threshold(chosen: Mapping[str, Threshold], asked: str | float) -> Threshold:
    """The threshold that a user asks for.

    Args:
      chosen: the thresholds of the run.
      asked: a probability, or a name of `GOALS`.

    Raises:
      InputError: neither, or the run has chosen none.
    """
    checked = parse_threshold(asked)
    if not isinstance(checked, str):
        return Threshold(checked)
    if checked not in chosen:
        found = f"{checked}, which the run has not chosen"
        expected = f"one of {', '.join(chosen)}" if chosen else "a run of this version, or a number"
        raise InputError("--threshold", found, expected)
    return chosen[checked]

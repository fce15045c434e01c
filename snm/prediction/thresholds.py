"""Thresholds of probabilities: from where on a label is an answer, so that F1 is highest.

F1 of a group of answers is 2 hits / (answers + true labels). A threshold is chosen on held-out
points: answers are sorted by probability once, and F1 is known after each, so that the threshold is
the best there is for these points. The groups are all answers together (micro-F1), those of a label
(macro-F1), or those of a point (F1@k); the mean is over the groups. If probabilities are exact, the
best threshold of a group is half of its highest F1 (Lipton, Elkan and Naryanaswamy, 2014).

References:
  Lipton, Elkan and Naryanaswamy, Optimal thresholding of classifiers to maximize F1 measure,
  ECML PKDD 2014.
  Yang, A study of thresholding strategies for text categorization, SIGIR 2001 (SCut: one threshold
  a label, which needs examples of it).
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
    "EXPECTED",
    "GOALS",
    "HeldOut",
    "Threshold",
    "best_threshold",
    "checked_threshold",
    "fit_thresholds",
    "threshold_of",
]

DEFAULT_THRESHOLD_K = 50
"""The best labels per point on which thresholds are fitted and applied, if no k is given."""

_LEAST = 10  # true held-out points of a label that has its own threshold
_MOST_K = 10  # of F1@k
EXPECTED = f"a probability from 0 to 1, micro-f1, macro-f1, or f1@k with k from 1 to {_MOST_K}"
"""What a threshold can be, for messages."""


@dataclasses.dataclass(frozen=True)
class Threshold:
    """The least probability of an answer.

    Attributes:
      overall: of all labels but those below.
      k: the answers of a point that it was chosen on, best first; None if it was not chosen.
      labels: ascending, those that have their own.
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
        """Which of the answers stay, in their shape; a label of -1 never does.

        Args:
          labels: int [...].
          probabilities: float32 [...], of the labels.
        """
        least = np.full(labels.shape, self.overall, np.float32)
        if self.labels:
            ids, own = np.asarray(self.labels), np.asarray(self.own, np.float32)
            place = np.minimum(np.searchsorted(ids, labels), len(ids) - 1)
            least = np.where(ids[place] == labels, own[place], least)
        return (labels >= 0) & (probabilities >= least)

    def k_or_own(self, k: int | None) -> int | None:
        """How many answers a point to look at: k, or as many as the threshold was chosen on."""
        return self.k if k is None else k


class HeldOut(NamedTuple):
    """Answers of points that the model has not seen.

    Attributes:
      labels: int [m, c], best first; -1 for none.
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
    """The threshold with the highest mean F1 of the groups; of equal ones the highest.

    It lies halfway between the lowest probability that reaches it and the next one.

    Args:
      probabilities: float32 [n], n at least 1.
      right: bool [n].
      groups: int [n], the group of each answer.
      true_labels: int [G], at least 1 where a group has an answer that is right.
    """
    order = np.argsort(-probabilities, kind="stable")
    p, hit, group = probabilities[order], right[order].astype(np.int64), groups[order]
    within = np.argsort(group, kind="stable")
    first = np.flatnonzero(np.diff(group[within], prepend=-1))
    sizes = np.diff(np.append(first, len(p)))
    answers = np.arange(len(p)) - np.repeat(first, sizes) + 1
    hits = np.cumsum(hit[within])
    hits -= np.repeat(hits[first] - hit[within][first], sizes)
    f1 = 2 * hits / (answers + true_labels[group[within]])
    gain = np.empty(len(p))
    gain[within] = f1 - np.where(answers == 1, 0, np.roll(f1, 1))
    # Answers of the same probability come together.
    ends = np.flatnonzero(np.append(p[1:] != p[:-1], True))
    best = ends[np.argmax(np.cumsum(gain)[ends])]
    below = p[best + 1] if best + 1 < len(p) else np.float32(0)
    middle = (p[best] + below) / 2
    return float(middle if middle > below else p[best])


def _micro(held: HeldOut) -> Threshold:
    real = held.labels >= 0
    groups = np.zeros(np.count_nonzero(real), np.int64)
    total = np.array([held.truth.nnz])
    found = best_threshold(held.probabilities[real], held.right[real], groups, total)
    return Threshold(found, held.labels.shape[1])


def _macro(held: HeldOut) -> Threshold:
    """One for each label of enough true points; for the others that of the highest macro-F1."""
    real = held.labels >= 0
    labels, p, right = held.labels[real], held.probabilities[real], held.right[real]
    counts = np.bincount(held.truth.indices, minlength=held.truth.shape[1])
    overall = best_threshold(p, right, labels, np.maximum(counts, 1))
    order = np.argsort(labels, kind="stable")
    ids, starts = np.unique(labels[order], return_index=True)
    own = {}
    for label, some in zip(ids.tolist(), np.split(order, starts[1:]), strict=True):
        if counts[label] >= _LEAST and right[some].any():
            of_one = np.zeros(len(some), np.int64), counts[[label]]
            own[label] = best_threshold(p[some], right[some], *of_one)
    return Threshold(overall, held.labels.shape[1], tuple(own), tuple(own.values()))


def _of_points(held: HeldOut, k: int) -> Threshold:
    k = min(k, held.labels.shape[1])
    real = held.labels[:, :k] >= 0
    p, right = held.probabilities[:, :k][real], held.right[:, :k][real]
    sizes = np.maximum(np.diff(held.truth.indptr), 1)
    return Threshold(best_threshold(p, right, np.nonzero(real)[0], sizes), k)


GOALS: dict[str, Callable[[HeldOut], Threshold]] = {
    "micro-f1": _micro,
    "macro-f1": _macro,
    **{f"f1@{k}": functools.partial(_of_points, k=k) for k in range(1, _MOST_K + 1)},
}
"""What a threshold can make highest, by the name that asks for it."""


def fit_thresholds(held: HeldOut) -> dict[str, Threshold]:
    """The best threshold for each of `GOALS`.

    Args:
      held: at least one of its answers is right.
    """
    return {name: fit(held) for name, fit in GOALS.items()}


def checked_threshold(asked: str | float) -> str | float:
    """A name of `GOALS`, in lower case, or a probability; as a number or as its text.

    Raises:
      InputError: anything else.

    Example:
      >>> checked_threshold("Micro-F1"), checked_threshold("0.5")
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
        raise InputError("--threshold", str(asked), EXPECTED)
    return value


def threshold_of(chosen: Mapping[str, Threshold], asked: str | float) -> Threshold:
    """The threshold that a user asks for.

    Args:
      chosen: those that a run has chosen.
      asked: a probability, or a name of `GOALS`.

    Raises:
      InputError: neither, or the run has chosen none.
    """
    checked = checked_threshold(asked)
    if not isinstance(checked, str):
        return Threshold(checked)
    if checked not in chosen:
        found = f"{checked}, which the run has not chosen"
        expected = f"one of {', '.join(chosen)}" if chosen else "a run of this version, or a number"
        raise InputError("--threshold", found, expected)
    return chosen[checked]

"""The interface of a reference, and what they share: a bias, soft thresholds, best labels."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, hstack

__all__ = [
    "NEVER",
    "Reference",
    "best_entries",
    "best_scores",
    "of_all_labels",
    "shrunk",
    "with_constant",
]

NEVER = -1e30
"""Score of a label without training points."""

_SCORES = 1 << 22  # of a block of points, computed at once


class Reference(Protocol):
    """A system of another paper, written again in plain NumPy and SciPy."""

    def fit(self, X: csr_matrix, Y: csr_matrix) -> Self:
        """Trains.

        Args:
          X: float32 CSR [n, d], weighted features; rows have length 1 or 0.
          Y: float32 CSR [n, K] of ones.
        """

    def predict(self, X: csr_matrix, k: int) -> NDArray[np.int64]:
        """The k best labels of each point: int64 [m, k], best first, padded with -1.

        Args:
          X: float32 CSR [m, d].
          k: at most K.
        """


def with_constant(X: csr_matrix) -> csr_matrix:
    """Points with a last feature of 1, whose weight is a bias: float32 CSR [n, d + 1]."""
    return hstack([X, np.ones((X.shape[0], 1), np.float32)], format="csr").astype(np.float32)


def shrunk(values: NDArray[np.float32], penalty: float) -> NDArray[np.float32]:
    """Values nearer to 0 by the penalty: the minimizer of half a square and an absolute value."""
    return values - np.clip(values, -np.float32(penalty), np.float32(penalty))


def of_all_labels(
    scores: NDArray[np.float32], known: NDArray[np.int64], num_labels: int
) -> NDArray[np.float32]:
    """Scores [b, num_labels] from those of some labels, [b, known]; `NEVER` for the others."""
    found = np.full((len(scores), num_labels), NEVER, np.float32)
    found[:, known] = scores
    return found


def best_scores(
    X: csr_matrix,
    k: int,
    num_labels: int,
    scores_of: Callable[[csr_matrix], NDArray[np.floating]],
) -> NDArray[np.int64]:
    """The k labels of the highest score, for systems that score every label.

    Args:
      X: CSR [m, d].
      k: at most `num_labels`.
      num_labels: K.
      scores_of: scores [b, K] of a block of points, CSR [b, d].

    Returns:
      int64 [m, k], best first.
    """
    found = np.empty((X.shape[0], k), np.int64)
    rows = max(1, _SCORES // num_labels)
    for first in range(0, X.shape[0], rows):
        scores = scores_of(X[first : first + rows])
        some = np.argpartition(-scores, k - 1, axis=1)[:, :k]
        order = np.argsort(-np.take_along_axis(scores, some, axis=1), axis=1, kind="stable")
        found[first : first + rows] = np.take_along_axis(some, order, axis=1)
    return found


def best_entries(scores: csr_matrix, k: int) -> NDArray[np.int64]:
    """The k stored labels of the highest score of each row, ties to the lowest; -1 where fewer."""
    found = np.full((scores.shape[0], k), -1, np.int64)
    for row, (first, last) in enumerate(pairwise(scores.indptr.tolist())):
        ids, values = scores.indices[first:last], scores.data[first:last]
        best = ids[np.lexsort((ids, -values))[:k]]
        found[row, : len(best)] = best
    return found

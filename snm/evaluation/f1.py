"""Micro-F1, macro-F1 and the F1 of points, of answers that are as many as a threshold leaves."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snm.evaluation.filters import are_among, canonical, pairs_of

__all__ = ["F1"]

CSR = Any  # scipy.sparse.csr_array or csr_matrix; SciPy has no types


@dataclasses.dataclass(frozen=True, eq=False)
class F1:
    """Counts over the points so far, all of them whole numbers: batches may have any size.

    Attributes:
      answers: int64 [K], how often each label was an answer.
      hits: int64 [K], how often it was a right one.
      true: int64 [K], how many points carry it.
      points: int64 [H, S], points by their number of hits, and by that of their answers and true
        labels together.
    """

    answers: NDArray[np.int64]
    hits: NDArray[np.int64]
    true: NDArray[np.int64]
    points: NDArray[np.int64]

    @staticmethod
    def start(num_labels: int) -> F1:
        """No points yet."""
        none = np.zeros(num_labels, np.int64)
        return F1(none, none, none, np.zeros((0, 0), np.int64))

    def update(self, answers: NDArray, labels: CSR) -> F1:
        """The counts with more points; those without labels are left out.

        Args:
          answers: int [n, c], distinct labels; -1 for none.
          labels: CSR [n, K], the true labels: non-zero entries.

        Raises:
          ValueError: the shapes do not fit.
        """
        answers, num_labels = np.asarray(answers, np.int64), len(self.true)
        if answers.ndim != 2 or labels.shape != (len(answers), num_labels):
            expected = f"answers [n, c] and labels [n, {num_labels}]"
            raise ValueError(f"expected {expected}, found {answers.shape} and {labels.shape}")
        labels = canonical(labels)
        some = np.diff(labels.indptr) > 0
        labels, answers = labels[some], answers[some]
        sizes = np.diff(labels.indptr).astype(np.int64)
        hit = are_among(answers, pairs_of(labels), num_labels)
        of_point = hit.sum(axis=1), sizes + (answers >= 0).sum(axis=1)
        shape = [
            max(int(new.max(initial=-1)) + 1, old)
            for new, old in zip(of_point, self.points.shape, strict=True)
        ]
        points = np.zeros(shape, np.int64)
        points[: self.points.shape[0], : self.points.shape[1]] = self.points
        np.add.at(points, of_point, 1)
        return F1(
            self.answers + np.bincount(answers[answers >= 0], minlength=num_labels),
            self.hits + np.bincount(answers[hit], minlength=num_labels),
            self.true + np.bincount(labels.indices, minlength=num_labels),
            points,
        )

    def result(self) -> dict[str, float]:
        """F1 in percent, over the points that have labels.

        Returns:
          `micro-F1`: 2 hits / (answers + true labels), of the sums over all points; `macro-F1`: the
          mean of the same of each label that a point carries (scikit-learn and xCOLUMNs divide by
          K, as a label that no point carries has an F1 of 0); `F1`: the mean of the same of each
          point, which is F1@k where the k best labels are cut by a threshold; and `answers`, their
          mean number a point. Only zeros without points.
        """
        both = self.answers + self.true
        carried = self.true > 0
        total = max(1, int(self.points.sum()))
        hits, together = np.nonzero(self.points)
        of_points = self.points[hits, together] * (2 * hits / np.maximum(together, 1))
        of_labels = self.hits[carried] / both[carried]
        return {
            "micro-F1": 200 * int(self.hits.sum()) / max(1, int(both.sum())),
            "macro-F1": 200 * float(of_labels.sum()) / max(1, len(of_labels)),
            "F1": 100 * float(of_points.sum()) / total,
            "answers": int(self.answers.sum()) / total,
        }

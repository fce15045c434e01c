"""Micro-F1, macro-F1 and the mean F1 of points, for answers selected by a threshold."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.data.csr import are_entries
from snm.evaluation.filters import CSR, canonical

__all__ = ["F1"]


@dataclasses.dataclass(frozen=True, eq=False)
class F1:
    """Integer counts over the points so far, so that the result does not depend on the batch size.

    Attributes:
      answers: int64 [K], the number of points with each label among their answers.
      hits: int64 [K], the number of these that are correct.
      true: int64 [K], the number of points that have each label.
      points: int64 [H, S], the number of points with h hits and with s answers and true labels in
        total.
    """

    answers: NDArray[np.int64]
    hits: NDArray[np.int64]
    true: NDArray[np.int64]
    points: NDArray[np.int64]

    @staticmethod
    def start(num_labels: int) -> F1:
        """No points yet."""
        zeros = np.zeros(num_labels, np.int64)
        return F1(zeros, zeros, zeros, np.zeros((0, 0), np.int64))

    def update(self, answers: NDArray, labels: CSR) -> F1:
        """Adds a batch of points; those without labels are ignored.

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
        labelled = np.diff(labels.indptr) > 0
        labels, answers = labels[labelled], answers[labelled]
        sizes = np.diff(labels.indptr).astype(np.int64)
        hit = are_entries(answers, csr_matrix(labels))
        hits_and_sizes = hit.sum(axis=1), sizes + (answers >= 0).sum(axis=1)
        wider = [
            (0, max(0, int(new.max(initial=-1)) + 1 - old))
            for new, old in zip(hits_and_sizes, self.points.shape, strict=True)
        ]
        points = np.pad(self.points, wider)
        np.add.at(points, hits_and_sizes, 1)
        return F1(
            self.answers + np.bincount(answers[answers >= 0], minlength=num_labels),
            self.hits + np.bincount(answers[hit], minlength=num_labels),
            self.true + np.bincount(labels.indices, minlength=num_labels),
            points,
        )

    def result(self) -> dict[str, float]:
        """F1 in percent, over the points with labels.

        Returns:
          `micro-F1`: 2 hits / (answers + true labels), with sums over all points; `macro-F1`: the
          mean of this ratio over the labels that occur (scikit-learn and xCOLUMNs divide by K, with
          an F1 of 0 for other labels); `F1`: its mean over the points, which is F1@k if the k best
          labels are the answers; and `answers`, their mean number per point. All are 0 without
          points.
        """
        denominator = self.answers + self.true
        occurs = self.true > 0
        total = max(1, int(self.points.sum()))
        hits, sizes = np.nonzero(self.points)
        point_f1 = self.points[hits, sizes] * (2 * hits / np.maximum(sizes, 1))
        label_ratio = self.hits[occurs] / denominator[occurs]
        return {
            "micro-F1": 200 * int(self.hits.sum()) / max(1, int(denominator.sum())),
            "macro-F1": 200 * float(label_ratio.sum()) / max(1, len(label_ratio)),
            "F1": 100 * float(point_f1.sum()) / total,
            "answers": int(self.answers.sum()) / total,
        }

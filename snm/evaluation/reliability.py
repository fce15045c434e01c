"""Calibration of the probabilities of answers: expected calibration error, reliability diagram.

References:
  Guo, Pleiss, Sun and Weinberger, On calibration of modern neural networks, ICML 2017, section 2.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Reliability"]

_BINS = 10


@dataclasses.dataclass(frozen=True, eq=False)
class Reliability:
    """Sums over answers, in bins of equal width by their probability.

    Attributes:
      counts: float64 [bins], the number of answers.
      probability_sums: float64 [bins], the sum of their probabilities.
      correct: float64 [bins], the number of correct answers.
      variances: float64 [bins], the sum of p (1 - p).
    """

    counts: NDArray
    probability_sums: NDArray
    correct: NDArray
    variances: NDArray

    @staticmethod
    def start() -> Reliability:
        """No answers yet."""
        return Reliability(*np.zeros((4, _BINS)))

    def update(self, probabilities: NDArray, correct: NDArray) -> Reliability:
        """Adds a batch of answers.

        Args:
          probabilities: float [...], in [0, 1].
          correct: bool, in the same shape.
        """
        p = np.asarray(probabilities, np.float64).ravel()
        bins = np.minimum((p * _BINS).astype(np.int64), _BINS - 1)
        terms = (np.ones_like(p), p, np.ravel(correct).astype(np.float64), p * (1 - p))
        sums = [np.bincount(bins, weights=values, minlength=_BINS) for values in terms]
        before = (self.counts, self.probability_sums, self.correct, self.variances)
        return Reliability(*(a + b for a, b in zip(before, sums, strict=True)))

    def result(self) -> dict[str, Any]:
        """The expected calibration error, and the diagram.

        Returns:
          `answers`, their number; `ECE`, the mean over answers of the absolute difference between
          mean probability and fraction of correct answers in their bin, in [0, 1]; `ECE_by_chance`,
          approximately the ECE of perfect probabilities for so many independent answers; and
          `bins`, those that have answers: `from`, `to`, `answers`, their mean `probability`, and
          `right`, the fraction of correct ones.
        """
        total = max(1.0, self.counts.sum())
        # The mean absolute value of a centred normal variable is sqrt(2 / pi) standard deviations.
        chance = np.sqrt(2 / np.pi * self.variances).sum()
        return {
            "answers": int(self.counts.sum()),
            "ECE": float(np.abs(self.probability_sums - self.correct).sum() / total),
            "ECE_by_chance": float(chance / total),
            "bins": [
                {
                    "from": i / _BINS,
                    "to": (i + 1) / _BINS,
                    "answers": int(self.counts[i]),
                    "probability": float(self.probability_sums[i] / self.counts[i]),
                    "right": float(self.correct[i] / self.counts[i]),
                }
                for i in np.flatnonzero(self.counts)
            ],
        }

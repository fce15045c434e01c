"""How well probabilities of answers fit: the expected calibration error and a reliability diagram.

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
    """Sums over answers, by bins of equal width of their probability.

    Attributes:
      counts: float64 [bins], the answers.
      claimed: float64 [bins], the sum of their probabilities.
      right: float64 [bins], how many are right.
      variances: float64 [bins], the sum of p (1 - p).
    """

    counts: NDArray
    claimed: NDArray
    right: NDArray
    variances: NDArray

    @staticmethod
    def start() -> Reliability:
        """No answers yet."""
        return Reliability(*np.zeros((4, _BINS)))

    def update(self, probabilities: NDArray, right: NDArray) -> Reliability:
        """The sums with more answers.

        Args:
          probabilities: float [...], in [0, 1].
          right: bool, in the same shape.
        """
        p = np.asarray(probabilities, np.float64).ravel()
        bins = np.minimum((p * _BINS).astype(np.int64), _BINS - 1)
        of_each = (np.ones_like(p), p, np.ravel(right).astype(np.float64), p * (1 - p))
        sums = [np.bincount(bins, weights=values, minlength=_BINS) for values in of_each]
        before = (self.counts, self.claimed, self.right, self.variances)
        return Reliability(*(a + b for a, b in zip(before, sums, strict=True)))

    def result(self) -> dict[str, Any]:
        """The expected calibration error, and the diagram.

        Returns:
          `answers`; `ECE`, the mean over answers of the difference between the mean probability
          and the share of right answers in their bin, in [0, 1]; `ECE_by_chance`, about what it
          would be of so many answers if each were right with exactly its probability, and
          independently of the others; and `bins`, those that have answers: `from`, `to`, `answers`,
          their mean `probability`, and the share that is `right`.
        """
        total = max(1.0, self.counts.sum())
        # The mean absolute value of a normal variable is sqrt(2 / pi) of its standard deviation.
        chance = np.sqrt(2 / np.pi * self.variances).sum()
        return {
            "answers": int(self.counts.sum()),
            "ECE": float(np.abs(self.claimed - self.right).sum() / total),
            "ECE_by_chance": float(chance / total),
            "bins": [
                {
                    "from": i / _BINS,
                    "to": (i + 1) / _BINS,
                    "answers": int(self.counts[i]),
                    "probability": float(self.claimed[i] / self.counts[i]),
                    "right": float(self.right[i] / self.counts[i]),
                }
                for i in np.flatnonzero(self.counts)
            ],
        }

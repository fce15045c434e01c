"""The gain in precision of one set of answers over another, and whether it is significant."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

__all__ = ["Gain", "measure_gain"]


@dataclasses.dataclass(frozen=True)
class Gain:
    """The gain of some answers over others, on the same points.

    Attributes:
      before: P@1, P@3 and P@5 of the other answers, in percent.
      precision: the same of these answers.
      gain: the difference of the means of the three, in percentage points.
      error: standard error of the gain.
    """

    before: tuple[float, ...]
    precision: tuple[float, ...]
    gain: float
    error: float

    @property
    def sure_gain(self) -> float:
        """The gain less two standard errors.

        One standard error is too few: the best of many settings on a hundred points gains more than
        that by chance.
        """
        return self.gain - 2 * self.error

    @property
    def pays(self) -> bool:
        """Whether there is surely a gain."""
        return self.sure_gain > 0


def measure_gain(base: NDArray[np.bool_], hits: NDArray[np.bool_], ks: tuple[int, ...]) -> Gain:
    """Compares the precision of two sets of answers.

    Args:
      base: bool [m, max(ks)], which of the other answers are right, best first.
      hits: the same of the answers whose gain is measured.
      ks: the numbers of answers that precision is measured at.
    """
    before, after = (np.stack([100 * h[:, :k].mean(axis=1) for k in ks]) for h in (base, hits))
    gains = (after - before).mean(axis=0)
    return Gain(
        before=tuple(before.mean(axis=1).tolist()),
        precision=tuple(after.mean(axis=1).tolist()),
        gain=float(gains.mean()),
        error=float(gains.std() / np.sqrt(len(gains))),
    )

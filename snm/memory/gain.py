"""The gain in precision of one set of answers over another, and whether it is significant."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

__all__ = ["Gain", "margin_of", "measure_gain"]

_FEW = 100  # points on which a gain is measured


@dataclasses.dataclass(frozen=True)
class Gain:
    """The gain of some answers over others, on the same points.

    Attributes:
      before: P@1, P@3 and P@5 of the other answers, in percent.
      precision: the same of these answers.
      gain: the difference of the means of the three, in percentage points.
      error: standard error of the gain.
      margin: the number of standard errors that a sure gain exceeds.
    """

    before: tuple[float, ...]
    precision: tuple[float, ...]
    gain: float
    error: float
    margin: float = 2.0

    @property
    def sure_gain(self) -> float:
        """The gain less `margin` standard errors."""
        return self.gain - self.margin * self.error

    @property
    def pays(self) -> bool:
        """Whether there is surely a gain."""
        return self.sure_gain > 0


def margin_of(points: int) -> float:
    """The `Gain.margin` of a memory that so many held-out points choose: 1 below 100, else 2.

    The best of many settings gains more than one standard error by chance. But a memory helps more
    often than not, and few points hardly ever show it at two.
    """
    return 1.0 if points < _FEW else 2.0


def measure_gain(
    base: NDArray[np.bool_], hits: NDArray[np.bool_], ks: tuple[int, ...], margin: float = 2.0
) -> Gain:
    """Compares the precision of two sets of answers.

    Args:
      base: bool [m, max(ks)], which of the other answers are right, best first.
      hits: the same of the answers whose gain is measured.
      ks: the numbers of answers that precision is measured at.
      margin: as in `Gain`.
    """
    before, after = (np.stack([100 * h[:, :k].mean(axis=1) for k in ks]) for h in (base, hits))
    gains = (after - before).mean(axis=0)
    return Gain(
        before=tuple(before.mean(axis=1).tolist()),
        precision=tuple(after.mean(axis=1).tolist()),
        gain=float(gains.mean()),
        error=float(gains.std() / np.sqrt(len(gains))),
        margin=margin,
    )

"""What a change of the answers gains on held-out points, and whether it surely does."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

__all__ = ["Gain", "gain_of"]


@dataclasses.dataclass(frozen=True)
class Gain:
    """The gain of one way to answer over another, on the same points.

    Attributes:
      before: P@1, P@3 and P@5 of the other way, in percent.
      precision: the same of this way.
      gain: of the mean of the three, in points of a hundred.
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


def gain_of(base: NDArray[np.bool_], hits: NDArray[np.bool_], ks: tuple[int, ...]) -> Gain:
    """The gain of answers over others.

    Args:
      base: bool [m, max(ks)], which of the others are right, best first.
      hits: the same of the answers.
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

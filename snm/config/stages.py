"""How B and k' change over a run: one function of the share of it that is done.

Reddi et al. (2019, section 6) leave open how the number of sampled labels should change as training
proceeds. A run has a few stages. Each has its own sizes, which are static in the compiled step, so
each compiles one program.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from math import ceil
from typing import NamedTuple

from snm.config.settings import Config

__all__ = ["SizeSchedule", "Sizes", "by_halves"]


class Sizes(NamedTuple):
    """What a stage may have of its own.

    Attributes:
      sampled: B, from 1 to K - 1.
      mined: k', from 1 to B.
    """

    sampled: int
    mined: int


@dataclasses.dataclass(frozen=True)
class SizeSchedule:
    """The sizes of each step of a run.

    Both take the values of their path in turn, for equal shares of the run.

    Attributes:
      sampled: values of B.
      mined: values of k', or None for all that are sampled.

    Example:
      >>> sizes = SizeSchedule((64, 128), (8, 4, 2))
      >>> [tuple(sizes(Fraction(step + 1, 6))) for step in range(6)]
      [(64, 8), (64, 8), (64, 4), (128, 4), (128, 2), (128, 2)]
    """

    sampled: tuple[int, ...]
    mined: tuple[int, ...] | None

    @classmethod
    def of(cls, config: Config, num_labels: int) -> SizeSchedule:
        """The schedule of settings whose B and k' are no `auto`."""

        def number(value: int | str, whole: int) -> int:
            return whole if isinstance(value, str) else value

        sampled = by_halves(
            number(config.sampled_start or config.sampled, num_labels - 1),
            number(config.sampled, num_labels - 1),
        )
        mined = None
        if config.mined != "all":
            start = number(config.mined_start or config.mined, int(sampled[0]))
            mined = by_halves(start, number(config.mined, 0))
        return cls(sampled, mined)

    def __call__(self, share: Fraction) -> Sizes:
        """The sizes of a step; `share` of the run is done after it, above 0 and at most 1."""
        sampled = _at(self.sampled, share)
        mined = sampled if self.mined is None else _at(self.mined, share)
        return Sizes(sampled, mined)

    @property
    def shares(self) -> list[Fraction]:
        """The shares at which stages end, ascending; the last is 1."""
        lengths = {len(path) for path in (self.sampled, self.mined or (1,))}
        return sorted({Fraction(number + 1, most) for most in lengths for number in range(most)})


def by_halves(start: int, end: int) -> tuple[int, ...]:
    """From one value to another by halves, or by doubles, both included.

    Example:
      >>> by_halves(40, 16), by_halves(8, 32), by_halves(3, 3)
      ((40, 20, 16), (8, 16, 32), (3,))
    """
    path = [start]
    while path[-1] != end:
        last = path[-1]
        path.append(max(last // 2, end) if last > end else min(last * 2, end))
    return tuple(path)


def _at(path: tuple[int, ...], share: Fraction) -> int:
    return path[ceil(share * len(path)) - 1]

"""How B and k' change over a run, as a function of the share of steps done.

Reddi et al. (2019, section 6) leave open how the number of sampled labels should change as training
proceeds. A run has a few stages. Each has its own sizes. Sizes are static in the compiled step, so
each stage compiles one program.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from math import ceil
from typing import NamedTuple

from snm.config.settings import Config

__all__ = ["SizeSchedule", "Sizes", "halving_path"]


class Sizes(NamedTuple):
    """The sizes of a stage.

    Attributes:
      sampled: B, from 1 to K - 1.
      mined: k', from 1 to B.
    """

    sampled: int
    mined: int


@dataclasses.dataclass(frozen=True)
class SizeSchedule:
    """The sizes of each step of a run.

    B and k' take each of their values in turn, for equal shares of the run.

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
        """The schedule of settings whose B and k' are not `auto`."""

        def number(value: int | str, all_labels: int) -> int:
            return all_labels if isinstance(value, str) else value

        sampled = halving_path(
            number(config.sampled_start or config.sampled, num_labels - 1),
            number(config.sampled, num_labels - 1),
        )
        mined = None
        if config.mined != "all":
            start = number(config.mined_start or config.mined, int(sampled[0]))
            mined = halving_path(start, number(config.mined, 0))
        return cls(sampled, mined)

    def __call__(self, share: Fraction) -> Sizes:
        """The sizes of a step; `share` of the run is done after it, above 0 and at most 1."""
        sampled = _value_at(self.sampled, share)
        mined = sampled if self.mined is None else _value_at(self.mined, share)
        return Sizes(sampled, mined)

    @property
    def shares(self) -> list[Fraction]:
        """The shares at which stages end, ascending; the last is 1."""
        lengths = {len(path) for path in (self.sampled, self.mined or (1,))}
        return sorted(
            {Fraction(stage + 1, length) for length in lengths for stage in range(length)}
        )


def halving_path(start: int, end: int) -> tuple[int, ...]:
    """The values from `start` to `end` by halving or doubling, both included.

    Example:
      >>> halving_path(40, 16), halving_path(8, 32), halving_path(3, 3)
      ((40, 20, 16), (8, 16, 32), (3,))
    """
    path = [start]
    while path[-1] != end:
        last = path[-1]
        path.append(max(last // 2, end) if last > end else min(last * 2, end))
    return tuple(path)


def _value_at(path: tuple[int, ...], share: Fraction) -> int:
    return path[ceil(share * len(path)) - 1]

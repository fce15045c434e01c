"""Learning rate schedules.

The host computes the factor of each step and sends it with the batch. So one compiled program
serves runs of any length.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np

__all__ = ["CONSTANT", "SCHEDULES", "Schedule"]

SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda share: 1.0,
    "linear": lambda share: 1.0 - share,
    "cosine": lambda share: (1.0 + math.cos(math.pi * share)) / 2.0,
}
"""Name -> the factor of the learning rates, as a function of the fraction of steps done."""


@dataclasses.dataclass(frozen=True)
class Schedule:
    """The factor of the learning rates at each step.

    Attributes:
      name: a key of `SCHEDULES`.
      steps: number of steps of the schedule; afterwards the factor stays constant.

    Example:
      >>> [float(Schedule("linear", 4)(step)) for step in (0, 1, 4, 9)]
      [1.0, 0.75, 0.0, 0.0]
    """

    name: str = "constant"
    steps: int = 1

    def __call__(self, step: int) -> np.float32:
        """The factor at a step, counted from 0; float32, from 1 to 0."""
        return np.float32(SCHEDULES[self.name](min(1.0, step / self.steps)))


CONSTANT = Schedule()
"""Constant learning rates."""

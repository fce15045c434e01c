"""How the learning rates fall over a run.

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
"""The factor of the rates, by the share of the steps that are done."""


@dataclasses.dataclass(frozen=True)
class Schedule:
    """The factor of the rates at each step.

    Attributes:
      name: of `SCHEDULES`.
      steps: over which it falls; it keeps its last value afterwards.

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
"""Rates that do not fall."""

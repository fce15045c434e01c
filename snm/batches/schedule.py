"""The learning rates of each step, and their schedules.

The host computes the rates of each step and sends them with the batch. So one compiled program
serves runs of any length, at any rates.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import numpy as np

from snm.config.resolved import ResolvedConfig
from snm.config.schedules import SCHEDULES

__all__ = ["CONSTANT", "Rates", "Schedule", "last_epoch_factor"]

_MIDPOINTS = 100  # of an epoch, at which the factor is averaged


def last_epoch_factor(name: str, epochs: int) -> float:
    """The mean factor of the learning rates in the last of so many epochs.

    Args:
      name: a key of `SCHEDULES`.
      epochs: passes of the schedule, at least 1.

    Example:
      >>> [round(last_epoch_factor(name, 5), 3) for name in ("constant", "linear", "cosine")]
      [1.0, 0.1, 0.032]
    """
    left = ((place + 0.5) / _MIDPOINTS / epochs for place in range(_MIDPOINTS))
    return math.fsum(SCHEDULES[name](1.0 - remaining) for remaining in left) / _MIDPOINTS


class Rates(NamedTuple):
    """Learning rates: float32 scalars in a batch; numbers where a schedule starts from them.

    Attributes:
      rows: of feature rows, class rows and biases.
      tower: of the dense tower.
      scale: of the logarithm of a learned multiplier.
    """

    rows: jax.Array | float
    tower: jax.Array | float
    scale: jax.Array | float


_ONES = Rates(1.0, 1.0, 1.0)


@dataclasses.dataclass(frozen=True)
class Schedule:
    """The learning rates at each step.

    Attributes:
      name: a key of `SCHEDULES`.
      steps: number of steps of the schedule; afterwards the rates stay constant.
      rates: the rates that the factor of the schedule multiplies.

    Example:
      >>> falling = Schedule("linear", 4, Rates(2.0, 1.0, 0.0))
      >>> [float(falling(step).rows) for step in (0, 1, 4, 9)]
      [2.0, 1.5, 0.0, 0.0]
    """

    name: str = "constant"
    steps: int = 1
    rates: Rates = _ONES

    @classmethod
    def of(cls, config: ResolvedConfig, steps: int) -> Schedule:
        """That of the settings, over `steps` steps."""
        rates = config.learning_rate, config.tower_learning_rate, config.scale_learning_rate
        return cls(config.schedule, steps, Rates(*rates))

    def __call__(self, step: int) -> Rates:
        """The rates at a step, counted from 0: float32, products of float32 factors."""
        factor = np.float32(SCHEDULES[self.name](min(1.0, step / self.steps)))
        of_step: Any = [np.float32(rate) * factor for rate in self.rates]  # typed as in the step
        return Rates(*of_step)


CONSTANT = Schedule()
"""Constant rates of 1, for batches without settings."""

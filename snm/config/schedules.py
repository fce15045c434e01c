"""The schedules of the learning rates by the names that the setting `schedule` takes."""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["SCHEDULES"]

SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda progress: 1.0,
    "linear": lambda progress: 1.0 - progress,
    "cosine": lambda progress: (1.0 + math.cos(math.pi * progress)) / 2.0,
}
"""Name -> the factor of the learning rates, as a function of the fraction of steps done."""

"""Arithmetic on floats that overflows to infinity instead of raising."""

from __future__ import annotations

import math
import sys

__all__ = ["exp_or_inf"]

_OVERFLOW = math.log(sys.float_info.max)


def exp_or_inf(x: float) -> float:
    """e^x; infinite where it overflows float64."""
    return math.exp(x) if x < _OVERFLOW else math.inf

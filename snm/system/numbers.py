"""Functions on numbers that NumPy and the standard library have not, or not as fast."""

from __future__ import annotations

import math
import sys

import numpy as np
from numpy.typing import NDArray

__all__ = ["exp_or_inf", "stable_argsort"]

_OVERFLOW = math.log(sys.float_info.max)


def exp_or_inf(x: float) -> float:
    """e^x; infinite where it overflows float64, at which `math.exp` raises."""
    return math.exp(x) if x < _OVERFLOW else math.inf


def stable_argsort(numbers: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """`np.argsort(numbers, axis=-1, kind="stable")`, for rows of at most 2^32 numbers.

    NumPy's sort of integers is several times faster than its argsort. So each number and its index
    are packed into one integer here.

    Example:
      >>> stable_argsort(np.array([7, 2, 7, 1], np.uint32)).tolist()
      [3, 1, 0, 2]
    """
    indices = np.arange(numbers.shape[-1], dtype=np.uint64)
    keys = numbers.astype(np.uint64) << np.uint64(32) | indices
    keys.sort(axis=-1)
    return keys.astype(np.uint32)  # the lower half

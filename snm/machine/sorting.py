"""An order of numbers in less time than NumPy's."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["stable_order"]


def stable_order(numbers: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """`np.argsort(numbers, axis=-1, kind="stable")`, of at most 2^32 numbers in a row.

    NumPy sorts integers several times as fast as it sorts places by them. So each number and its
    place are one integer here.

    Example:
      >>> stable_order(np.array([7, 2, 7, 1], np.uint32)).tolist()
      [3, 1, 0, 2]
    """
    places = np.arange(numbers.shape[-1], dtype=np.uint64)
    keys = numbers.astype(np.uint64) << np.uint64(32) | places
    keys.sort(axis=-1)
    return keys.astype(np.uint32)  # the lower half

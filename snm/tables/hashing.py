"""Random bits as a function of numbers, the same in NumPy and JAX and on every platform."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["GOLDEN", "mixed"]

GOLDEN = np.uint32(0x9E3779B9)
"""2^32 over the golden ratio: times it, neighbouring counters become distant numbers."""


def mixed(x: Any) -> Any:
    """A bijection of uint32, of NumPy or JAX, whose output bits each depend on all input bits.

    Xor-shifts and multiplications: `lowbias32` of Wellons (hash-prospector, 2018).
    """
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))

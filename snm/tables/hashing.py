"""Random bits as a function of numbers, the same in NumPy and JAX and on every platform."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["GOLDEN", "mixed"]

GOLDEN = np.uint32(0x9E3779B9)
"""2^32 over the golden ratio: times it, neighbouring counters become distant numbers."""


def mixed(x: Any) -> Any:
    """A bijection of uint32, of NumPy or JAX, whose output bits each depend on all input bits.

    Two rounds of xor-shift and multiply, as in the finalizers of Wang's hash and MurmurHash3.
    """
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))

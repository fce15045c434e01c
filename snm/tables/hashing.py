"""A hash function of uint32 with equal results in NumPy and JAX, on every platform."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["GOLDEN", "mix_bits"]

GOLDEN = np.uint32(0x9E3779B9)
"""2^32 / golden ratio: multiplied by it, consecutive integers are spread over the range of
uint32."""


def mix_bits(x: Any) -> Any:
    """Hashes uint32, of NumPy or JAX: a bijection whose output bits each depend on all input bits.

    It consists of xor-shifts and multiplications: `lowbias32` of Wellons (hash-prospector, 2018).
    """
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))

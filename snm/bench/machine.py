"""What the machine can do at this moment, measured between the things that are timed.

Rates drift by half within a minute on shared machines. A floor taken once would be a floor of
another machine; so the products' rate is taken right before and right after every call, the
copies' in every round.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from typing import Any

import jax
import jax.numpy as jnp

from snm.system.memory import peak_memory

__all__ = ["Machine", "Rates", "Work"]

_COLUMNS = 4096  # of the product whose rate counts
_COPIED = 1 << 24  # float32 numbers copied: 64 MB, past every cache
_TIMES = {"cpu": (3, 2), "gpu": (20, 20)}  # products and copies a measurement


@dataclasses.dataclass(frozen=True)
class Rates:
    """Operations and bytes a second."""

    flop: float
    bytes: float

    def between(self, other: Rates) -> Rates:
        """The mean of two measurements."""
        return Rates((self.flop + other.flop) / 2, (self.bytes + other.bytes) / 2)


@dataclasses.dataclass(frozen=True)
class Work:
    """What a job cannot avoid, however it is done.

    Attributes:
      flop: operations of its matrix products; a multiply-add counts two.
      bytes: that it must read and write in memory.
    """

    flop: float = 0.0
    bytes: float = 0.0

    def seconds(self, rates: Rates) -> float:
        """The least time for it: products and copies at once."""
        return max(self.flop / rates.flop, self.bytes / rates.bytes)


class Machine:
    """Measures rates of a device.

    Args:
      batch: rows of the left factor, as in the steps to be timed.
      dim: its columns.
      dtype: of the factors.
    """

    def __init__(self, batch: int, dim: int, dtype: Any = jnp.float32):
        device = jax.devices()[0]
        self.platform = "cpu" if device.platform == "cpu" else "gpu"
        self._products, self._copies = _TIMES[self.platform]
        self._left = jax.random.normal(jax.random.key(0), (batch, dim), dtype)
        self._right = jax.random.normal(jax.random.key(1), (dim, _COLUMNS), dtype)
        self._source = jnp.zeros(_COPIED, jnp.float32)
        # Sums are float32, as in the steps; a CPU adds up to bfloat16 six times more slowly.
        product = functools.partial(jnp.matmul, preferred_element_type=jnp.float32)
        self._product = jax.jit(product).lower(self._left, self._right).compile()
        # Donated, so that no fresh pages are mapped: a page fault is no part of a copy.
        copied = jax.jit(lambda old, new: new + 1, donate_argnums=0, keep_unused=True)
        self._target = jnp.zeros(_COPIED, jnp.float32)
        self._copy = copied.lower(self._target, self._source).compile()
        self.rates()

    def rates(self, *, copies: bool = True) -> Rates:
        """Both, now; or that of products alone, with the copies' of before.

        Copies empty every cache, which nothing does between two steps of a training run: they are
        for the start of a round.
        """
        if copies:
            begin = time.perf_counter()
            for _ in range(self._copies):
                self._target = self._copy(self._target, self._source)
            jax.block_until_ready(self._target)
            self._bytes = 2 * 4 * _COPIED * self._copies / (time.perf_counter() - begin)
        begin = time.perf_counter()
        for _ in range(self._products):
            product = self._product(self._left, self._right)
        jax.block_until_ready(product)
        rows, dim = self._left.shape
        flop = 2 * rows * dim * _COLUMNS * self._products / (time.perf_counter() - begin)
        return Rates(flop, self._bytes)

    def peak_memory(self) -> int:
        """Bytes held at the peak: of the device's memory, or of this process on a CPU.

        A device's peak counts from the start of the process and cannot be reset.
        """
        found = (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use")
        return peak_memory() if self.platform == "cpu" or found is None else int(found)

"""Measures the machine's rates of matrix products and memory copies, in between the timed calls.

On shared machines the rates drift by half within a minute, so a floor that is measured once soon
becomes wrong. The rate of products is measured directly before and after every call, that of copies
in every round.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from typing import Any

import jax
import jax.numpy as jnp

from snm.machine.ram import peak_ram

__all__ = ["MachineRates", "Rates", "Work"]

_COLUMNS = 4096  # columns of the measured product
_COPIED = 1 << 24  # float32 numbers copied: 64 MB, more than the caches hold
_TIMES = {"cpu": (3, 2), "gpu": (20, 20)}  # products and copies per measurement


@dataclasses.dataclass(frozen=True)
class Rates:
    """Floating-point operations per second, and bytes per second."""

    flop: float
    bytes: float

    def between(self, other: Rates) -> Rates:
        """The mean of two measurements."""
        return Rates((self.flop + other.flop) / 2, (self.bytes + other.bytes) / 2)


@dataclasses.dataclass(frozen=True)
class Work:
    """The work that any implementation of a job must do.

    Attributes:
      flop: the operations of its matrix products; a multiply-add counts as two.
      bytes: the bytes that it must read from and write to memory.
    """

    flop: float = 0.0
    bytes: float = 0.0

    def seconds(self, rates: Rates) -> float:
        """The minimum time at the given rates, if products and copies overlap."""
        return max(self.flop / rates.flop, self.bytes / rates.bytes)


class MachineRates:
    """Measures the rates of the default device.

    Args:
      batch: rows of the left factor of the product, as in the timed steps.
      dim: columns of the left factor.
      dtype: type of the factors.
    """

    def __init__(self, batch: int, dim: int, dtype: Any = jnp.float32):
        device = jax.devices()[0]
        self.platform = "cpu" if device.platform == "cpu" else "gpu"
        self._products, self._copies = _TIMES[self.platform]
        self._left = jax.random.normal(jax.random.key(0), (batch, dim), dtype)
        self._right = jax.random.normal(jax.random.key(1), (dim, _COLUMNS), dtype)
        self._source = jnp.zeros(_COPIED, jnp.float32)
        # Accumulates in float32, as the steps do; on a CPU, bfloat16 sums are six times slower.
        product = functools.partial(jnp.matmul, preferred_element_type=jnp.float32)
        # Float32 factors keep their 24 bits, as in a step; a GPU's own choice has 11.
        with jax.default_matmul_precision("float32"):
            self._product = jax.jit(product).lower(self._left, self._right).compile()
        # The target is donated, so that the copy does not include page faults of new memory.
        copied = jax.jit(lambda old, new: new + 1, donate_argnums=0, keep_unused=True)
        self._target = jnp.zeros(_COPIED, jnp.float32)
        self._copy = copied.lower(self._target, self._source).compile()
        self.rates()

    def rates(self, *, copies: bool = True) -> Rates:
        """Measures both rates, or only that of products if not `copies`.

        Copies evict the caches, which does not happen between the steps of a training run, so they
        are measured only at the start of a round.
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

    def of_factors(self, dtype: Any) -> MachineRates:
        """The machine with the rate of products of factors of a type."""
        batch, dim = self._left.shape
        return self if self._left.dtype == dtype else MachineRates(batch, dim, dtype)

    @property
    def torch_device(self) -> str:
        """Where PyTorch does the same job."""
        return "cpu" if self.platform == "cpu" else "cuda"

    def peak_memory(self) -> int:
        """The peak bytes of device memory, or of this process on a CPU.

        The peak of a device counts from the start of the process and cannot be reset.
        """
        found = (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use")
        return peak_ram() if self.platform == "cpu" or found is None else int(found)

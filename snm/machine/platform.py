"""The platform that programs are traced for: this process's, or that of an absent accelerator.

Compiling for an accelerator does not need one, so `snm plan --target` compiles on a CPU. Code with
a form per platform chooses it here, when it is traced: `jax.lax.platform_dependent` traces all
forms, and took twice as long for a training step.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

import jax

__all__ = [
    "by_platform",
    "cached_by_platform",
    "compiling_for",
    "device_bytes",
    "device_error",
    "for_platform",
    "on_chip_bytes",
    "platform",
]

_P = ParamSpec("_P")
_T = TypeVar("_T")


class _Device(NamedTuple):
    platform: str
    memory: int
    on_chip: int


_TARGET: ContextVar[_Device | None] = ContextVar("target", default=None)


def platform() -> str:
    """The platform that programs are traced for: `cpu`, `gpu` or `tpu`."""
    target = _TARGET.get()
    return jax.default_backend() if target is None else target.platform


def device_error() -> Exception | None:
    """The error with which JAX fails to start on this machine; None if it starts."""
    try:
        jax.devices()
    except Exception as error:  # a broken driver can raise any error
        return error
    return None


def device_bytes() -> int | None:
    """The memory of a device that programs are traced for; None if unknown."""
    target = _TARGET.get()
    if target is not None:
        return target.memory
    return (jax.local_devices()[0].memory_stats() or {}).get("bytes_limit")


def on_chip_bytes() -> int:
    """The on-chip memory (VMEM of a core) of the TPU that programs are traced for; else 0."""
    target = _TARGET.get()
    if target is not None:
        return target.on_chip
    if platform() != "tpu":
        return 0
    from jax.experimental.pallas.tpu import get_tpu_info

    try:
        return get_tpu_info().vmem_capacity_bytes
    except ValueError:  # a chip that this version of JAX does not know
        return 0


def for_platform(values: Mapping[str, _T]) -> _T:
    """The value for this platform from a table; the entry `cpu` is the default.

    Example:
      >>> with compiling_for("tpu", 16 << 30):
      ...     for_platform({"cpu": 64, "tpu": 160}), for_platform({"cpu": 64})
      (160, 64)
    """
    return values.get(platform(), values["cpu"])


def by_platform(*operands: Any, cpu: Callable[..., _T], default: Callable[..., _T]) -> _T:
    """Calls the CPU form of a function on CPUs, and the default form on accelerators.

    Example:
      >>> with compiling_for("tpu", 16 << 30):
      ...     by_platform([3, 1, 2], cpu=min, default=max)
      3
    """
    return (cpu if platform() == "cpu" else default)(*operands)


@contextlib.contextmanager
def compiling_for(name: str, memory: int, on_chip: int = 0) -> Iterator[None]:
    """A context in which programs are traced for another platform than this process's.

    A function that was traced before keeps its form, so make the function inside, or take it from
    a cache that knows the platform: `cached_by_platform`.

    Args:
      name: `cpu`, `gpu` or `tpu`.
      memory: bytes of a device.
      on_chip: bytes of on-chip memory of a TPU; 0 leaves its use to the compiler.
    """
    token = _TARGET.set(_Device(name, memory, on_chip))
    try:
        yield
    finally:
        _TARGET.reset(token)


class _CachedByPlatform(Generic[_P, _T]):
    """A function with a cache for each platform; see `cached_by_platform`."""

    def __init__(self, function: Callable[_P, _T], maxsize: int):
        @functools.lru_cache(maxsize=maxsize)
        def cached(target: _Device | None, backend: str, /, *args: Any, **kwargs: Any) -> _T:
            return function(*args, **kwargs)

        self._cached: Callable[..., _T] = cached
        self.cache_clear, self.cache_info = cached.cache_clear, cached.cache_info
        functools.update_wrapper(self, function)

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return self._cached(_TARGET.get(), jax.default_backend(), *args, **kwargs)


def cached_by_platform(
    maxsize: int,
) -> Callable[[Callable[_P, _T]], _CachedByPlatform[_P, _T]]:
    """A `functools.lru_cache` of jitted functions, with the platform that they are for in its key.

    The functions must be traced in the context in which they were asked for.

    Args:
      maxsize: functions to keep, over all platforms.

    Example:
      >>> @cached_by_platform(maxsize=8)
      ... def best(count):
      ...     return f"the best {count} on a {platform()}"
      >>> with compiling_for("tpu", 16 << 30):
      ...     best(5)
      'the best 5 on a tpu'
      >>> with compiling_for("gpu", 80 << 30):
      ...     best(5)
      'the best 5 on a gpu'
    """
    return lambda function: _CachedByPlatform(function, maxsize)

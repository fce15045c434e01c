"""Compiler options for XLA: faster compilation on CPUs and GPUs, tables in main memory on TPUs.

A short run spends half of its time compiling. LLVM's level 1 saves a tenth of that, and the
training programs that were measured are as fast (`benchmarks/results/compile-options.json`).
Without MLIR's fusion emitters, programs compile even faster and products are as fast, but a
training step takes longer. That is worth it only for programs that run once.

For each product, XLA:GPU generates dozens of Triton kernels, times them, and compares them with
cuBLAS. On an H200 that took most of the compile time. Without it, the steps that were measured are
as fast, or 4% slower (`benchmarks/results/gpu-forms.json`).

XLA:TPU copies arrays that fit into on-chip memory there and back, even a table of which a step
reads only a few rows. Compiled for v5e, a step with k' 16 at 670 thousand labels, split over four
devices, copied feature rows of 66 MiB three times. With a limit of 32 MiB of on-chip memory for
arrays it copies none, and takes three quarters of the cycles by XLA's estimate
(`benchmarks/results/mends.json`). A program whose tables do not fit anyway gets no such limit.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.errors import JaxRuntimeError

from snm.machine.platform import on_chip_bytes, platform

__all__ = ["OptionsOf", "answer_options", "step_options"]

Options = dict[str, bool | int | float | str]

OptionsOf = Callable[[Sequence[int]], Options | None]
"""A function from the bytes of tables to options, such as `step_options`."""

_LEVEL: Options = {"xla_backend_optimization_level": 1}
_FUSION: Options = {"xla_cpu_use_fusion_emitters": False}
_LIBRARY: Options = {"xla_gpu_enable_triton_gemm": False}
_KERNELS = "xla_tpu_scoped_vmem_limit_kib"
"""The option for the on-chip memory of kernels, in KiB; the rest is for arrays."""
_ARRAYS = 32 << 20
"""Bytes of on-chip memory for arrays, if a larger table would fit into it. So no table is copied
whose copies would take more than a tenth of a millisecond."""


def step_options(tables: Sequence[int] = ()) -> Options | None:
    """`compiler_options` of `jax.jit` for training steps, whose loops over rows take most time.

    Args:
      tables: bytes of each table that a device holds, and of which a call reads few rows.

    Returns:
      The options; None for an accelerator that needs none. Options that the environment variables
      `XLA_FLAGS` and `LIBTPU_INIT_ARGS` set are not changed.
    """
    return _options({"cpu": _LEVEL, "gpu": _LIBRARY}, tables)


def _limit_on_chip_arrays(tables: Sequence[int]) -> Options | None:
    """Limits the on-chip memory for arrays, if a table would be copied there."""
    chip = on_chip_bytes()
    limit = (chip - _ARRAYS) // 1024
    if not any(_ARRAYS < size <= chip for size in tables) or not _is_unset(_KERNELS):
        return None
    return dict(_supported(((_KERNELS, limit),))) or None


def answer_options(tables: Sequence[int] = ()) -> Options | None:
    """As `step_options`, for programs that run once, or whose time goes to matrix products."""
    return _options({"cpu": _LEVEL | _FUSION, "gpu": _LIBRARY}, tables)


def _options(by_platform: dict[str, Options], tables: Sequence[int]) -> Options | None:
    if platform() not in by_platform:
        return _limit_on_chip_arrays(tables)
    unset = ((name, value) for name, value in by_platform[platform()].items() if _is_unset(name))
    return dict(_supported(tuple(unset)))


def _is_unset(name: str) -> bool:
    """Whether the user has not set an option."""
    return not any(
        name in os.environ.get(variable, "") for variable in ("XLA_FLAGS", "LIBTPU_INIT_ARGS")
    )


@functools.cache
def _supported(options: tuple[tuple[str, bool | int | float | str], ...]) -> tuple[Any, ...]:
    """The options that the compiler supports: another version may have removed one."""
    if not options or platform() != jax.default_backend():
        return options  # for another backend, only its own compiler can tell
    try:
        jax.jit(lambda: 0, compiler_options=dict(options)).lower().compile()
    except JaxRuntimeError:
        return tuple(option for option in options if len(options) > 1 and _supported((option,)))
    return options

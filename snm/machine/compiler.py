"""Options for XLA: CPUs' and GPUs' programs compile faster, a TPU leaves tables in main memory.

Half of a short run is compiling. LLVM's level 1 saves a tenth of that, and the programs of a
training that were measured are as fast (`benchmarks/results/compile-options.json`). Without MLIR's
emitters of fused loops too, programs compile in less time again, and products are as fast, but a
training step takes longer: a training of few steps is done sooner so.

XLA:GPU writes kernels of its own for each product (by Triton), compiles dozens of them, times them,
and compares with those of cuBLAS. On an H200 that took most of the compiling, and the steps that
were measured are as fast without, or 4% slower (`benchmarks/results/gpu-forms.json`).

XLA:TPU copies what fits into the chip's memory there and back, and counts a table that a step reads
a few rows of as if it read them all. Compiled for v5e, a step with k' 16 at 670 thousand labels,
split over four devices, copied feature rows of 66 MiB three times; where 32 MiB of the chip's
memory are left for arrays it copies none, and takes three quarters of the cycles by XLA's estimate
(`benchmarks/results/mends.json`). A program whose tables do not fit keeps all of that memory.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.errors import JaxRuntimeError

from snm.machine.platform import on_chip_bytes, platform

__all__ = ["Options", "OptionsOf", "answer_options", "step_options"]

Options = dict[str, bool | int | float | str]

OptionsOf = Callable[[Sequence[int]], Options | None]
"""Of the bytes of tables, such as `step_options`."""

_LEVEL: Options = {"xla_backend_optimization_level": 1}
_FUSION: Options = {"xla_cpu_use_fusion_emitters": False}
_LIBRARY: Options = {"xla_gpu_enable_triton_gemm": False}
_KERNELS = "xla_tpu_scoped_vmem_limit_kib"
"""Kibibytes of the chip's memory that are for kernels; the rest is for arrays."""
_ARRAYS = 32 << 20
"""Bytes of the chip's memory for arrays, where a larger table fits: no table is copied there that
would take more than a tenth of a millisecond, there and back."""


def step_options(tables: Sequence[int] = ()) -> Options | None:
    """`compiler_options` of `jax.jit` for training steps, whose loops over rows take most time.

    Args:
      tables: bytes of each table that a device holds, and of which a call reads few rows.

    Returns:
      The options; None where programs are traced for an accelerator that needs none. What the
      environment variables `XLA_FLAGS` and `LIBTPU_INIT_ARGS` set stays as it is.
    """
    return _options({"cpu": _LEVEL, "gpu": _LIBRARY}, tables)


def _off_the_chip(tables: Sequence[int]) -> Options | None:
    """Leaves less of the chip's memory for arrays, where a table would be copied there."""
    chip = on_chip_bytes()
    limit = (chip - _ARRAYS) // 1024
    if not any(_ARRAYS < size <= chip for size in tables) or not _is_free(_KERNELS):
        return None
    return dict(_known(((_KERNELS, limit),))) or None


def answer_options(tables: Sequence[int] = ()) -> Options | None:
    """As `step_options`, for programs that run once, or whose time goes to matrix products."""
    return _options({"cpu": _LEVEL | _FUSION, "gpu": _LIBRARY}, tables)


def _options(wished: dict[str, Options], tables: Sequence[int]) -> Options | None:
    if platform() not in wished:
        return _off_the_chip(tables)
    free = ((name, value) for name, value in wished[platform()].items() if _is_free(name))
    return dict(_known(tuple(free)))


def _is_free(name: str) -> bool:
    """Whether the user did not set an option."""
    return not any(name in os.environ.get(given, "") for given in ("XLA_FLAGS", "LIBTPU_INIT_ARGS"))


@functools.cache
def _known(options: tuple[tuple[str, bool | int | float | str], ...]) -> tuple[Any, ...]:
    """Those that the compiler knows: another version may have dropped one."""
    if not options or platform() != jax.default_backend():
        return options  # where it is another backend, its compiler is asked later
    try:
        jax.jit(lambda: 0, compiler_options=dict(options)).lower().compile()
    except JaxRuntimeError:
        return tuple(one for one in options if len(options) > 1 and _known((one,)))
    return options

"""Options under which XLA compiles programs for a CPU faster, and which leave them as fast.

Half of a short run is compiling. LLVM's level 1 saves a tenth of that, and the programs of a
training that were measured are as fast (`benchmarks/results/compile-options.json`). Without MLIR's
emitters of fused loops too, programs compile in 0.5 to 0.65 of the time, and products are as fast,
but a training step takes a quarter longer.
"""

from __future__ import annotations

import functools
import os

import jax
from jax.errors import JaxRuntimeError

from snm.system.platform import platform

__all__ = ["Options", "answer_options", "step_options"]

Options = dict[str, bool | int | float | str]

_LEVEL: Options = {"xla_backend_optimization_level": 1}
_FUSION: Options = {"xla_cpu_use_fusion_emitters": False}


def step_options() -> Options | None:
    """`compiler_options` of `jax.jit` for training steps, whose loops over rows take most time.

    Returns:
      The options; None where programs are traced for an accelerator. What the environment variable
      `XLA_FLAGS` sets stays as it is.
    """
    return _usable(_LEVEL)


def answer_options() -> Options | None:
    """As `step_options`, for programs that run once, or whose time goes to matrix products."""
    return _usable(_LEVEL | _FUSION)


def _usable(wished: Options) -> Options | None:
    if platform() != "cpu":
        return None
    return {name: value for name, value in wished.items() if _is_free(name, value)}


@functools.cache
def _is_free(name: str, value: bool | int | float | str) -> bool:
    """Whether the compiler knows an option, and the user did not set it."""
    if name in os.environ.get("XLA_FLAGS", ""):
        return False
    try:
        jax.jit(lambda: 0, compiler_options={name: value}).lower().compile()
    except JaxRuntimeError:  # another version may have dropped it
        return False
    return True

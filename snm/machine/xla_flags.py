"""Flags of XLA:CPU that no compiler option can set: loops as one kernel, and the threads.

XLA:CPU runs each operation of a loop as a kernel of its own, four or more for one table row of two
kilobytes. A loop that it considers small becomes a single kernel on one core, where such loops run
anyway. With the threshold below, a training step took 0.84 to 0.99 of the time on five data sets,
and compiled in 0.93 to 0.99 of it (`benchmarks/results/row-loops.json`).

It starts a thread per core. In a container with a CPU quota for fewer cores, these threads would
use up the quota early and wait, so XLA gets as many threads as the quota allows.

XLA reads both once, when a process first uses it, so `import snm` sets them.
"""

from __future__ import annotations

import os

from snm.machine.cores import num_cores, xla_threads

__all__ = ["set_flags"]

_FLAG = "--xla_backend_extra_options"
_LOOPS = "xla_cpu_small_while_loop_byte_threshold"
_BYTES = 1 << 18
"""More than an iteration of a loop over rows touches, and less than one over a whole batch, which
runs on all cores."""


def set_flags() -> None:
    """Adds the flag to `XLA_FLAGS`, unless the user set it or passed a file of flags.

    Also sets `NPROC` if there is a CPU quota, unless the user set it.

    Has no effect in a process that has used XLA already, nor on accelerators.
    """
    flags = os.environ.get("XLA_FLAGS", "").strip()
    if _FLAG not in flags and flags[:1] in ("", "-"):
        os.environ["XLA_FLAGS"] = f"{flags} {_FLAG}={_LOOPS}={_BYTES}".strip()
    if (cores := num_cores()) < xla_threads():
        os.environ.setdefault("NPROC", str(cores))

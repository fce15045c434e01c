"""What no option of a program can set for XLA:CPU: loops over rows as one kernel, and threads.

XLA:CPU runs each operation of a loop as a kernel of its own, four or more for one table row of two
kilobytes. A loop that it counts as small becomes one kernel as a whole, on one core, where such
loops run anyhow. With the limit below, a training step took 0.84 to 0.99 of the time on five data
sets, and compiled in 0.93 to 0.99 of it (`benchmarks/results/row-loops.json`).

It starts a thread for each core. Where the time of a container's processes is limited to fewer,
they would use it up at once and stand still, so that it gets as many threads as `snm` has.

XLA reads both once, when a process first uses it, so that `import snm` sets them.
"""

from __future__ import annotations

import os

from snm.machine.cores import num_cores, xla_threads

__all__ = ["set_flags"]

_FLAG = "--xla_backend_extra_options"
_LOOPS = "xla_cpu_small_while_loop_byte_threshold"
_BYTES = 1 << 18
"""An iteration of a loop over rows touches fewer bytes; one that works on a whole batch, with all
cores, touches more."""


def set_flags() -> None:
    """Adds the flag to `XLA_FLAGS`, unless the user gave one of its name or a file of flags.

    Sets `NPROC` where there is a limit of time, unless the user did.

    It does nothing in a process that has used XLA already, and nothing on accelerators.
    """
    given = os.environ.get("XLA_FLAGS", "").strip()
    if _FLAG not in given and given[:1] in ("", "-"):
        os.environ["XLA_FLAGS"] = f"{given} {_FLAG}={_LOOPS}={_BYTES}".strip()
    if (cores := num_cores()) < xla_threads():
        os.environ.setdefault("NPROC", str(cores))

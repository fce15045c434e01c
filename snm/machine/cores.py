"""The number of cores of this process, and a thread pool over all of them."""

from __future__ import annotations

import contextlib
import functools
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from snm.machine.groups import control_groups

__all__ = ["num_cores", "on_all_cores", "xla_threads"]

T = TypeVar("T")
R = TypeVar("R")


def num_cores() -> int:
    """The number of cores that this process may use.

    A container may have fewer cores than its machine, by CPU affinity or by a CPU quota. More
    threads than that would use up the quota of a period early, and wait for the rest of it.
    """
    return max(1, math.ceil(min(_affinity(), _quota())))


def xla_threads() -> int:
    """The threads of XLA:CPU, which ignores the quota: `$PJRT_NPROC`, `$NPROC`, or the cores."""
    for name in ("PJRT_NPROC", "NPROC"):
        with contextlib.suppress(ValueError):
            return max(1, int(os.environ.get(name, "")))
    return _affinity()


def _affinity() -> int:
    """The number of cores by CPU affinity."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux only
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


@functools.cache
def _quota() -> float:
    """The CPU quota of the control groups of this process, in cores; infinite without a limit."""
    return min(map(_limit, control_groups("cpu")), default=math.inf)


def _limit(group: Path) -> float:
    """The CPU quota of one control group, version 2 or 1, in cores."""
    with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
        quota, period = (group / "cpu.max").read_text(encoding="ascii").split()
        return math.inf if quota == "max" else int(quota) / int(period)
    with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
        quota_us, period_us = (
            int((group / f"cpu.cfs_{name}_us").read_text(encoding="ascii"))
            for name in ("quota", "period")
        )
        return quota_us / period_us if quota_us > 0 else math.inf
    return math.inf


def on_all_cores(run: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Calls `run` for each item, in threads; returns the results in the order of the items.

    It is faster if `run` spends its time in calls that release the GIL, such as SciPy's sparse
    products and NumPy's sorting.

    Raises:
      Exception: the first failure of a call, in the order of the items.
    """
    if len(items) < 2 or num_cores() < 2:
        return [run(item) for item in items]
    from concurrent.futures import ThreadPoolExecutor  # a quarter of the time of `import snm`

    with ThreadPoolExecutor(num_cores(), "cores") as pool:
        return list(pool.map(run, items))

"""The cores of this process, and work of the host that is done on all of them."""

from __future__ import annotations

import contextlib
import functools
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from snm.machine.groups import control_groups

__all__ = ["num_cores", "on_all_cores", "share_of_core", "xla_threads"]

T = TypeVar("T")
R = TypeVar("R")


def num_cores() -> int:
    """The number of cores that this process may use.

    A container may have fewer than its machine in two ways: it is bound to some, or its processes
    get so much time of all of them. More threads than that would use up the time of a period at
    once, and stand still for the rest of it.
    """
    return max(1, math.ceil(min(_bound(), _quota())))


def xla_threads() -> int:
    """The threads of XLA:CPU, which knows no quota: `$PJRT_NPROC`, `$NPROC`, or the cores."""
    for name in ("PJRT_NPROC", "NPROC"):
        with contextlib.suppress(ValueError):
            return max(1, int(os.environ.get(name, "")))
    return _bound()


def _bound() -> int:
    """The number of cores that this process is bound to."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux only
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


@functools.cache
def _quota() -> float:
    """Cores whose time the control groups of this process get; infinite without a limit."""
    return min(map(_limit, control_groups("cpu")), default=math.inf)


def _limit(group: Path) -> float:
    """The limit of one control group, of the second version or of the first."""
    with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
        quota, period = (group / "cpu.max").read_text(encoding="ascii").split()
        return math.inf if quota == "max" else int(quota) / int(period)
    with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
        share, of = (
            int((group / f"cpu.cfs_{name}_us").read_text(encoding="ascii"))
            for name in ("quota", "period")
        )
        return share / of if share > 0 else math.inf
    return math.inf


def share_of_core(count: int, least: int) -> int:
    """How many of `count` items go to each core; at least `least`, as fewer do not pay a thread."""
    return max(least, -(-count // num_cores()))


def on_all_cores(run: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Calls `run` for each item, in threads; returns the results in the order of the items.

    It pays where `run` spends its time in calls that let other threads go on, as those of SciPy's
    sparse matrices and NumPy's sorting do.

    Raises:
      Exception: the first failure of a call, in the order of the items.
    """
    if len(items) < 2 or num_cores() < 2:
        return [run(item) for item in items]
    from concurrent.futures import ThreadPoolExecutor  # here: it takes a quarter of `import snm`

    with ThreadPoolExecutor(num_cores(), "cores") as pool:
        return list(pool.map(run, items))

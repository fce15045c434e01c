"""The cores of this process, and work of the host that is done on all of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["num_cores", "on_all_cores", "share_of_core"]

T = TypeVar("T")
R = TypeVar("R")


def num_cores() -> int:
    """The number of cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux only
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


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
    with ThreadPoolExecutor(num_cores(), "cores") as pool:
        return list(pool.map(run, items))

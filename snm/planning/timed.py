"""The time of a training step, measured on tables of full size, which must fit this machine."""

from __future__ import annotations

import concurrent.futures
import threading
import time

import jax
import numpy as np

from snm.batches.device_parts import spread_points, spread_stack
from snm.model.model import init_state
from snm.model.placement import initial
from snm.planning.forecast import Programs

__all__ = ["seconds_per_step"]

_TIMED = 3  # dispatches, after one that fills the caches
_MOST_TIMED = 20.0  # seconds


def seconds_per_step(programs: Programs, at_once: int = 1) -> float:
    """Times a training step.

    Batches are made while the device computes, so the slower of the two counts.

    Args:
      programs: of a forecast.
      at_once: members that step side by side, each on tables of its own.

    Returns:
      Seconds from one step of a member to its next.
    """
    start = threading.Barrier(at_once)
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        return max(pool.map(lambda _: _one_member(programs, start), range(at_once)))


def _one_member(programs: Programs, start: threading.Barrier) -> float:
    source, count, mesh = programs.source, programs.count, programs.mesh
    resident = source.resident_arrays()
    if mesh is None:
        state = jax.jit(init_state, static_argnums=0)(programs.model)
    else:
        state = initial(programs.model, mesh)
        resident = spread_points(resident, source.data_parts, mesh)
    loading, stepping = [], []
    last = max(source.steps_per_epoch - count + 1, 1)
    start.wait()
    begun = time.perf_counter()
    for number in range(_TIMED + 1):
        clock = time.perf_counter()
        stack = source.stack(number * count % last, count)
        if mesh is not None:
            stack = spread_stack(stack, source.data_parts, mesh)
        ready = time.perf_counter()
        state, metrics = programs.step(state, resident, stack)
        jax.block_until_ready(metrics)
        loading.append(ready - clock)
        stepping.append(time.perf_counter() - ready)
        if number and time.perf_counter() - begun > _MOST_TIMED:
            break
    return max(float(np.median(loading[1:])), float(np.median(stepping[1:]))) / count

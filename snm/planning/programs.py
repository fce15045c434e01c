"""The compiled steps of a forecast, and how long they take."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import time
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from snm.batches.device_parts import spread_points, spread_stack
from snm.model.model import Model
from snm.model.placement import init_state_on
from snm.trainer.steps.programs import Stage

__all__ = ["Programs", "StageProgram", "seconds_per_step"]

_TIMED_DISPATCHES = 3  # after one that fills the caches
_MAX_SECONDS = 20.0


@dataclasses.dataclass(frozen=True, eq=False)
class StageProgram:
    """The compiled step of a stage of the run.

    Attributes:
      stage: the stage.
      step: the compiled program of a dispatch.
    """

    stage: Stage
    step: Any


@dataclasses.dataclass(frozen=True, eq=False)
class Programs:
    """The compiled steps of a forecast; `seconds_per_step` times them."""

    stages: list[StageProgram]
    count: int
    compile_seconds: float
    mesh: Mesh | None = None

    @property
    def model(self) -> Model:
        """The model, with the head of the first stage."""
        return self.stages[0].stage.model


def seconds_per_step(programs: Programs, at_once: int = 1) -> float:
    """Times the training steps on tables of full size, which must fit this machine.

    Batches are made while the device computes, so the slower of the two counts. Each stage counts
    by its share of the run.

    Args:
      programs: the programs of a forecast.
      at_once: members that train in parallel, each with its own tables.

    Returns:
      Seconds from one step of a member to its next.
    """
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:

        def slowest(program: StageProgram) -> float:
            # All are set up before any of them steps, so that they step in parallel.
            starts = list(pool.map(lambda _: _start(programs, program.stage), range(at_once)))
            return max(pool.map(lambda start: _seconds_of_stage(programs, program, start), starts))

        return sum(program.stage.share * slowest(program) for program in programs.stages)


def _start(programs: Programs, stage: Stage) -> tuple[Any, Any]:
    """The initial state of a member, and the points that the device keeps."""
    state = init_state_on(stage.model, programs.mesh)
    return state, spread_points(stage.source.resident_arrays(), programs.mesh)


def _seconds_of_stage(programs: Programs, program: StageProgram, start: tuple[Any, Any]) -> float:
    """Times a member; the state of `start` is donated."""
    source, count, mesh = program.stage.source, programs.count, programs.mesh
    state, resident = start
    loading, stepping = [], []
    begun = time.perf_counter()
    last = max(source.steps_per_epoch - count + 1, 1)
    for number in range(_TIMED_DISPATCHES + 1):
        clock = time.perf_counter()
        stack = spread_stack(source.stack(number * count % last, count), mesh)
        ready = time.perf_counter()
        state, metrics = program.step(state, resident, stack)
        jax.block_until_ready(metrics)
        loading.append(ready - clock)
        stepping.append(time.perf_counter() - ready)
        if number and time.perf_counter() - begun > _MAX_SECONDS:
            break
    return max(float(np.median(loading[1:])), float(np.median(stepping[1:]))) / count

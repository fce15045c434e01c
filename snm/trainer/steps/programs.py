"""The jitted steps of a training: each is compiled once, the first one in a thread."""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import threading
from typing import Any, NamedTuple

import jax
from jax.sharding import Mesh, PartitionSpec

from snm.batches.batch import Batch
from snm.batches.device_parts import points_specs, stack_specs
from snm.batches.sources.assembly import Assembly
from snm.batches.sources.on_device import DeviceSource
from snm.batches.sources.source import Source
from snm.distributed.mesh import on_mesh, training_axes
from snm.machine.compiler import OptionsOf, step_options
from snm.machine.platform import cached_by_platform
from snm.model.model import Model, TrainState, abstract_state
from snm.model.placement import state_specs, table_bytes
from snm.model.train_step import Step, train_step, train_steps
from snm.system.timing import COMPILING, part

__all__ = ["Stage", "StepPrograms", "jitted_assembly", "jitted_steps"]

_COMPILE_LOCK = threading.Lock()
"""Held while a step compiles. Members that train side by side share their programs, and JAX would
compile a program twice if two threads asked for it at the same time."""


class Stage(NamedTuple):
    """Steps of a run that share B and k', up to the first step of the next stage.

    Attributes:
      first_step: counted from 0 over the whole run.
      share: of the steps of the run.
      model: with the head of the stage.
      source: the batches for that head.
    """

    first_step: int
    share: float
    model: Model
    source: Source


@dataclasses.dataclass(eq=False)
class StepPrograms:
    """The programs of a phase of training: one for each stage and each size of batches.

    Attributes:
      stages: of the run, in order, at least one.
      mesh: the devices that hold the state, or None for one.
      options: of the compiler.
    """

    stages: list[Stage]
    mesh: Mesh | None = None
    options: OptionsOf = step_options
    _programs: dict[tuple[tuple[int, int], int], jax.stages.Wrapped] = dataclasses.field(
        default_factory=dict, init=False
    )
    _compiled: set[tuple[jax.stages.Wrapped, tuple[int, int], int]] = dataclasses.field(
        default_factory=set, init=False
    )

    def stage_at(self, step: int) -> Stage:
        """The stage that a step belongs to."""
        return self.stages[self._stage_index(step)]

    def begin(self, count: int) -> None:
        """Starts to compile the first program in a thread; on one device only.

        Args:
          count: steps of a dispatch.
        """
        if self.mesh is not None:
            return
        stage, program = self.stages[0], self._program(0)

        def compile_program() -> None:
            # An error here is raised again when the step is taken.
            with contextlib.suppress(Exception), _COMPILE_LOCK:
                stack, resident = stage.source.stack(0, count), stage.source.resident_shapes()
                # The result is not needed: the first call finds it in JAX's cache.
                program.lower(abstract_state(stage.model), resident, stack).compile()

        threading.Thread(target=compile_program, name="compiling").start()

    def for_dispatch(
        self, first: int, state: TrainState, resident: Any, stack: Any
    ) -> jax.stages.Wrapped:
        """The program of the dispatch whose first step is `first`, compiled for its arguments."""
        program, count = self._program(first), len(stack.step)
        key = program, self.stage_at(first).source.shape(first), count
        if key not in self._compiled:
            with part(COMPILING, "jit(steps)"), _COMPILE_LOCK:
                # As in `begin`: only JAX's cache keeps the result, and the call finds it there.
                program.lower(state, resident, stack).compile()
            self._compiled.add(key)
        return program

    def _stage_index(self, step: int) -> int:
        """The index of the stage that a step belongs to."""
        return bisect.bisect_right(self.stages, step, key=lambda stage: stage.first_step) - 1

    def _program(self, step: int) -> jax.stages.Wrapped:
        index = self._stage_index(step)
        stage = self.stages[index]
        shape = stage.source.shape(step)
        if (shape, index) not in self._programs:
            self._programs[shape, index] = jitted_steps(
                stage.model, stage.source, shape, self.mesh, options=self.options
            )
        return self._programs[shape, index]


def jitted_steps(
    model: Model,
    source: Source,
    shape: tuple[int, int],
    mesh: Mesh | None = None,
    step: Step = train_step,
    options: OptionsOf = step_options,
) -> jax.stages.Wrapped:
    """`jax.jit` of several steps, with the state donated.

    It compiles at its first call, or by `.lower(...).compile()`.

    Args:
      model: the model, with the head of the stage.
      source: the batches of that head.
      shape: `source.shape` of the steps.
      mesh: the devices that hold the state, or None for one.
      step: the step function, called for each batch.
      options: of the compiler.

    Returns:
      A function of a state, `source.resident_arrays()` and `source.stack(...)`. It returns the new
      state, whose arrays take the place of the old ones, and the metrics of each step.
    """
    if not isinstance(source, DeviceSource):
        shape = (0, 0)  # unused: batches from the host have a shape
    return jitted_assembly(model, source.assembly, shape, mesh, step, options)


@cached_by_platform(maxsize=16)
def jitted_assembly(
    model: Model,
    assembly: Assembly,
    shape: tuple[int, int],
    mesh: Mesh | None,
    step: Step,
    options: OptionsOf,
) -> jax.stages.Wrapped:
    """`jitted_steps` of the static part of a source, cached: members and repeated fits share it."""
    axes = training_axes(mesh)

    def steps(state: TrainState, resident: Any, stack: Any) -> Any:
        def materialize(item: Any) -> Batch:
            return assembly(resident, item, shape)

        return train_steps(model, state, stack, materialize, step=step, axes=axes)

    def on_all(state: TrainState, resident: Any, stack: Any) -> Any:
        assert mesh is not None
        specs = state_specs(state, mesh)
        inputs = specs, points_specs(resident, mesh), stack_specs(stack, mesh)
        outputs = specs, PartitionSpec()
        return on_mesh(mesh, steps, inputs, outputs)(state, resident, stack)

    program = steps if mesh is None else on_all
    return jax.jit(program, donate_argnums=0, compiler_options=options(table_bytes(model, mesh)))

"""The compiled steps of a training: each compiled once, the first one beside other work."""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import functools
import threading
from collections.abc import Sequence
from typing import Any

import jax
from jax.sharding import Mesh, PartitionSpec

from snm.batches.device_parts import points_specs, stack_specs
from snm.batches.sources.source import Source
from snm.distributed.mesh import axes_of, on_mesh
from snm.head.spec import HeadSpec
from snm.machine.compiler import OptionsOf, step_options
from snm.model.model import Model, TrainState, abstract_state
from snm.model.placement import state_specs, table_bytes
from snm.model.train_step import Step, train_step, train_steps
from snm.system.timing import waiting_for

__all__ = ["StepPrograms", "compiled_steps"]

_ALONE = threading.Lock()
"""Held while a step is compiled. Members that train side by side share their programs, and jax
compiles what two threads ask for at the same time twice."""


class StepPrograms:
    """The programs of a phase of training: one for each stage and each size of batches.

    Args:
      model: the model.
      source: the batches.
      heads: pairs of a first step and the head from there on, ascending; none keeps `model.spec`.
      mesh: the devices that hold the state, or None for one.
      options: of the compiler.

    Attributes:
      model: as given.
      source: as given.
      mesh: as given.
      cuts: the first step of each stage.
    """

    def __init__(
        self,
        model: Model,
        source: Source,
        heads: Sequence[tuple[int, HeadSpec]] = (),
        mesh: Mesh | None = None,
        options: OptionsOf = step_options,
    ):
        self.model, self.source, self.mesh, self._options = model, source, mesh, options
        self.cuts = [step for step, _ in heads]
        self._stages = [
            (dataclasses.replace(model, spec=head), source.with_spec(head))
            for _, head in heads or [(0, model.spec)]
        ]
        self._programs: dict[Any, Any] = {}
        self._compiled: set[tuple[Any, int]] = set()

    def stage_at(self, step: int) -> tuple[Model, Source]:
        """The model and the batches of a step."""
        return self._stages[self._stage(step)]

    def begin(self, count: int) -> None:
        """Starts to compile the program of the first steps, in a thread; on one device only.

        Args:
          count: steps of a dispatch.
        """
        if self.mesh is not None:
            return
        model, source = self.stage_at(0)
        program = self._program(0)

        def compile_it() -> None:
            # What fails here fails again, and is told, when the step is taken.
            with contextlib.suppress(Exception), _ALONE:
                stack, resident = source.stack(0, count), source.resident_shapes()
                program.lower(abstract_state(model), resident, stack).compile()

        threading.Thread(target=compile_it, name="compiling").start()

    def of_steps(self, first: int, state: TrainState, resident: Any, stack: Any) -> Any:
        """The program of a stack of steps from `first` on, compiled for its arguments."""
        program, count = self._program(first), len(stack.step)
        if (program, count) not in self._compiled:
            with waiting_for("jit(steps)"), _ALONE:
                program.lower(state, resident, stack).compile()
            self._compiled.add((program, count))
        return program

    def _stage(self, step: int) -> int:
        return max(bisect.bisect_right(self.cuts, step) - 1, 0)

    def _program(self, step: int) -> Any:
        stage = self._stage(step)
        model, source = self._stages[stage]
        shape = source.shape_of_step(step)
        if (shape, stage) not in self._programs:
            self._programs[shape, stage] = compiled_steps(
                model, source, shape, self.mesh, options=self._options
            )
        return self._programs[shape, stage]


def compiled_steps(
    model: Model,
    source: Source,
    shape: tuple[int, int],
    mesh: Mesh | None = None,
    step: Step = train_step,
    options: OptionsOf = step_options,
) -> Any:
    """A compiled program of several steps that updates the parameters in place."""
    if not source.resident and mesh is None:
        return _compiled_stream(model, step, options)
    chosen = options(table_bytes(model, mesh))
    axes = axes_of(mesh)

    def steps(state: TrainState, resident: Any, stack: Any) -> Any:
        materialize = functools.partial(source.materialize, resident, shape=shape)
        return train_steps(model, state, stack, materialize, step=step, axes=axes)

    if mesh is not None:
        here = mesh

        def on_all(state: TrainState, resident: Any, stack: Any) -> Any:
            specs = state_specs(state, here)
            of_points = points_specs(resident, source.data_parts)
            of_stack = stack_specs(stack, source.data_parts)
            inputs, outputs = (specs, of_points, of_stack), (specs, PartitionSpec())
            return on_mesh(here, steps, inputs, outputs)(state, resident, stack)

        return jax.jit(on_all, donate_argnums=0, compiler_options=chosen)

    return jax.jit(steps, donate_argnums=0, compiler_options=chosen)


@functools.lru_cache(maxsize=8)
def _compiled_stream(model: Model, step: Step, options: OptionsOf) -> Any:
    """The program for streamed batches; members and repeated fits share it."""

    def steps(state: TrainState, resident: Any, stack: Any) -> Any:
        return train_steps(model, state, stack, lambda batch: batch, step=step)

    chosen = options(table_bytes(model))
    return jax.jit(steps, donate_argnums=0, compiler_options=chosen)

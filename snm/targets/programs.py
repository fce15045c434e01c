"""The programs of a run, compiled for devices that are not here: shapes alone, no table is made."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding

from snm.batches.csr_blocks import block_of
from snm.batches.device_parts import points_specs, stack_specs
from snm.batches.sources.source import Source
from snm.config.resolved import ResolvedConfig
from snm.data.dataset import Dataset
from snm.data.weighting import Weighting
from snm.distributed.mesh import DATA, LABEL, parse_mesh
from snm.head.by_blocks import mean_blocks
from snm.machine.compiler import step_options
from snm.machine.platform import compiling_for
from snm.model.inference import join_members
from snm.model.model import Model, abstract_state
from snm.model.placement import sharded_shapes
from snm.model.train_step import train_step
from snm.prediction.predictor import ROWS
from snm.prediction.programs import jitted_queries, jitted_top
from snm.tables.table import SparseRows
from snm.targets.account import Account, account
from snm.targets.devices import compiled_for_target, devices_of
from snm.targets.faults import faults
from snm.targets.module import Module
from snm.targets.table import Target
from snm.trainer.phase import first_phase
from snm.trainer.prepare import label_name_points, prepare
from snm.trainer.programs import jitted_assembly

__all__ = ["Program", "compile_run", "compile_scoring", "compile_training", "compiled"]

_ANSWERS = 5  # labels of a point that an evaluation finds


@dataclasses.dataclass(frozen=True)
class Program:
    """A compiled program of a run; sizes are those of each device.

    Attributes:
      name: what it does.
      steps: training steps of one call, or 1.
      arguments: bytes of parameters, data and batches.
      aliased: bytes of them that the results take over.
      results: bytes.
      temporaries: bytes.
      account: what a call moves, computes and exchanges.
      faults: what it should not have; see `snm.targets.faults`.
      seconds: of compiling.
      share: of the run's training steps, those that it takes.
    """

    name: str
    steps: int
    arguments: int
    aliased: int
    results: int
    temporaries: int
    account: Account
    faults: list[str]
    seconds: float
    share: float = 1.0

    @property
    def peak(self) -> int:
        """Bytes that a device must have."""
        return self.arguments + self.results - self.aliased + self.temporaries


def compile_run(
    dataset: Dataset, config: ResolvedConfig, target: Target
) -> tuple[list[Program], int]:
    """Compiles the training step at each k', the evaluation and, on a mesh, the prediction.

    Args:
      dataset: loaded.
      config: the settings, whose mesh says how many devices; the CPU simulates as many.
      target: what to compile for.

    Returns:
      The programs, and the steps of an epoch.

    Raises:
      InputError: a mesh, data or settings that training would refuse; a missing compiler.
    """
    data, label = parse_mesh(config.mesh)
    devices = devices_of(target, data * label)
    with compiling_for(target.backend, target.memory, target.on_chip):
        phase = first_phase(config, dataset)
        weighting = Weighting.fit(config.weighting, dataset.train.features)
        prepared = prepare(
            config, dataset.train, weighting, phase.rows, label_name_points(config, dataset)
        )
    source, count = prepared.source, prepared.steps_per_dispatch
    found = []
    for stage, share in prepared.stage_shares:
        model = dataclasses.replace(prepared.model, spec=stage.spec)
        name = f"training, k' {stage.spec.mined}"
        batches = source.with_spec(stage.spec)
        made = compile_training(name, model, batches, target, devices, (data, label), count)
        found.append(dataclasses.replace(made, share=share))
    entries = block_of(source.features, np.arange(min(ROWS, source.features.shape[0]))).ids.shape[0]
    scored = prepared.model, config.members, entries, target
    found.append(compile_scoring("evaluation", *scored, devices, (data, label)))
    if len(devices) > 1:
        found.append(compile_scoring("prediction, one device", *scored, devices[:1], (1, 1)))
    return found, source.steps_per_epoch


def compile_training(
    name: str,
    model: Model,
    source: Source,
    target: Target,
    devices: list[Any],
    sizes: tuple[int, int],
    steps: int,
    longest_sort: int | None = None,
) -> Program:
    """Compiles a dispatch of training steps.

    Args:
      name: of the program.
      model: the model.
      source: the batches.
      target: the devices' kind.
      devices: of `devices_of`.
      sizes: of the mesh, `data` and `label`; 1 and 1 for one device.
      steps: of a dispatch.
      longest_sort: scores of a point that one sort may order; by default a quarter of the sample.
    """
    longest = model.spec.sampled // 4 if longest_sort is None else longest_sort
    steps = min(steps, source.steps_per_epoch)
    mesh, placed = _placement(devices, sizes)
    with compiling_for(target.backend, target.memory, target.on_chip):
        stack, resident = source.stack(0, steps), source.resident_shapes()
        state = abstract_state(model)
        tables = _tables(state, sizes)
        if mesh is None:
            shapes = placed(state), placed(resident), placed(stack)
        else:
            parts = source.data_parts
            shapes = (
                sharded_shapes(state, mesh),
                placed(resident, points_specs(resident, parts)),
                placed(stack, stack_specs(stack, parts)),
            )
        program = _fresh_steps(model, source, mesh)
        turns = mean_blocks(model.spec.num_slots, sizes[1]) if sizes[1] > 1 else 1
        return compiled(name, steps, program, shapes, tables, longest, turns)


def _fresh_steps(model: Model, source: Source, mesh: Mesh | None) -> jax.stages.Wrapped:
    """`jitted_steps`, never one that was traced for another platform."""
    fresh = jitted_assembly.__wrapped__
    return fresh(model, source.assembly, source.shape(0), mesh, train_step, step_options)


def compile_scoring(
    name: str,
    model: Model,
    members: int,
    entries: int,
    target: Target,
    devices: list[Any],
    sizes: tuple[int, int],
) -> Program:
    """Compiles the search for the best labels of a block of points.

    On one device another program makes the queries before, and both count.

    Args:
      name: of the program.
      model: of one member.
      members: whose scores are added.
      entries: features of a block.
      target: the devices' kind.
      devices: of `devices_of`.
      sizes: of the mesh.
    """
    mesh, placed = _placement(devices, sizes)
    parts = sizes[0]
    rows = -(-ROWS // parts)
    cut = (parts,) if parts > 1 else ()
    block = _block_of_shapes(cut, rows, entries)
    with compiling_for(target.backend, target.memory, target.on_chip):
        one = abstract_state(model)
        together = jax.eval_shape(lambda state: join_members([state] * members), one)
        tables = _tables(together, sizes)
        count = min(_ANSWERS, model.spec.num_labels)
        joined = dataclasses.replace(model, members=members)
        best = jitted_top.__wrapped__(joined, count, mesh)
        if mesh is not None:
            spec = PartitionSpec(DATA) if parts > 1 else PartitionSpec()
            specs = jax.tree.map(lambda _: spec, block)
            shapes = sharded_shapes(together, mesh), placed(block, specs)
            return compiled(name, 1, best, shapes, tables, 1 << 14)
        inputs = placed(together), placed(block)
        embed = jitted_queries.__wrapped__(joined, None)
        queries = placed(jax.eval_shape(embed, *inputs))
        first = compiled(name, 1, embed, inputs, tables, 1 << 14)
        return _after(first, compiled(name, 1, best, (*inputs, queries), tables, 1 << 14))


def _after(first: Program, then: Program) -> Program:
    """Two programs, one after the other; the second takes the results of the first.

    What either reads is there all the time.
    """
    both = Account()
    both.add(first.account)
    both.add(then.account)
    return dataclasses.replace(
        then,
        arguments=first.arguments + then.arguments,
        temporaries=max(first.temporaries, then.temporaries),
        account=both,
        faults=first.faults + then.faults,
        seconds=first.seconds + then.seconds,
    )


def _block_of_shapes(cut: tuple[int, ...], rows: int, entries: int) -> Any:
    """The shapes of a block of points."""
    shapes: list[Any] = [
        jax.ShapeDtypeStruct((*cut, entries), np.int32),
        jax.ShapeDtypeStruct((*cut, entries), np.float32),
        jax.ShapeDtypeStruct((*cut, rows + 1), np.int32),
    ]
    return SparseRows(*shapes)


def _placement(
    devices: list[Any], sizes: tuple[int, int]
) -> tuple[Mesh | None, Callable[..., Any]]:
    """The mesh, or None for one device, and a function that gives shapes their place."""
    mesh = None if sizes == (1, 1) else Mesh(np.asarray(devices).reshape(sizes), (DATA, LABEL))

    def placed(tree: Any, specs: Any = None) -> Any:
        def one(x: Any, spec: PartitionSpec | None = None) -> jax.ShapeDtypeStruct:
            place: Sharding = SingleDeviceSharding(devices[0])
            if mesh is not None and spec is not None:
                place = NamedSharding(mesh, spec)
            return jax.ShapeDtypeStruct(np.shape(x), x.dtype, sharding=place)

        return jax.tree.map(one, tree) if specs is None else jax.tree.map(one, tree, specs)

    return mesh, placed


def _tables(state: Any, sizes: tuple[int, int]) -> list[tuple[int, ...]]:
    """The shapes of the tables on each device."""
    parts = {"class": sizes[1], "feature": max(sizes)}
    rows = {"class": state.head.table.rows, "feature": state.features.rows}
    return [(-(-rows[name].shape[0] // parts[name]), rows[name].shape[1]) for name in rows]


def compiled(
    name: str,
    steps: int,
    program: Any,
    shapes: tuple[Any, ...],
    tables: list[tuple[int, ...]],
    longest_sort: int,
    turns: int = 1,
) -> Program:
    """Compiles a jitted program for the devices of its arguments, and counts what it does.

    Args:
      name: of the program.
      steps: training steps of one call, or 1.
      program: jitted, not traced before for another platform.
      shapes: of its arguments, with their places.
      tables: shapes of the tables that it must not make anew.
      longest_sort: the most scores of a point that one sort may order.
      turns: how often a loop runs whose text does not tell.
    """
    begun = time.perf_counter()
    built = compiled_for_target(program.lower(*shapes))
    seconds = time.perf_counter() - begun
    memory = built.memory_analysis()
    module = Module(built.as_text())
    return Program(
        name=name,
        steps=steps,
        arguments=int(memory.argument_size_in_bytes),
        aliased=int(memory.alias_size_in_bytes),
        results=int(memory.output_size_in_bytes),
        temporaries=int(memory.temp_size_in_bytes),
        account=account(module, turns),
        faults=faults(module, tables, longest_sort),
        seconds=seconds,
    )

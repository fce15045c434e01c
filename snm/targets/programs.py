"""Compiles the programs of a run for absent devices, from shapes alone, without any tables."""

from __future__ import annotations

import dataclasses
import functools
import time
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, Sharding, SingleDeviceSharding

from snm.batches.csr_blocks import make_block
from snm.batches.device_parts import points_specs, stack_specs
from snm.batches.sources.source import Source
from snm.config.resolved import ResolvedConfig
from snm.data.dataset import Dataset
from snm.distributed.mesh import DATA, LABEL, parse_mesh
from snm.head.by_blocks import mean_blocks
from snm.machine.platform import compiling_for
from snm.model.inference import join_members
from snm.model.model import Model, abstract_state
from snm.model.placement import sharded_shapes
from snm.prediction.point_blocks import ROWS
from snm.prediction.programs import jitted_queries, jitted_top
from snm.tables.table import SparseRows
from snm.targets.account import Account, account
from snm.targets.devices import compile_for_target, make_devices
from snm.targets.faults import faults
from snm.targets.module import Module
from snm.targets.table import Target
from snm.trainer.phase import prepare_first_phase
from snm.trainer.steps.programs import jitted_steps

__all__ = ["Program", "compile_and_analyse", "compile_run", "compile_scoring", "compile_training"]

_EVALUATION_K = 5  # labels per point that an evaluation finds
_LARGE_TABLE = 1 << 23  # bytes; a copy of less takes microseconds, or prefetches to the chip
_LONGEST_SORT = 1 << 14  # scores of a point that a search for the best labels may sort at once


@dataclasses.dataclass(frozen=True)
class Program:
    """A compiled program of a run; sizes are those of each device.

    Attributes:
      name: the name of the program.
      steps: training steps per call, or 1.
      arguments: bytes of parameters, data and batches.
      aliased: bytes of arguments that are donated to results.
      results: bytes of the results.
      temporaries: bytes of temporary memory.
      account: memory traffic, operations and collectives of a call.
      faults: problems of the program; see `snm.targets.faults`.
      seconds: compile time.
      share: the program's share of the training steps of the run.
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
        """The peak memory of a device in bytes."""
        return self.arguments + self.results - self.aliased + self.temporaries


def compile_run(
    dataset: Dataset, config: ResolvedConfig, target: Target
) -> tuple[list[Program], int]:
    """Compiles the training step at each k', the evaluation and, on a mesh, the prediction.

    Args:
      dataset: the data set.
      config: the settings, with the mesh; the CPU simulates its devices.
      target: the accelerator to compile for.

    Returns:
      The programs, and the steps of an epoch.

    Raises:
      InputError: a mesh, data or settings that training would reject; a missing compiler.
    """
    data, label = parse_mesh(config.mesh)
    devices = make_devices(target, data * label)
    with compiling_for(target.backend, target.memory, target.on_chip):
        _, prepared = prepare_first_phase(config, dataset)
    source, count = prepared.source, prepared.steps_per_dispatch
    programs = []
    for stage in prepared.stages:
        model, spec = stage.model, stage.model.spec
        longest = spec.sampled // 4  # of many mined labels, folds are sorted
        program = compile_training(
            f"training, k' {spec.mined}",
            model, stage.source, target, devices, (data, label), count, longest,
        )  # fmt: skip
        programs.append(dataclasses.replace(program, share=stage.share))
    rows = np.arange(min(ROWS, source.features.shape[0]))
    entries = len(make_block(source.features, rows).ids)
    scoring = prepared.model, config.members, entries, target
    programs.append(compile_scoring("evaluation", *scoring, devices, (data, label)))
    if len(devices) > 1:
        programs.append(compile_scoring("prediction, one device", *scoring, devices[:1], (1, 1)))
    return programs, source.steps_per_epoch


def compile_training(
    name: str,
    model: Model,
    source: Source,
    target: Target,
    devices: list[Any],
    sizes: tuple[int, int],
    steps: int,
    longest_sort: int,
) -> Program:
    """Compiles a dispatch of training steps.

    Args:
      name: the name of the program.
      model: the model.
      source: the batches.
      target: the kind of the devices.
      devices: from `make_devices`.
      sizes: the sizes of `data` and `label` of the mesh; 1 and 1 for one device.
      steps: the steps of a dispatch.
      longest_sort: scores of a point that one sort may order.
    """
    steps = min(steps, source.steps_per_epoch)
    mesh = _make_mesh(devices, sizes)
    with compiling_for(target.backend, target.memory, target.on_chip):
        stack, resident = source.stack(0, steps), source.resident_shapes()
        state = abstract_state(model)
        tables = _tables(state, sizes)
        if mesh is None:
            shapes = _on_device((state, resident, stack), devices[0])
        else:
            shapes = (
                sharded_shapes(state, mesh),
                _on_mesh(resident, points_specs(resident, mesh), mesh),
                _on_mesh(stack, stack_specs(stack, mesh), mesh),
            )
        program = jitted_steps(model, source, source.shape(0), mesh)
        default_trips = mean_blocks(model.spec.num_slots, sizes[1]) if sizes[1] > 1 else 1
        return compile_and_analyse(
            name, steps, program, shapes, tables, longest_sort, default_trips
        )


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

    On one device a separate program computes the queries; both are counted.

    Args:
      name: the name of the program.
      model: the model of one member.
      members: the number of members, whose scores are added.
      entries: the features of a block of points.
      target: the kind of the devices.
      devices: from `make_devices`.
      sizes: the sizes of the mesh.
    """
    mesh, parts = _make_mesh(devices, sizes), sizes[0]
    rows = -(-ROWS // parts)
    batch_dims = (parts,) if parts > 1 else ()
    block = _block_shapes(batch_dims, rows, entries)
    with compiling_for(target.backend, target.memory, target.on_chip):
        member = abstract_state(model)
        joined_state = jax.eval_shape(lambda state: join_members([state] * members), member)
        tables = _tables(joined_state, sizes)
        count = min(_EVALUATION_K, model.spec.num_labels)
        joined = dataclasses.replace(model, members=members)
        best = jitted_top(joined, count, mesh)
        if mesh is not None:
            placed_block = _on_mesh(block, points_specs(block, mesh), mesh)
            shapes = sharded_shapes(joined_state, mesh), placed_block
            return compile_and_analyse(name, 1, best, shapes, tables, _LONGEST_SORT)
        inputs = _on_device((joined_state, block), devices[0])
        embed = jitted_queries(joined, None)
        queries = _on_device(jax.eval_shape(embed, *inputs), devices[0])
        first = compile_and_analyse(name, 1, embed, inputs, tables, _LONGEST_SORT)
        return _in_sequence(
            first, compile_and_analyse(name, 1, best, (*inputs, queries), tables, _LONGEST_SORT)
        )


def _in_sequence(first: Program, then: Program) -> Program:
    """Two programs in sequence; the second one takes the results of the first.

    The arguments of both stay in memory all the time.
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


def _block_shapes(batch_dims: tuple[int, ...], rows: int, entries: int) -> Any:
    """The shapes of a block of points."""
    shapes: list[Any] = [
        jax.ShapeDtypeStruct((*batch_dims, entries), np.int32),
        jax.ShapeDtypeStruct((*batch_dims, entries), np.float32),
        jax.ShapeDtypeStruct((*batch_dims, rows + 1), np.int32),
    ]
    return SparseRows(*shapes)


def _make_mesh(devices: list[Any], sizes: tuple[int, int]) -> Mesh | None:
    """The mesh; None for one device."""
    return None if sizes == (1, 1) else Mesh(np.asarray(devices).reshape(sizes), (DATA, LABEL))


def _on_device(tree: Any, device: Any) -> Any:
    """The shapes of arrays on one device."""
    return jax.tree.map(functools.partial(_shape, sharding=SingleDeviceSharding(device)), tree)


def _on_mesh(tree: Any, specs: Any, mesh: Mesh) -> Any:
    """The shapes of arrays on a mesh; `specs` has their partitions."""
    return jax.tree.map(lambda x, spec: _shape(x, NamedSharding(mesh, spec)), tree, specs)


def _shape(x: Any, sharding: Sharding) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(np.shape(x), x.dtype, sharding=sharding)


def _tables(state: Any, sizes: tuple[int, int]) -> list[tuple[int, ...]]:
    """The shapes of the tables on each device, without small ones."""
    tables = (state.head.table.rows, sizes[1]), (state.features.rows, max(sizes))
    return [
        (-(-rows.shape[0] // parts), rows.shape[1])
        for rows, parts in tables
        if rows.size * rows.dtype.itemsize // parts >= _LARGE_TABLE
    ]


def compile_and_analyse(
    name: str,
    steps: int,
    program: Any,
    shapes: tuple[Any, ...],
    tables: list[tuple[int, ...]],
    longest_sort: int,
    default_trips: int = 1,
) -> Program:
    """Compiles a jitted program for the devices of its arguments, and analyses it.

    Args:
      name: the name of the program.
      steps: training steps of one call, or 1.
      program: a jitted function that was not traced for another platform.
      shapes: the shapes and shardings of its arguments.
      tables: the shapes of the tables that it must not copy.
      longest_sort: the most scores of a point that one sort may order.
      default_trips: the trip count of loops whose text does not have it.
    """
    begun = time.perf_counter()
    executable = compile_for_target(program.lower(*shapes))
    seconds = time.perf_counter() - begun
    memory = executable.memory_analysis()
    module = Module(executable.as_text())
    return Program(
        name=name,
        steps=steps,
        arguments=int(memory.argument_size_in_bytes),
        aliased=int(memory.alias_size_in_bytes),
        results=int(memory.output_size_in_bytes),
        temporaries=int(memory.temp_size_in_bytes),
        account=account(module, default_trips),
        faults=faults(module, tables, longest_sort),
        seconds=seconds,
    )

"""The memory that a run will need: bytes by part and stage.

Nothing of the run's size is allocated for the bytes. The programs are compiled for shapes alone,
and the compiler reports the temporary memory of each. The bytes of Python, the libraries and the
data are those of this process; those of compiled programs and their threads were measured once.

A run has four stages, and its peak is that of the largest:

    start       the tables are drawn
    training    tables, optimiser state, activations, batches made ahead, a checkpoint's copy
    loading     checkpoints are read, first as bytes, then as arrays; several members are then
                concatenated into one set of tables
    evaluation  scores of a block of points
"""

from __future__ import annotations

import dataclasses
import re
import time
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from scipy.sparse import csr_matrix

from snm.batches.csr_blocks import block_of
from snm.batches.device_parts import spread_stack
from snm.batches.sources.source import Source
from snm.checkpoints.writer import has_room
from snm.config.resolved import ResolvedConfig
from snm.data.dataset import Dataset
from snm.data.mapped import is_mapped
from snm.data.weighting import Weighting
from snm.distributed.host_copy import state_bytes
from snm.distributed.mesh import DATA
from snm.errors import InputError
from snm.machine.platform import device_bytes, platform
from snm.machine.ram import available_ram, resident_ram
from snm.model.inference import join
from snm.model.model import Model, abstract_state
from snm.model.placement import jitted_start, shapes_on
from snm.planning.programs import Programs, StageProgram
from snm.prediction.predictor import ROWS
from snm.prediction.programs import jitted_queries, jitted_top
from snm.trainer.phase import first_phase, prepare_phase
from snm.trainer.prepare import members_at_once, trained_beside
from snm.trainer.programs import jitted_steps

__all__ = [
    "PARTS",
    "STAGES",
    "Forecast",
    "Needs",
    "bytes_by_stage",
    "device_memory",
    "forecast",
    "parse_bytes",
]

PARTS = ("programs", "data", "tables", "optimiser", "activations", "batches", "checkpoint",
         "neighbours")  # fmt: skip
STAGES = ("start", "training", "loading", "evaluation")

# Bytes that a process keeps after a program was compiled (or read from the cache) and has run:
# machine code, stacks and arenas of threads. Measured on a CPU, between a first and a second start.
_STARTED = 45 << 20
_TRAINED = 135 << 20  # the step, and the checkpoint writer
_MEMBER = 35 << 20  # each further member
_SCORED = 60 << 20
_AHEAD = 3  # stacks of batches: one in use, one ready, one being made

Bytes = dict[str, dict[str, int]]
"""Bytes by stage and part."""


@dataclasses.dataclass(frozen=True)
class Needs:
    """The sizes that the forecast adds up: counted, compiled or measured.

    On a mesh the sizes on devices are those of each device.

    Attributes:
      tables: bytes of one member's feature rows, class rows, biases and tower.
      optimiser: bytes of one member's optimiser state.
      read: bytes of the data set on the host, as the files have it.
      weighted: bytes of the weighted training data on the host.
      programs: bytes of Python and the libraries on the host.
      stack: bytes of the batches of a dispatch.
      start: temporary bytes of the program that draws the tables.
      step: temporary bytes of a training step.
      scores: temporary bytes of scoring a block of points.
      resident: bytes of training data on a device; 0 where the host keeps it.
      aside: whether checkpoints before the last are written from a copy.
      watches: whether held-out points are scored while training.
      members: number of models.
      at_once: how many of them train side by side.
      devices: number of devices of this process.
      whole: bytes of one member's tables and optimiser state, over all shards.
      neighbours: bytes of a memory of the training points, on the host, if one is tried.
      queries: those of the neighbours' queries, which follow from members and dimension.
    """

    tables: int
    optimiser: int
    read: int
    weighted: int
    programs: int
    stack: int
    start: int
    step: int
    scores: int
    resident: int
    aside: bool
    watches: bool
    members: int
    at_once: int = 1
    devices: int = 1
    whole: int = 0
    neighbours: int = 0
    queries: int = 0


@dataclasses.dataclass(frozen=True)
class Forecast:
    """The memory that a run will need.

    Attributes:
      host: bytes by stage and part; on a CPU they include those of the devices.
      device: the same of an accelerator, or of each device of a mesh; empty for one CPU device.
      needs: the sizes that were added up.
      steps_per_epoch: of one member.
    """

    host: Bytes
    device: Bytes
    needs: Needs
    steps_per_epoch: int

    @property
    def peak_host(self) -> int:
        """Bytes at the largest stage."""
        return max(sum(parts.values()) for parts in self.host.values())

    @property
    def peak_device(self) -> int:
        """Bytes of the device that trains, at its largest stage; on a CPU, of the host."""
        if not self.device:
            return self.peak_host
        return max(sum(parts.values()) for parts in self.device.values())


def forecast(dataset: Dataset, config: ResolvedConfig) -> tuple[Forecast, Programs]:
    """Predicts the bytes of a run.

    Args:
      dataset: loaded.
      config: the settings.

    Raises:
      InputError: settings that training would refuse: a mesh, or a part without labels.
    """
    on_cpu = jax.default_backend() == "cpu"
    before = resident_ram()
    phase = first_phase(config, dataset)
    weighting = Weighting.fit(config.weighting, dataset.train.features)
    prepared = prepare_phase(config, dataset, weighting, phase)
    mesh, source, model = prepared.mesh, prepared.source, prepared.model
    state = shapes = abstract_state(model)
    if mesh is not None:
        shapes = shapes_on(state, mesh)
    count = min(prepared.steps_per_dispatch, source.steps_per_epoch)
    resident = source.resident_shapes()

    start = _temporary(jitted_start(model, mesh).lower(np.uint32(0)))
    begun = time.perf_counter()
    programs, batches = [], []
    for stage, share in prepared.shares:
        of_stage = dataclasses.replace(model, spec=stage.spec)
        its_source = source.with_spec(stage.spec)
        stack = its_source.stack(0, count)
        if mesh is not None:
            stack = spread_stack(stack, source.data_parts, mesh)
        steps = jitted_steps(
            of_stage, its_source, source.shape(0), mesh, options=prepared.step_options
        )
        compiled = steps.lower(shapes, resident, stack).compile()
        programs.append(StageProgram(share, of_stage, its_source, compiled))
        batches.append(sum(_bytes_here(leaf) for leaf in jax.tree.leaves(stack)))
    compile_seconds = time.perf_counter() - begun
    scores = _scoring(model, source, state, config.members, mesh)
    raw = [dataset.train, *([dataset.test] if dataset.test is not None else [])]
    whole = state_bytes(state)
    if mesh is not None:
        state = jax.tree.map(_part_of, shapes)
    optimiser = state_bytes((state.features.accumulator, state.head.table.accumulator))
    optimiser += state_bytes(state.tower_state)
    read = sum(_csr_bytes(matrix) for part in raw for matrix in (part.features, part.labels))
    weighted = _csr_bytes(source.features, but=dataset.train.features)
    weighted += _csr_bytes(source.labels, but=dataset.train.labels)  # a copy, with names or splits
    watches = phase.held_out is not None  # then the best state is saved when it is found
    remembered = _memory_bytes(config, dataset)
    needs = Needs(
        tables=state_bytes(state) - optimiser,
        optimiser=optimiser,
        read=read,
        weighted=weighted,
        programs=max(before - read, 0),
        stack=max(batches),
        start=start,
        step=max(int(one.step.memory_analysis().temp_size_in_bytes) for one in programs),
        scores=scores,
        resident=state_bytes(resident) // source.data_parts,
        aside=(watches or prepared.checkpoint_every < prepared.total_steps) and has_room(shapes),
        watches=watches,
        members=config.members,
        at_once=members_at_once(config, mesh),
        devices=1 if mesh is None else len(mesh.local_devices),
        whole=whole,
        neighbours=sum(remembered),
        queries=remembered[1],
    )
    host, device = bytes_by_stage(needs, on_cpu)
    return Forecast(host, device, needs, source.steps_per_epoch), Programs(
        programs, count, compile_seconds, mesh
    )


def _scoring(model: Model, source: Source, state: Any, members: int, mesh: Mesh | None) -> int:
    """Temporary bytes of scoring a block of points with all members."""
    together = jax.eval_shape(lambda one: join([one] * members), state)
    if mesh is not None:
        together = shapes_on(together, mesh)
    parts = 1 if mesh is None else mesh.shape[DATA]
    rows = min(-(-ROWS // parts), source.features.shape[0])
    block = block_of(source.features, np.arange(rows))
    if parts > 1:
        block = jax.tree.map(lambda x: jax.ShapeDtypeStruct((parts, *x.shape), x.dtype), block)
    joined = dataclasses.replace(model, members=members)
    best = jitted_top(joined, min(5, model.spec.num_labels), mesh)
    if mesh is not None:
        return _temporary(best.lower(together, block))
    # One program makes the queries, and another one searches with them.
    embed = jitted_queries(joined, None)
    queries = jax.eval_shape(embed, together, block)
    programs = embed.lower(together, block), best.lower(together, block, queries)
    return state_bytes(queries) + max(map(_temporary, programs))


def _part_of(leaf: Any) -> jax.ShapeDtypeStruct:
    """The shard of an array that one device holds."""
    return jax.ShapeDtypeStruct(leaf.sharding.shard_shape(leaf.shape), leaf.dtype)


def _bytes_here(leaf: Any) -> int:
    return state_bytes(_part_of(leaf)) if isinstance(leaf, jax.Array) else leaf.nbytes


def bytes_by_stage(needs: Needs, on_cpu: bool) -> tuple[Bytes, Bytes]:
    """Bytes by stage and part, of the host and of a device; on a CPU all are on the host."""
    on_mesh = needs.devices > 1
    one, m = needs.whole if on_mesh else needs.tables + needs.optimiser, needs.members
    beside = needs.at_once
    data = needs.read + needs.weighted
    step = max(needs.step, needs.scores if needs.watches else 0)
    training = needs.programs + _STARTED + _TRAINED + (m - 1) * _MEMBER
    # Parameters that are in memory and are the best are not read. Else there are the bytes of a
    # checkpoint before it is an array; and members are joined as they are read, on a mesh together.
    file = one if m > 1 or on_mesh or needs.watches else 0
    extra = (m if on_mesh else 1) if m > 1 else 0
    host: Bytes = {
        "start": {"programs": needs.programs + _STARTED, "data": data},
        "training": {
            "programs": training,
            "data": needs.read + beside * needs.weighted,
            "batches": beside * _AHEAD * needs.stack,
            # A mesh's is gathered before it is written.
            "checkpoint": beside * one if needs.aside or on_mesh else 0,
        },
        "loading": {"programs": training, "data": data, "checkpoint": file},
        "evaluation": {"programs": training + _SCORED, "data": data},
    }
    if needs.neighbours:
        host["evaluation"]["neighbours"] = needs.neighbours
    device: Bytes = {
        "start": {
            "tables": needs.tables,
            "optimiser": needs.optimiser,
            "activations": needs.start,
        },
        "training": {
            "tables": beside * needs.tables,
            "optimiser": beside * needs.optimiser,
            "activations": beside * step,
            "batches": beside * needs.stack,
        },
        "loading": {
            "tables": (m + extra) * needs.tables,
            "optimiser": max(extra, 1) * needs.optimiser,
        },
        "evaluation": {
            "tables": m * needs.tables,
            "optimiser": needs.optimiser if m == 1 else 0,
            "activations": needs.scores,
        },
    }
    if needs.resident:
        device["training"]["data"] = needs.resident
    if on_cpu:
        device["training"]["batches"] = 0  # the host's own
        for stage, parts in device.items():
            for part, size in parts.items():
                host[stage][part] = host[stage].get(part, 0) + size * needs.devices
        return host, device if on_mesh else {}
    return host, device


def _memory_bytes(config: ResolvedConfig, dataset: Dataset) -> tuple[int, int]:
    """Bytes of a memory of all training points, and of its queries: it may need less."""
    if config.memory != "on":
        return 0, 0
    stored = dataset.train.baskets() if config.seen == "drop" else dataset.train
    features, labels = stored.features, stored.labels
    points = features.shape[0]
    of_features = _csr_bytes(features)
    if config.weighting == "standard":
        of_features = 8 * features.shape[0] * features.shape[1]
    found = 2 * of_features + _csr_bytes(labels)
    if (names := trained_beside(config, dataset)) is not None:
        found += 2 * _csr_bytes(names.features) + _csr_bytes(names.labels)
        points += names.num_points
    return found + 8 * points, 2 * config.members * config.dim * points  # a number, and a query


def _temporary(lowered: Any) -> int:
    """Bytes that a program allocates besides its arguments and results."""
    found = lowered.compile().memory_analysis()
    return int(found.temp_size_in_bytes)


def _csr_bytes(matrix: csr_matrix, but: csr_matrix | None = None) -> int:
    """Bytes of a matrix, without what it shares with another one, or what is in mapped files."""
    others = () if but is None else (but.data, but.indices, but.indptr)
    return sum(
        part.nbytes
        for part in (matrix.data, matrix.indices, matrix.indptr)
        if not is_mapped(part) and not any(np.may_share_memory(part, other) for other in others)
    )


# -- memory ----------------------------------------------------------------------------------


def device_memory() -> int:
    """Bytes of the accelerator that trains, or the bytes of this machine open to this process."""
    if platform() != "cpu" and (limit := device_bytes()):
        return int(limit)
    return available_ram() + resident_ram()


_UNITS = {"": 1, "b": 1}
_UNITS |= {f"{letter}ib": 1 << 10 * power for power, letter in enumerate("kmgt", 1)}
_UNITS |= {f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)}


def parse_bytes(text: str) -> int:
    """A number of bytes, given as `80GiB`, `1.5 GB` or `4096`.

    Example:
      >>> parse_bytes("80GiB") == 80 * 2**30, parse_bytes("1.5 GB")
      (True, 1500000000)

    Raises:
      InputError: the text is no size above 0.
    """
    found = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,15})?) ?([a-z]{0,3})", text.strip().lower())
    if found is None or found[2] not in _UNITS or int(float(found[1]) * _UNITS[found[2]]) < 1:
        raise InputError("--device-memory", repr(text), "a size such as 80GiB, 16GB or 500MiB")
    return int(float(found[1]) * _UNITS[found[2]])

"""The memory of each stage of a run, added up from sizes: bytes by part and stage.

A run has four stages. Its peak is that of the largest one:

    start       the tables are drawn
    training    tables, optimizer state, activations, prefetched batches, a copy of a checkpoint
    loading     checkpoints are read, first as bytes, then as arrays; several members are then
                concatenated into one set of tables
    evaluation  scores of a block of points

The bytes of compiled programs and their threads were measured once.
"""

from __future__ import annotations

import dataclasses

__all__ = ["PARTS", "STAGES", "Bytes", "Forecast", "RunSizes", "bytes_by_stage"]

PARTS = ("programs", "data", "tables", "optimizer", "activations", "batches", "checkpoint",
         "neighbours")  # fmt: skip
STAGES = ("start", "training", "loading", "evaluation")

# Bytes that a process keeps after a program was compiled (or read from the cache) and has run:
# machine code, stacks and arenas of threads. Measured on a CPU, between a first and a second start.
_START_PROGRAM = 45 << 20
_TRAINING_PROGRAMS = 135 << 20  # the step, and the checkpoint writer
_MEMBER_PROGRAM = 35 << 20  # of each further member
_SCORING_PROGRAM = 60 << 20
_PREFETCHED = 3  # stacks of batches: one in use, one ready, one being made

Bytes = dict[str, dict[str, int]]
"""Bytes by stage and part."""


@dataclasses.dataclass(frozen=True)
class RunSizes:
    """The sizes that a forecast adds up: counted, compiled or measured.

    On a mesh, sizes on devices are per device.

    Attributes:
      tables: bytes of one member's feature rows, class rows, biases and tower.
      optimizer: bytes of one member's optimizer state.
      dataset: bytes of the data set on the host, as it was read.
      weighted_data: bytes of the weighted training data on the host.
      libraries: bytes of Python and the libraries on the host.
      batch_stack: bytes of the batches of a dispatch.
      init_temporaries: temporary bytes of the program that draws the tables.
      step_temporaries: temporary bytes of a training step.
      scoring_temporaries: temporary bytes of scoring a block of points.
      device_data: bytes of training data on a device; 0 if the host keeps it.
      background_checkpoints: whether checkpoints before the last are written from a copy in the
        background.
      validates: whether validation points are scored during training.
      members: number of models.
      parallel_members: how many of them train in parallel.
      devices: number of devices of this process.
      unsharded_state: bytes of one member's tables and optimizer state, over all shards.
      memory: bytes of a memory of the training points, on the host; 0 if none is tried.
      memory_queries: bytes of the queries in the memory; part of `memory`.
    """

    tables: int
    optimizer: int
    dataset: int
    weighted_data: int
    libraries: int
    batch_stack: int
    init_temporaries: int
    step_temporaries: int
    scoring_temporaries: int
    device_data: int
    background_checkpoints: bool
    validates: bool
    members: int
    parallel_members: int = 1
    devices: int = 1
    unsharded_state: int = 0
    memory: int = 0
    memory_queries: int = 0


@dataclasses.dataclass(frozen=True)
class Forecast:
    """The memory that a run will need.

    Attributes:
      host: bytes by stage and part; on a CPU they include those of the devices.
      device: bytes of an accelerator, or of each device of a mesh; empty for one CPU device.
      sizes: the sizes that were added up.
      steps_per_epoch: steps of one member per epoch.
    """

    host: Bytes
    device: Bytes
    sizes: RunSizes
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


def bytes_by_stage(sizes: RunSizes, on_cpu: bool) -> tuple[Bytes, Bytes]:
    """Bytes by stage and part, of the host and of a device; on a CPU all are on the host."""
    host, device = _on_host(sizes), _on_device(sizes)
    if not on_cpu:
        return host, device
    device["training"]["batches"] = 0  # counted on the host already
    for stage, parts in device.items():
        for part, size in parts.items():
            host[stage][part] = host[stage].get(part, 0) + size * sizes.devices
    return host, device if sizes.devices > 1 else {}


def _on_host(sizes: RunSizes) -> Bytes:
    """Bytes of the host, without the arrays of its devices."""
    on_mesh, parallel = sizes.devices > 1, sizes.parallel_members
    checkpoint = sizes.unsharded_state if on_mesh else sizes.tables + sizes.optimizer  # of a member
    data = sizes.dataset + sizes.weighted_data
    training = (
        sizes.libraries
        + _START_PROGRAM
        + _TRAINING_PROGRAMS
        + (sizes.members - 1) * _MEMBER_PROGRAM
    )
    # The state in memory is used if it is the only and best one. Otherwise a checkpoint is read,
    # and its bytes are in memory beside its arrays.
    is_read = sizes.members > 1 or on_mesh or sizes.validates
    host: Bytes = {
        "start": {"programs": sizes.libraries + _START_PROGRAM, "data": data},
        "training": {
            "programs": training,
            "data": sizes.dataset + parallel * sizes.weighted_data,
            "batches": parallel * _PREFETCHED * sizes.batch_stack,
            # On a mesh, a checkpoint is gathered before it is written.
            "checkpoint": parallel * checkpoint if sizes.background_checkpoints or on_mesh else 0,
        },
        "loading": {"programs": training, "data": data, "checkpoint": checkpoint if is_read else 0},
        "evaluation": {"programs": training + _SCORING_PROGRAM, "data": data},
    }
    if sizes.memory:
        host["evaluation"]["neighbours"] = sizes.memory
    return host


def _on_device(sizes: RunSizes) -> Bytes:
    """Bytes of a device."""
    members, parallel = sizes.members, sizes.parallel_members
    step = max(sizes.step_temporaries, sizes.scoring_temporaries if sizes.validates else 0)
    # Members are joined one after another as they are read; on a mesh all at once.
    extra = (members if sizes.devices > 1 else 1) if members > 1 else 0
    device: Bytes = {
        "start": {
            "tables": sizes.tables,
            "optimizer": sizes.optimizer,
            "activations": sizes.init_temporaries,
        },
        "training": {
            "tables": parallel * sizes.tables,
            "optimizer": parallel * sizes.optimizer,
            "activations": parallel * step,
            "batches": parallel * sizes.batch_stack,
        },
        "loading": {
            "tables": (members + extra) * sizes.tables,
            "optimizer": max(extra, 1) * sizes.optimizer,
        },
        "evaluation": {
            "tables": members * sizes.tables,
            "optimizer": sizes.optimizer if members == 1 else 0,
            "activations": sizes.scoring_temporaries,
        },
    }
    if sizes.device_data:
        device["training"]["data"] = sizes.device_data
    return device

"""The memory of each stage of a run, added up from sizes: bytes by part and stage.

A run has four stages. Its peak is that of the largest one:

    start       the tables are drawn
    training    tables, optimiser state, activations, prefetched batches, a copy of a checkpoint
    loading     checkpoints are read, first as bytes, then as arrays; several members are then
                concatenated into one set of tables
    evaluation  scores of a block of points

The bytes of compiled programs and their threads were measured once.
"""

from __future__ import annotations

import dataclasses

__all__ = ["PARTS", "STAGES", "Bytes", "Forecast", "Needs", "bytes_by_stage"]

PARTS = ("programs", "data", "tables", "optimiser", "activations", "batches", "checkpoint",
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
class Needs:
    """The sizes that the forecast adds up: counted, compiled or measured.

    On a mesh, sizes on devices are per device.

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
      resident: bytes of training data on a device; 0 if the host keeps it.
      aside: whether checkpoints before the last are written from a copy in the background.
      watches: whether held-out points are scored during training.
      members: number of models.
      at_once: how many of them train in parallel.
      devices: number of devices of this process.
      whole: bytes of one member's tables and optimiser state, over all shards.
      neighbours: bytes of a memory of the training points, on the host, if one is tried.
      queries: bytes of the neighbours' queries, which are part of `neighbours`.
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
      device: bytes of an accelerator, or of each device of a mesh; empty for one CPU device.
      needs: the sizes that were added up.
      steps_per_epoch: steps of one member per epoch.
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


def bytes_by_stage(needs: Needs, on_cpu: bool) -> tuple[Bytes, Bytes]:
    """Bytes by stage and part, of the host and of a device; on a CPU all are on the host."""
    host, device = _on_host(needs), _on_device(needs)
    if not on_cpu:
        return host, device
    device["training"]["batches"] = 0  # counted on the host already
    for stage, parts in device.items():
        for part, size in parts.items():
            host[stage][part] = host[stage].get(part, 0) + size * needs.devices
    return host, device if needs.devices > 1 else {}


def _on_host(needs: Needs) -> Bytes:
    """Bytes of the host, without the arrays of its devices."""
    on_mesh, parallel = needs.devices > 1, needs.at_once
    checkpoint = needs.whole if on_mesh else needs.tables + needs.optimiser  # of a member
    data = needs.read + needs.weighted
    training = (
        needs.programs + _START_PROGRAM + _TRAINING_PROGRAMS + (needs.members - 1) * _MEMBER_PROGRAM
    )
    # The state in memory is used if it is the only and best one. Otherwise a checkpoint is read,
    # and its bytes are in memory beside its arrays.
    is_read = needs.members > 1 or on_mesh or needs.watches
    host: Bytes = {
        "start": {"programs": needs.programs + _START_PROGRAM, "data": data},
        "training": {
            "programs": training,
            "data": needs.read + parallel * needs.weighted,
            "batches": parallel * _PREFETCHED * needs.stack,
            # On a mesh, a checkpoint is gathered before it is written.
            "checkpoint": parallel * checkpoint if needs.aside or on_mesh else 0,
        },
        "loading": {"programs": training, "data": data, "checkpoint": checkpoint if is_read else 0},
        "evaluation": {"programs": training + _SCORING_PROGRAM, "data": data},
    }
    if needs.neighbours:
        host["evaluation"]["neighbours"] = needs.neighbours
    return host


def _on_device(needs: Needs) -> Bytes:
    """Bytes of a device."""
    members, parallel = needs.members, needs.at_once
    step = max(needs.step, needs.scores if needs.watches else 0)
    # Members are joined one after another as they are read; on a mesh all at once.
    extra = (members if needs.devices > 1 else 1) if members > 1 else 0
    device: Bytes = {
        "start": {
            "tables": needs.tables,
            "optimiser": needs.optimiser,
            "activations": needs.start,
        },
        "training": {
            "tables": parallel * needs.tables,
            "optimiser": parallel * needs.optimiser,
            "activations": parallel * step,
            "batches": parallel * needs.stack,
        },
        "loading": {
            "tables": (members + extra) * needs.tables,
            "optimiser": max(extra, 1) * needs.optimiser,
        },
        "evaluation": {
            "tables": members * needs.tables,
            "optimiser": needs.optimiser if members == 1 else 0,
            "activations": needs.scores,
        },
    }
    if needs.resident:
        device["training"]["data"] = needs.resident
    return device

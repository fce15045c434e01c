"""Whether a run fits into memory: the check of `snm plan`, and of `snm train` before it begins."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import shutil
from pathlib import Path

import jax

from snm.checkpoints.disk_errors import EXTRA_BYTES
from snm.config.resolved import ResolvedConfig
from snm.config.stages import SizeSchedule
from snm.data.dataset import Dataset
from snm.distributed.host_copy import state_bytes
from snm.distributed.mesh import parse_mesh
from snm.distributed.processes import (
    broadcast_from_first,
    is_first_process,
    min_over_processes,
)
from snm.errors import InputError
from snm.machine.platform import device_bytes, platform
from snm.machine.ram import available_ram, ram_limit_name, resident_ram
from snm.model.from_config import make_model
from snm.model.model import abstract_state
from snm.planning.byte_sizes import parse_bytes
from snm.planning.bytes_by_stage import Forecast
from snm.planning.forecast import forecast, memory_bytes
from snm.planning.programs import Programs
from snm.planning.remedies import find_remedies
from snm.runs.folder import RunFolder
from snm.stores.address import Address
from snm.text import format_bytes
from snm.trainer.phase import count_steps_per_epoch
from snm.trainer.start.prepare import save_times

__all__ = [
    "MemoryCheck",
    "check_disk",
    "check_fits",
    "check_memory",
    "compare_memory",
    "device_memory",
    "simulate_devices",
]

_MAX_REMEDIES = 3
_SAFE_FACTOR = 6  # no run needs this many times the bytes of its tables
_SAFE_BYTES = 2 << 30  # programs and activations need less with usual settings


@dataclasses.dataclass(frozen=True)
class MemoryCheck:
    """The memory that a run needs and may use, and settings with which it fits.

    Attributes:
      needed: peak bytes on the device that trains.
      limit: bytes that the run may use.
      remedies: (flags, peak bytes with them); empty if the run fits.
    """

    needed: int
    limit: int
    remedies: list[tuple[str, int]]

    @property
    def fits(self) -> bool:
        """Whether the run fits."""
        return self.needed <= self.limit

    @property
    def advice(self) -> str:
        """`remedies` as a sentence."""
        remedies = ", ".join(f"{flags} ({format_bytes(size)})" for flags, size in self.remedies)
        return f"what would fit: {remedies or 'no single change'}"


def check_memory(dataset: Dataset, config: ResolvedConfig, limit: int | None = None) -> MemoryCheck:
    """Compiles the programs of a run, and compares the memory that they need with a limit.

    Args:
      dataset: the data set.
      config: the settings.
      limit: bytes of a device; None is the memory of this one.
    """
    return compare_memory(*forecast(dataset, config), config, limit)


def compare_memory(
    expected: Forecast, programs: Programs, config: ResolvedConfig, limit: int | None = None
) -> MemoryCheck:
    """Compares the memory that compiled programs need with a limit.

    Args:
      expected: the forecast.
      programs: the programs of the forecast.
      config: the settings.
      limit: bytes of a device; None is the memory of this one.
    """
    # Devices that a CPU simulates share this machine's memory, but a given limit is each one's.
    shared_memory = limit is None and programs.mesh is not None and jax.default_backend() == "cpu"
    peak = expected.peak_host if shared_memory else expected.peak_device
    limit = device_memory() if limit is None else limit
    if peak <= limit:
        return MemoryCheck(peak, limit, [])
    remedies = find_remedies(
        expected,
        config,
        programs.model,
        limit,
        on_cpu=jax.default_backend() == "cpu",
        shared_memory=shared_memory,
    )
    by_flag: dict[str, tuple[str, int]] = {}
    for flags, size in remedies:  # the first of each flag
        by_flag.setdefault(flags.split()[0], (flags, size))
    return MemoryCheck(peak, limit, list(by_flag.values())[:_MAX_REMEDIES])


def device_memory() -> int:
    """Bytes of the accelerator that trains, or the bytes that this process may use on a CPU."""
    if platform() != "cpu" and (limit := device_bytes()):
        return int(limit)
    return available_ram() + resident_ram()


def simulate_devices(mesh: str) -> None:
    """Makes a CPU simulate the devices of a mesh, so that a plan needs no other devices."""
    data, label = parse_mesh(mesh)
    simulated = "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", "")
    if data * label > 1 and not simulated:
        with contextlib.suppress(RuntimeError):  # JAX has started already
            jax.config.update("jax_num_cpu_devices", data * label)


def check_fits(dataset: Dataset, config: ResolvedConfig, memory: str | None) -> None:
    """Raises InputError if a run cannot fit into memory.

    Nothing is compiled if no limit is given and the device has many times the memory of the tables.

    Args:
      dataset: the data set.
      config: the settings.
      memory: the limit, as in `parse_bytes`; None is the memory of this device.

    Raises:
      InputError: the run needs more than the limit; the message has up to three remedies.
    """
    limit = device_memory() if memory is None else parse_bytes(memory)
    # On a CPU the limit includes memory that the process uses already, such as the data.
    free = available_ram() if platform() == "cpu" else limit
    surely_fits = (
        memory is None and _SAFE_FACTOR * _rough_size(config, dataset) + _SAFE_BYTES < free
    )
    if broadcast_from_first([int(surely_fits)], 1)[0]:  # all processes compile, or none
        return
    check = check_memory(dataset, config, None if memory is None else limit)
    if not check.fits:
        limit_name = ram_limit_name() if platform() == "cpu" else "memory of the device"
        raise InputError(
            limit_name if memory is None else "--device-memory",
            f"a run that needs {format_bytes(check.needed)}",
            f"at most {format_bytes(limit)}; {check.advice}",
        )


def check_disk(dataset: Dataset, config: ResolvedConfig, folder: Path, run_dir: Path) -> str | None:
    """A warning if the disk may have no space for the files of a run, or None.

    Args:
      dataset: the data set.
      config: the settings.
      folder: the run folder; it need not exist yet.
      run_dir: the same as the user typed it, which may be an address in a store.

    Raises:
      InputError: a run without a checkpoint so far, and no space for one; or as
        `snm.trainer.phase.first_phase`.
    """
    existing = next(p for p in (folder.absolute(), *folder.absolute().parents) if p.exists())
    free, there = shutil.disk_usage(existing).free, _bytes_below(folder / "checkpoints")
    state, run = _state_size(config, dataset), RunFolder(folder)
    size = state + EXTRA_BYTES
    # Without a whole checkpoint, what is there is removed before the first is written.
    has_checkpoint = run.checkpoints(config.keep_checkpoints).latest() is not None
    address = Address.of(run_dir)
    name = run_dir if address is None else address
    disk = "its disk" if address is None else "the disk of its copy on this machine"
    refused = is_first_process() and free + there < size and not has_checkpoint
    if not min_over_processes(int(not refused)):  # all processes refuse, or none
        found = f"{format_bytes(free + there)} free on {disk}"
        expected = f"at least {format_bytes(size)}, the size of a checkpoint"
        raise InputError(f"--run-dir {name}", found, expected)
    if run.result.exists():  # the run has what it needs
        return None
    memory = memory_bytes(config, dataset).stored
    # To count the steps splits the data: only where the most that any run keeps has no room.
    most = config.members * size * (2 * config.keep_checkpoints + 3)
    if free >= max(0, most - there) + memory:
        return None
    checkpoints = config.members * size * _most_checkpoints(config, dataset, state)
    checkpoints = max(0, checkpoints - there)
    if free >= checkpoints + memory:
        return None
    sizes = f"the checkpoints take up to {format_bytes(checkpoints)}{' more' if there else ''}"
    if memory:
        sizes += f", and memory.npz up to {format_bytes(memory)}"
    return f"warning: {name} has {format_bytes(free)} free on {disk}; {sizes}"


def _most_checkpoints(config: ResolvedConfig, dataset: Dataset, state: int) -> int:
    """The most checkpoints of a member, whose parameters take `state` bytes, on the disk at a time.

    These are the newest that are kept, one that is being written, and the best.

    Raises:
      InputError: as `count_steps_per_epoch`.
    """
    steps_per_epoch = count_steps_per_epoch(config, dataset)
    steps = max(1, round(config.epochs * steps_per_epoch))
    saves = save_times(config, steps_per_epoch, state)
    saved, most = math.ceil(steps / saves.every), config.keep_checkpoints + 1
    if saves.within_epoch:
        saved = math.ceil(config.epochs) * math.ceil(steps_per_epoch / saves.within_epoch)
    if config.validation_fraction:
        saved += math.ceil(steps / (config.evaluate_every or steps_per_epoch))
        most += 1
    number = min(saved, most)
    if config.refit:  # a second phase, on all points
        second = dataclasses.replace(config, validation_fraction=0.0, refit=False)
        number += _most_checkpoints(second, dataset, state)
    return number


def _bytes_below(folder: Path) -> int:
    """Bytes of the files in a folder and below; 0 if it does not exist."""
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):  # another process removed it
            total += path.stat().st_size
    return total


def _state_size(config: ResolvedConfig, dataset: Dataset) -> int:
    """Bytes of a member's state, the size of a checkpoint."""
    train = dataset.train
    return state_bytes(abstract_state(make_model(config, train.num_features, train.num_labels)))


def _rough_size(config: ResolvedConfig, dataset: Dataset) -> int:
    """Bytes of all members' tables, and of the scores of a batch against its sample."""
    train = dataset.train
    tables = _state_size(config, dataset) * config.members
    if jax.default_backend() != "cpu":
        tables //= parse_mesh(config.mesh)[1]
    sampled = max(SizeSchedule.of(config, train.num_labels).sampled)
    return tables + 4 * config.batch_size * (sampled + 1)

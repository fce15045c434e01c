"""Whether a run fits into memory: the check of `snm plan`, and of `snm train` before it begins."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
from pathlib import Path

import jax

from snm.config.resolved import ResolvedConfig
from snm.config.stages import SizeSchedule
from snm.data.dataset import Dataset
from snm.distributed.host_copy import state_bytes
from snm.distributed.mesh import parse_mesh
from snm.distributed.processes import from_first_process
from snm.errors import InputError
from snm.machine.platform import device_bytes, platform
from snm.machine.ram import available_ram, resident_ram
from snm.model.from_config import make_model
from snm.model.model import abstract_state
from snm.planning.byte_sizes import parse_bytes, size_in_words
from snm.planning.bytes_by_stage import Forecast
from snm.planning.forecast import forecast
from snm.planning.programs import Programs
from snm.planning.remedies import ways_to_fit

__all__ = [
    "Room",
    "device_memory",
    "little_disk",
    "peak_to_compare",
    "refuse_what_cannot_fit",
    "remedies",
    "room",
    "room_of",
    "simulate_devices",
]

_MOST_REMEDIES = 3
_SURE = 6  # no run needs this many times the bytes of its tables
_BASE = 2 << 30  # bytes; programs and activations need less with usual settings


@dataclasses.dataclass(frozen=True)
class Room:
    """The memory that a run needs, the memory there is, and settings with which the run fits.

    Attributes:
      needed: bytes at the peak, on the device that trains.
      limit: bytes that the run may use.
      ways: flags, and the bytes at the peak with them; empty where the run fits.
    """

    needed: int
    limit: int
    ways: list[tuple[str, int]]

    @property
    def fits(self) -> bool:
        """Whether the run fits."""
        return self.needed <= self.limit

    @property
    def advice(self) -> str:
        """`ways` as a sentence."""
        ways = ", ".join(f"{flags} ({size_in_words(size)})" for flags, size in self.ways)
        return f"what would fit: {ways or 'no single change'}"


def room(dataset: Dataset, config: ResolvedConfig, limit: int | None = None) -> Room:
    """Compiles the programs of a run, and compares the memory that they need with a limit.

    Args:
      dataset: loaded.
      config: the settings.
      limit: bytes of a device; by default those of this one.
    """
    return room_of(*forecast(dataset, config), config, limit)


def room_of(
    expected: Forecast, programs: Programs, config: ResolvedConfig, limit: int | None = None
) -> Room:
    """Compares the memory that compiled programs need with a limit.

    Args:
      expected: the forecast.
      programs: those that it is of.
      config: the settings.
      limit: bytes of a device; by default those of this one.
    """
    named = limit is not None
    peak = peak_to_compare(expected, programs, named)
    limit = device_memory() if limit is None else limit
    ways = [] if peak <= limit else remedies(expected, config, programs, limit, named)
    return Room(peak, limit, ways)


def device_memory() -> int:
    """Bytes of the accelerator that trains, or the bytes of this machine open to this process."""
    if platform() != "cpu" and (limit := device_bytes()):
        return int(limit)
    return available_ram() + resident_ram()


def peak_to_compare(expected: Forecast, programs: Programs, named: bool) -> int:
    """The bytes to compare: those of a device with a named limit, or all with this machine's."""
    return expected.peak_host if _together(programs, named) else expected.peak_device


def _together(programs: Programs, named: bool) -> bool:
    """Whether devices are compared together: those that a CPU simulates share its memory."""
    simulated = programs.mesh is not None and jax.default_backend() == "cpu"
    return simulated and not named


def simulate_devices(mesh: str) -> None:
    """Makes a CPU simulate as many devices as a mesh asks for, so that a plan needs no others."""
    data, label = parse_mesh(mesh)
    simulated = "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", "")
    if data * label > 1 and not simulated:
        with contextlib.suppress(RuntimeError):  # JAX has started: its devices must do
            jax.config.update("jax_num_cpu_devices", data * label)


def refuse_what_cannot_fit(dataset: Dataset, config: ResolvedConfig, memory: str | None) -> None:
    """Forecasts a run, and refuses it where it cannot fit.

    Nothing is compiled where no limit is given and the device has many times the memory of the
    tables.

    Args:
      dataset: loaded.
      config: the settings.
      memory: the limit, as in `parse_bytes`; None is the memory of this device.

    Raises:
      InputError: the run needs more than the limit; the message has up to three remedies.
    """
    limit = device_memory() if memory is None else parse_bytes(memory)
    # What the process holds on a CPU, such as the data, is in the limit but not in the rough size.
    free = available_ram() if platform() == "cpu" else limit
    sure = memory is None and _SURE * _rough_size(config, dataset) + _BASE < free
    if from_first_process([int(sure)], 1)[0]:  # several processes compile all, or none
        return
    found = room(dataset, config, None if memory is None else limit)
    if not found.fits:
        raise InputError(
            "--device-memory",
            f"a run that needs {size_in_words(found.needed)}",
            f"at most {size_in_words(limit)}; {found.advice}",
        )


def little_disk(dataset: Dataset, config: ResolvedConfig, folder: Path) -> str | None:
    """Tells of a disk without room for one checkpoint, which the first one would find; or None.

    Args:
      dataset: loaded.
      config: the settings.
      folder: of the run; it need not be there yet.
    """
    there = next(one for one in (folder.absolute(), *folder.absolute().parents) if one.exists())
    free, size = shutil.disk_usage(there).free, _state_size(config, dataset)
    if free >= size:
        return None
    found = f"the disk of {folder} has {size_in_words(free)} free"
    return f"warning: {found}, and a checkpoint takes {size_in_words(size)}"


def _state_size(config: ResolvedConfig, dataset: Dataset) -> int:
    """Bytes of a member's tables, which a checkpoint holds."""
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


def remedies(
    expected: Forecast, config: ResolvedConfig, programs: Programs, limit: int, named: bool
) -> list[tuple[str, int]]:
    """The first remedy of each kind, three at most; `named` is as in `peak_to_compare`."""
    found: dict[str, tuple[str, int]] = {}
    on_cpu, together = jax.default_backend() == "cpu", _together(programs, named)
    ways = ways_to_fit(expected, config, programs.model, limit, on_cpu=on_cpu, together=together)
    for flags, size in ways:
        found.setdefault(flags.split()[0], (flags, size))
    return list(found.values())[:_MOST_REMEDIES]

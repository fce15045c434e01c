"""`snm plan` for people, and the same look before `snm train`."""

from __future__ import annotations

import contextlib
import dataclasses
import os

import jax

from snm.config.resolve import resolve
from snm.config.settings import Config
from snm.data.dataset import Dataset
from snm.distributed.host_copy import state_bytes
from snm.distributed.mesh import parse_mesh
from snm.distributed.processes import of_first
from snm.errors import InputError
from snm.planning.forecast import (
    Forecast,
    Programs,
    device_memory,
    forecast,
    parse_bytes,
)
from snm.planning.remedies import ways_to_fit

__all__ = ["Room", "refuse_what_cannot_fit", "room", "size_in_words"]

_WAYS = 3
_SURE = 6  # times the tables that a run never takes
_BASE = 2 << 30  # bytes that programs and activations of usual settings stay below


@dataclasses.dataclass(frozen=True)
class Room:
    """What a run needs of the device that trains, what there is, and what would make it fit.

    Attributes:
      needed: bytes at the peak.
      limit: bytes that it may take.
      ways: flags, and the bytes at the peak with them; empty where it fits.
    """

    needed: int
    limit: int
    ways: list[tuple[str, int]]

    @property
    def fits(self) -> bool:
        """Whether it does."""
        return self.needed <= self.limit

    @property
    def advice(self) -> str:
        """The ways in words."""
        ways = ", ".join(f"{flags} ({size_in_words(size)})" for flags, size in self.ways)
        return f"what would fit: {ways or 'no single change'}"


def room(dataset: Dataset, config: Config, limit: int | None = None) -> Room:
    """Compiles a run's programs, and compares what it will need with what there is.

    Args:
      dataset: loaded.
      config: resolved.
      limit: bytes of a device; by default what this one has.
    """
    expected, programs = forecast(dataset, config)
    peak = _peak(expected, programs, limit is not None)
    limit = device_memory() if limit is None else limit
    return Room(peak, limit, [] if peak <= limit else _ways(expected, config, programs, limit))


def _peak(expected: Forecast, programs: Programs, named: bool) -> int:
    """What must fit: a device's part into the memory that was named, or all into this machine's."""
    played = programs.mesh is not None and jax.default_backend() == "cpu"
    # What a CPU plays shares its memory, and takes turns.
    return expected.peak_host if played and not named else expected.peak_device


def _play_devices(mesh: str) -> None:
    """Lets a CPU have as many devices as a mesh wants, so that a plan needs none of them."""
    data, label = parse_mesh(mesh)
    told = "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", "")
    if data * label > 1 and not told:
        with contextlib.suppress(RuntimeError):  # devices are in use already: these must do
            jax.config.update("jax_num_cpu_devices", data * label)


def refuse_what_cannot_fit(dataset: Dataset, config: Config, memory: str | None) -> None:
    """Predicts a run, and refuses it where it cannot fit.

    Without a given limit, and where the device has many times the room of the tables, nothing is
    compiled to find that out.

    Raises:
      InputError: it needs more than there is; with the three cheapest ways to make it fit.
    """
    limit = device_memory() if memory is None else parse_bytes(memory)
    config = resolve(config, dataset)
    sure = memory is None and _SURE * _rough(config, dataset) + _BASE < limit
    if of_first([int(sure)], 1)[0]:  # several processes compile all, or none
        return
    found = room(dataset, config, None if memory is None else limit)
    if not found.fits:
        raise InputError(
            "--device-memory",
            f"a run that needs {size_in_words(found.needed)}",
            f"at most {size_in_words(limit)}; {found.advice}",
        )


def _rough(config: Config, dataset: Dataset) -> int:
    """Bytes of all members' tables, and of a batch against its sample."""
    from snm.model.from_config import make_model
    from snm.model.model import abstract_state

    train = dataset.train
    model = make_model(config, train.num_features, train.num_labels, 1)
    assert config.members != "auto"  # resolved
    tables = state_bytes(jax.eval_shape(lambda: abstract_state(model))) * config.members
    if jax.default_backend() != "cpu":
        tables //= parse_mesh(config.mesh)[1]
    return tables + 4 * config.batch_size * (model.head.sampled + 1)


def _ways(
    expected: Forecast, config: Config, programs: Programs, limit: int
) -> list[tuple[str, int]]:
    """The first of each kind, three at most."""
    found: dict[str, tuple[str, int]] = {}
    for flags, size in ways_to_fit(expected, config, programs.model, limit):
        found.setdefault(flags.split()[0], (flags, size))
    return list(found.values())[:_WAYS]


def size_in_words(size: int) -> str:
    """Bytes as people write them: `80.00 GiB`, `12 MiB`."""
    return f"{size / 2**30:.2f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"

"""Compares the processes of a run at its start: what each was asked for, and the folder."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from snm.config.resolved import ResolvedConfig
from snm.config.settings import Config
from snm.data.dataset import Dataset
from snm.data.load import SYNTHETIC
from snm.distributed.agreement import agree, agree_on_folder
from snm.distributed.dataset import dataset_facts
from snm.distributed.processes import has_several_processes
from snm.machine.versions import version_of
from snm.runs.manifest import manifest_path
from snm.stores.address import Address
from snm.system.checksums import fingerprint

__all__ = ["agree_on_settings", "agree_on_start"]

_REMEDY = "start the same command in all processes"


def agree_on_start(
    data: object, config: Config, run_dir: str | Path, asked: Mapping[str, object]
) -> None:
    """Compares what the processes were asked for; a single process returns at once.

    The data may have another path in each process: their content is compared when they are read.

    Args:
      data: a path, `synthetic`, or a data set.
      config: the settings as they are asked for.
      run_dir: folder of the run, or its address in a store.
      asked: what else each process must be asked for alike.

    Raises:
      InputError: the processes differ, or a folder is not one for all; raised in all.
    """
    if not has_several_processes():
        return
    address = Address.of(run_dir)
    facts = {
        **{package: version_of(package) for package in ("snm", "jax")},
        **_in_words(config),
        **{name: repr(value) for name, value in asked.items()},
        **_kind_of(data),
        "run_dir": str(address or Path(run_dir).absolute()),
    }
    agree(facts, _REMEDY)
    if address is None:  # of an address, each process has a copy of its own
        agree_on_folder(Path(run_dir), f"--run-dir {run_dir}")


def agree_on_settings(config: ResolvedConfig, warm_start: Path | None) -> None:
    """Compares the settings as each process resolved them, and the run that each starts from.

    Args:
      config: of a run that nothing was written of yet.
      warm_start: a folder of this machine; None starts anew.

    Raises:
      InputError: the processes differ; raised in all.
    """
    facts = _in_words(config)
    if warm_start is not None and (manifest := manifest_path(warm_start)).exists():
        facts["checksum of the run of --warm-start"] = str(fingerprint(manifest)[1])
    agree(facts, _REMEDY)


def _in_words(config: Config) -> dict[str, str]:
    return {one.name: repr(getattr(config, one.name)) for one in dataclasses.fields(Config)}


def _kind_of(data: object) -> dict[str, str]:
    """What is known of the data before they are read."""
    if isinstance(data, Dataset):
        return dataset_facts(data)
    return {"data": SYNTHETIC if data == SYNTHETIC else "files"}

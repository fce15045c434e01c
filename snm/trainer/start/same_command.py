"""Checks at the start of a run that its processes have the same command, settings and folder."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from snm.config.resolved import ResolvedConfig
from snm.config.settings import Config
from snm.data.dataset import Dataset
from snm.data.load import SYNTHETIC
from snm.distributed.agreement import check_equal, check_same_folder
from snm.distributed.dataset import dataset_facts
from snm.distributed.processes import has_several_processes
from snm.machine.versions import package_version
from snm.runs.manifest import manifest_path
from snm.stores.address import Address
from snm.system.files.checksums import fingerprint

__all__ = ["check_same_command", "check_same_settings"]

_REMEDY = "start the same command in all processes"


def check_same_command(
    data: object, config: Config, run_dir: str | Path, options: Mapping[str, object]
) -> None:
    """Checks that all processes were started with the same command.

    The path of the data may differ: their content is compared when they are read.

    Args:
      data: a path, `synthetic`, or a data set.
      config: the settings, not yet resolved.
      run_dir: folder of the run, or its address in a store.
      options: name -> value of the other options that must be equal.

    Raises:
      InputError: the commands differ, or the folder is not the same for all; raised in all.
    """
    if not has_several_processes():
        return
    address = Address.of(run_dir)
    facts = {
        **{package: package_version(package) for package in ("snm", "jax")},
        **_settings_facts(config),
        **{name: repr(value) for name, value in options.items()},
        **_data_facts(data),
        "run_dir": str(address or Path(run_dir).absolute()),
    }
    check_equal(facts, _REMEDY)
    if address is None:  # each process has its own copy of a run in a store
        check_same_folder(Path(run_dir), f"--run-dir {run_dir}")


def check_same_settings(config: ResolvedConfig, warm_start: Path | None) -> None:
    """Checks that all processes resolved the same settings, and start from the same run.

    Args:
      config: the resolved settings of a new run.
      warm_start: a local copy of the run to start from, or None.

    Raises:
      InputError: the processes differ; raised in all.
    """
    facts = _settings_facts(config)
    if warm_start is not None and (manifest := manifest_path(warm_start)).exists():
        facts["checksum of the run of --warm-start"] = str(fingerprint(manifest)[1])
    check_equal(facts, _REMEDY)


def _settings_facts(config: Config) -> dict[str, str]:
    return {field.name: repr(getattr(config, field.name)) for field in dataclasses.fields(Config)}


def _data_facts(data: object) -> dict[str, str]:
    """The facts that are known of the data before they are read."""
    if isinstance(data, Dataset):
        return dataset_facts(data)
    return {"data": SYNTHETIC if data == SYNTHETIC else "files"}

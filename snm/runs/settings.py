"""The settings that a run trains with: what is asked for, and what it began with."""

from __future__ import annotations

import dataclasses
from typing import Any

from snm.config.fields import GROUPS
from snm.config.marks import Trait, settings_with
from snm.config.resolve import resolve
from snm.config.resolved import RESOLVED, ResolvedConfig, changed_by_data
from snm.config.settings import Config
from snm.data.dataset import Dataset
from snm.runs.folder import RunFolder
from snm.runs.manifest import MAY_CHANGE

__all__ = ["given_of_run", "settings_of_run"]

_KEPT = settings_with(GROUPS, Trait.FIXED_AT_START)


def settings_of_run(folder: RunFolder, config: Config, dataset: Dataset) -> ResolvedConfig:
    """The settings, resolved for the data set, and as the run began where it may go on.

    Args:
      folder: of the run; it need not exist.
      config: what is asked for.
      dataset: as loaded.

    Raises:
      InputError: settings that do not suit the data set or the run, or a damaged run.
    """
    return resolve(_with_recorded_choices(folder, config, dataset.sha256), dataset)


def given_of_run(
    folder: RunFolder, config: Config, resolved: ResolvedConfig
) -> dict[str, Any] | None:
    """What `run.json` says of the settings as they were given: `RunOrigin.given`.

    A run that goes on keeps what it began with, however its settings are given now; but for those
    that may change, of which the last call counts. A run of an earlier version, which noted
    nothing, stays so.

    Args:
      folder: of the run; it need not exist. If it does, it is a run with these settings.
      config: what is asked for.
      resolved: the same settings, as `settings_of_run` has them.

    Raises:
      InputError: a damaged run.
    """
    now = changed_by_data(config, resolved)
    if not folder.config.exists():
        return now
    begun = folder.read_origin().given
    if begun is None:
        return None
    either = {name: now if name in MAY_CHANGE else begun for name in RESOLVED}
    return {name: given[name] for name, given in either.items() if name in given}


def _with_recorded_choices(folder: RunFolder, config: Config, sha256: str) -> Config:
    """The settings, with what the run chose for those that it keeps and that are left open.

    So a run of 3 passes, which has no dropout, keeps that where more passes are asked for. Of a run
    on other data nothing is kept: `RunFolder.check` refuses it.

    Args:
      folder: of the run.
      config: what is asked for.
      sha256: of the data.

    Raises:
      InputError: another of these settings than the run's is asked for.
    """
    left_open = [name for name in _KEPT if getattr(config, name) == "auto"]
    if not left_open or not folder.config.exists():
        return config
    begun = folder.settings()
    if folder.read_origin().sha256 != sha256:
        return config
    for name in _KEPT:
        if name not in left_open:
            folder.refuse_other(name, getattr(begun, name), getattr(config, name))
    return dataclasses.replace(config, **{name: getattr(begun, name) for name in left_open})

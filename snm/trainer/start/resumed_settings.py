"""Resolves the settings of a run; a resumed run keeps the choices that it started with."""

from __future__ import annotations

import dataclasses
from typing import Any

from snm.config.fields import settings_with
from snm.config.marks import Trait
from snm.config.resolve import resolve
from snm.config.resolved import RESOLVED, ResolvedConfig, changed_by_data
from snm.config.settings import Config
from snm.data.dataset import Dataset
from snm.runs.folder import RunFolder
from snm.runs.manifest import MAY_CHANGE

__all__ = ["given_settings", "resolve_for_run"]

_KEPT_SETTINGS = settings_with(Trait.FIXED_AT_START)


def resolve_for_run(folder: RunFolder, config: Config, dataset: Dataset) -> ResolvedConfig:
    """Resolves settings for the data set and the run folder.

    A resumed run keeps the choices that it made for settings that are `auto`.

    Args:
      folder: of the run; it need not exist.
      config: the settings as the user gave them.
      dataset: as loaded.

    Raises:
      InputError: settings that do not suit the data set or the run, or a damaged run.
    """
    return resolve(_keep_recorded_choices(folder, config, dataset.sha256), dataset)


def given_settings(folder: RunFolder, config: Config, resolved: ResolvedConfig) -> dict[str, Any]:
    """The settings as they were given, for `RunOrigin.given` of `run.json`.

    A resumed run keeps the values that it started with. Settings that may change take the values of
    the last call.

    Args:
      folder: of the run; it need not exist. If it does, it is a run with these settings.
      config: the settings as the user gave them.
      resolved: the same settings, from `resolve_for_run`.

    Raises:
      InputError: a damaged run.
    """
    given_now = changed_by_data(config, resolved)
    if not folder.config.exists():
        return given_now
    given_at_start = folder.read_origin().given
    given = {}
    for name in RESOLVED:
        source = given_now if name in MAY_CHANGE else given_at_start
        if name in source:
            given[name] = source[name]
    return given


def _keep_recorded_choices(folder: RunFolder, config: Config, sha256: str) -> Config:
    """Replaces `auto` by the choice of the run, for the settings that a resumed run keeps.

    So a run of 3 passes without dropout stays without dropout if it is resumed with more passes. If
    the data differ, nothing is replaced: `RunFolder.check` refuses such a run.

    Args:
      folder: of the run.
      config: the settings as the user gave them.
      sha256: of the data.

    Raises:
      InputError: one of these settings differs from that of the run.
    """
    auto = [name for name in _KEPT_SETTINGS if getattr(config, name) == "auto"]
    if not auto or not folder.config.exists():
        return config
    recorded = folder.settings()
    if folder.read_origin().sha256 != sha256:
        return config
    for name in _KEPT_SETTINGS:
        if name not in auto:
            folder.check_unchanged(name, getattr(recorded, name), getattr(config, name))
    return dataclasses.replace(config, **{name: getattr(recorded, name) for name in auto})

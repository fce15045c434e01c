"""The parameters of the estimator -> settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from snm.config.auto import auto_weighting
from snm.config.fields import GROUPS
from snm.config.marks import Trait, settings_with
from snm.config.resolved import ResolvedConfig
from snm.config.settings import PRESETS, Config, preset
from snm.data.weighting import filled
from snm.errors import InputError, nearest
from snm.memory.sizes import MIN_POINTS

__all__ = ["config_of", "stopped_early", "weighted_for", "with_memory_for"]

_OF_RUNS = settings_with(GROUPS, Trait.RUN_ONLY)
_KNOWN = {field.name for field in dataclasses.fields(Config)}.difference(_OF_RUNS)
_SMALLEST_BATCH, _STEPS_AN_EPOCH = 16, 16
_LEAST_STANDARDIZED = 30  # points of a first `partial_fit`


def config_of(
    name: str,
    given: Mapping[str, Any],
    settings: Mapping[str, Any] | None,
    *,
    num_points: int,
    seed: int,
) -> Config:
    """The settings that the parameters describe, not yet resolved.

    Args:
      name: of a preset.
      given: the parameters. Those that are settings of the same name count; None leaves the
        preset's.
      settings: further fields of Config.
      num_points: training points; few make the batches smaller, where no size is given.
      seed: of the run.

    Raises:
      InputError: an unknown preset or field, or a field that an estimator does not use.
    """
    if name not in PRESETS:
        raise InputError("preset", repr(name), f"one of {', '.join(PRESETS)}")
    start = preset(name)
    values = {key: value for key, value in given.items() if key in _KNOWN and value is not None}
    asked = "batch_size" in values or "batch_size" in (settings or {})
    if not asked and num_points < start.batch_size * _STEPS_AN_EPOCH:
        # With one or two steps an epoch there would be too few steps in all.
        values["batch_size"] = min(
            start.batch_size, max(_SMALLEST_BATCH, num_points // _STEPS_AN_EPOCH)
        )
    if not isinstance(settings or {}, Mapping):
        raise InputError("settings", f"{settings!r}"[:80], "a mapping of settings to values")
    for key, value in (settings or {}).items():
        if key in _OF_RUNS:
            found, expected = "a setting of runs", "a parameter, or snm.train"
            raise InputError(f"settings: {key}", found, expected)
        if key not in _KNOWN:
            expected = nearest(key, _KNOWN, "a setting, as in the config.toml of a run")
            raise InputError(f"settings: {key}", "an unknown key", expected)
        if values.get(key, value) != value:
            raise InputError(f"settings: {key}", "another value than the parameter's", "one")
        values[key] = value
    # Classes are numbered by their order: equal counts of classes and features mean nothing.
    return dataclasses.replace(start, **values, seed=seed, seen="keep")


def weighted_for(config: Config, features: csr_matrix, *, in_parts: bool) -> Config:
    """The settings with a weighting for `auto`, which is never TF-IDF: features may have it.

    Args:
      config: the settings.
      features: CSR [n, d], of the training points.
      in_parts: whether more points may follow.
    """
    if config.weighting != "auto":
        return config
    few = in_parts and features.shape[0] < _LEAST_STANDARDIZED
    kind = auto_weighting(0.0 if few else filled(features), negative=True)
    return dataclasses.replace(config, weighting=kind)


def with_memory_for(config: Config, num_points: int, *, in_parts: bool, threshold: bool) -> Config:
    """The settings with a memory where a threshold needs its points, and without one in parts.

    Args:
      config: the settings.
      num_points: training points.
      in_parts: whether more points may follow.
      threshold: whether there is one, and no word on the memory.

    Raises:
      InputError: a memory that cannot be, or too few points for a threshold.
    """
    if in_parts:
        if config.memory == "on":
            expected = "`auto` or `off`: only fit can hold out the points that choose it"
            raise InputError("memory", "'on' in the first call of partial_fit", expected)
        return dataclasses.replace(config, memory="off")
    if not threshold:
        return config
    if num_points < MIN_POINTS:
        found = f"{num_points} training points"
        expected = f"at least {MIN_POINTS}, of which some tell the probabilities, or None"
        raise InputError("threshold", found, expected)
    return dataclasses.replace(config, memory="on")  # its points tell the probabilities


def stopped_early(config: ResolvedConfig, share: float, patience: int) -> ResolvedConfig:
    """The settings of a fit that stops early.

    Args:
      config: the settings of one that does not.
      share: of the points, those to hold out and watch (`validation_fraction`).
      patience: epochs without a better precision at 1 after which to stop (`n_iter_no_change`).

    Raises:
      InputError: a share or a patience out of range.
    """
    if not 0 < share < 1:
        raise InputError("validation_fraction", repr(share), "a share above 0 and below 1")
    if not isinstance(patience, int | np.integer) or patience < 1:
        raise InputError("n_iter_no_change", repr(patience), "a number of epochs, 1 or more")
    return dataclasses.replace(config, validation_fraction=share, patience=int(patience))

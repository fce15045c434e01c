"""Converts the parameters of the estimator to settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from snm.batches.schedule import last_epoch_factor
from snm.config.auto import MIN_MEMORY_POINTS, auto_weighting
from snm.config.fields import settings_with
from snm.config.marks import Trait
from snm.config.resolved import ResolvedConfig
from snm.config.settings import Config, preset
from snm.errors import InputError
from snm.text import nearest

__all__ = [
    "check_flags",
    "for_one_pass",
    "make_config",
    "with_constant_rate",
    "with_early_stopping",
    "with_memory",
    "with_weighting",
]

_RUN_ONLY = settings_with(Trait.RUN_ONLY)
_KNOWN = {field.name for field in dataclasses.fields(Config)}.difference(_RUN_ONLY)
_MIN_BATCH, _MIN_STEPS_PER_EPOCH = 16, 16
_SEED_STRIDE = 7_368_787  # between the seeds of consecutive `partial_fit` calls
_MIN_STANDARDIZED = 30  # points of a first `partial_fit` to choose `standard` by


def make_config(
    preset_name: str,
    params: Mapping[str, Any],
    settings: Mapping[str, Any] | None,
    *,
    num_points: int,
    seed: int,
) -> Config:
    """The settings that the parameters describe, not yet resolved.

    Args:
      preset_name: the name of the preset.
      params: the parameters of the estimator. Those with the name of a setting are used; None
        keeps the value of the preset.
      settings: further fields of Config.
      num_points: training points; with few, the default batch size is smaller.
      seed: the seed of the run.

    Raises:
      InputError: an unknown preset or field, or a field that an estimator does not use.
    """
    base = preset(preset_name)
    values = {key: value for key, value in params.items() if key in _KNOWN and value is not None}
    has_batch_size = "batch_size" in values or "batch_size" in (settings or {})
    if not has_batch_size and num_points < base.batch_size * _MIN_STEPS_PER_EPOCH:
        # With one or two steps per epoch, the steps of all epochs would be too few.
        values["batch_size"] = min(
            base.batch_size, max(_MIN_BATCH, num_points // _MIN_STEPS_PER_EPOCH)
        )
    if not isinstance(settings or {}, Mapping):
        raise InputError("settings", f"{settings!r}"[:80], "a mapping of settings to values")
    for key, value in (settings or {}).items():
        if key in _RUN_ONLY:
            found, expected = "a setting of runs", "a parameter, or snm.train"
            raise InputError(f"settings: {key}", found, expected)
        if key not in _KNOWN:
            expected = nearest(key, _KNOWN, "a setting, as in the config.toml of a run")
            raise InputError(f"settings: {key}", "an unknown key", expected)
        if values.get(key, value) != value:
            raise InputError(f"settings: {key}", "another value than the parameter's", "one")
        values[key] = value
    # Classes are numbered in sorted order, so a class and a feature of one number are unrelated.
    return dataclasses.replace(base, **values, seed=seed, seen="keep")


def check_flags(early_stopping: Any, verbose: Any) -> None:
    """Checks the parameters that say yes or no, as scikit-learn does.

    Args:
      early_stopping: a bool.
      verbose: a bool, or an integer of at least 0.

    Raises:
      InputError: something else, such as a text, which would count as True.
    """
    if not isinstance(early_stopping, bool | np.bool_):
        raise InputError("early_stopping", f"{early_stopping!r:.40}", "True or False")
    if not isinstance(verbose, bool | np.bool_ | int | np.integer) or verbose < 0:
        raise InputError("verbose", f"{verbose!r:.40}", "True, False, or a number of at least 0")


def with_weighting(config: Config, features: csr_matrix, *, in_parts: bool) -> Config:
    """The settings with `auto` weighting resolved; never to TF-IDF, which X may already have.

    Args:
      config: the settings.
      features: CSR [n, d], the features of the training points.
      in_parts: whether more points may follow.
    """
    if config.weighting != "auto":
        return config
    few = in_parts and features.shape[0] < _MIN_STANDARDIZED
    kind = auto_weighting(features, negative=True, may_center=not few)
    return dataclasses.replace(config, weighting=kind)


def with_memory(config: Config, num_points: int, *, in_parts: bool, threshold: bool) -> Config:
    """The settings with a memory if a threshold needs one, and without one in `partial_fit`.

    Args:
      config: the settings.
      num_points: training points.
      in_parts: whether more points may follow.
      threshold: whether there is a threshold, and `memory` is not set.

    Raises:
      InputError: a memory in `partial_fit`, or too few points for a threshold.
    """
    if in_parts:
        if config.memory == "on":
            expected = "`auto` or `off`: only fit can hold out the points that choose it"
            raise InputError("memory", "'on' in the first call of partial_fit", expected)
        return dataclasses.replace(config, memory="off")
    if not threshold:
        return config
    if num_points < MIN_MEMORY_POINTS:
        found = f"{num_points} training points"
        expected = f"at least {MIN_MEMORY_POINTS}, of which some tell the probabilities, or None"
        raise InputError("threshold", found, expected)
    return dataclasses.replace(config, memory="on")  # its held-out points fit the probabilities


def with_early_stopping(config: ResolvedConfig, share: float, patience: int) -> ResolvedConfig:
    """The settings with early stopping.

    Args:
      config: the settings without early stopping.
      share: the share of the points to hold out (`validation_fraction`).
      patience: epochs without a better precision at 1 after which to stop (`n_iter_no_change`).

    Raises:
      InputError: a share or a patience out of range.
    """
    if not 0 < share < 1:
        raise InputError("validation_fraction", repr(share), "a share above 0 and below 1")
    if not isinstance(patience, int | np.integer) or patience < 1:
        raise InputError("n_iter_no_change", repr(patience), "a number of epochs, 1 or more")
    return dataclasses.replace(config, validation_fraction=share, patience=int(patience))


def with_constant_rate(config: ResolvedConfig) -> ResolvedConfig:
    """The settings with a rate that can stay constant, for `partial_fit` without a `fit` before.

    A default rate is the first of a schedule that decays, for the batch size of the preset. Kept
    constant in the smaller batches of few points, it does not converge. So it becomes the mean rate
    of the schedule, times the share of the preset's batch size: at constant rates, the noise of the
    parameters grows with the rate over the batch size.

    Args:
      config: the settings; the user set no learning rate.
    """
    factor = last_epoch_factor(config.schedule, 1)
    factor *= min(1.0, config.batch_size / preset(config.preset).batch_size)
    return dataclasses.replace(config, learning_rate=config.learning_rate * factor)


def for_one_pass(
    config: ResolvedConfig, num_points: int, *, part: int, after_fit: bool
) -> ResolvedConfig:
    """The settings of a call of `partial_fit`: one pass at constant rates.

    A fit ends at low rates, where the noise of single points is small. At its first rates, one step
    would undo that. So a pass after a fit has the mean rates of the last epoch. A step divides by
    its number of points if these are fewer than a batch has, so the rates are multiplied by their
    share of a batch: a point weighs the same in parts of any size (with `sgd`; `adagrad`
    normalizes the gradient, and learns less from small parts).

    Args:
      config: the settings of the first call.
      num_points: points of the call with a label.
      part: the number of the call, from 1; each has another seed.
      after_fit: whether the first call was `fit`.
    """
    factor = min(1.0, num_points / config.batch_size)
    if after_fit:
        factor *= last_epoch_factor(config.schedule, config.epochs)
    return dataclasses.replace(
        config,
        epochs=1,
        schedule="constant",
        learning_rate=config.learning_rate * factor,
        tower_learning_rate=config.tower_learning_rate * factor,
        scale_learning_rate=config.scale_learning_rate * factor,
        sampled_start=0,
        mined_start=0,
        seed=config.seed + _SEED_STRIDE * part,
    )

"""From the parameters of the estimator to the settings of a run."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from typing import Any

from snm.config.settings import PRESETS, Config, preset
from snm.errors import InputError

__all__ = ["SETTINGS", "config_of"]

# Parameters that are settings of the same name; None leaves the preset's.
SETTINGS = (
    "weighting", "input_dropout", "dim", "encoder", "score_scale", "bias", "loss", "phi",
    "sampled", "mined", "exclude", "positives", "members", "epochs", "batch_size",
    "learning_rate", "schedule", "row_optimizer", "compute_dtype",
)  # fmt: skip
# What a run folder has and a fit in memory has not.
_OF_RUNS = {
    "preset", "seed", "validation_fraction", "evaluate_every", "patience", "monitor", "refit",
    "propensity_a", "propensity_b", "checkpoint_every", "keep_checkpoints", "seen",
}  # fmt: skip
_SMALLEST_BATCH, _STEPS_AN_EPOCH = 16, 16


def config_of(
    name: str,
    given: Mapping[str, Any],
    settings: Mapping[str, Any] | None,
    *,
    num_points: int,
    seed: int,
) -> Config:
    """The settings that parameters stand for, not yet resolved.

    Args:
      name: of a preset.
      given: values of SETTINGS; None leaves the preset's.
      settings: further fields of Config.
      num_points: training points; few make the batches smaller, where no size is given.
      seed: of the run.

    Raises:
      InputError: an unknown preset or field, or one that an estimator has no use for.
    """
    if name not in PRESETS:
        raise InputError("preset", repr(name), f"one of {', '.join(PRESETS)}")
    start = preset(name)
    values = {key: value for key, value in given.items() if value is not None}
    if "batch_size" not in values and num_points < start.batch_size * _STEPS_AN_EPOCH:
        # A step or two an epoch would be a handful of steps in all.
        values["batch_size"] = min(
            start.batch_size, max(_SMALLEST_BATCH, num_points // _STEPS_AN_EPOCH)
        )
    known = {field.name for field in dataclasses.fields(Config)} - _OF_RUNS
    for key, value in (settings or {}).items():
        if key in _OF_RUNS:
            found, expected = "a setting of runs", "a parameter, or snm.train"
            raise InputError(f"settings: {key}", found, expected)
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.0)[0]
            raise InputError(f"settings: {key}", "an unknown key", f"for example {near}")
        if values.get(key, value) != value:
            raise InputError(f"settings: {key}", "another value than the parameter's", "one")
        values[key] = value
    # Classes are numbered by their order, so they are no features, whatever the numbers say.
    return dataclasses.replace(start, **values, seed=seed, seen="keep")

"""Settings of one training on one data set: every `auto` has become a value."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Literal

from snm.config.settings import Config, config_of, read_toml
from snm.errors import InputError

__all__ = [
    "RESOLVED",
    "ResolvedConfig",
    "given_otherwise",
    "read_resolved",
    "resolved_of",
    "unresolved_values",
]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ResolvedConfig(Config):
    """Settings with a value wherever `Config` allows an `auto` that depends on the data.

    `snm.config.resolve.resolve` makes them. `sampled` and `mined` may still be `all`, which stands
    for all other labels and for all that are sampled.

    `data_on`, `mesh`, `steps_per_dispatch` and `mining_kernel` are as they were asked for. They
    describe the machine, not the data: they are settled in each process (`snm.trainer.prepare`,
    `snm.topk.kernel.choice`), since a run may go on on another machine.
    """

    # `field()` takes the default of `Config` away: each must be given.
    weighting: Literal["tfidf", "l2", "standard", "none"] = field()
    input_dropout: float = field()
    label_text: Literal["on", "off"] = field()
    feature_init: float = field()
    score_scale: float = field()
    learn_score_scale: bool = field()
    class_init: Literal["centroid", "random"] = field()
    sampled: int | Literal["all"] = field()
    mined: int | Literal["all"] = field()
    seen: Literal["keep", "drop"] = field()
    item_splits: int = field()
    memory: Literal["on", "off"] = field()
    logit_adjustment: Literal["on", "off"] = field()
    members: int = field()
    members_at_once: int = field()
    epochs: int = field()
    learning_rate: float = field()


RESOLVED = tuple(ResolvedConfig.__annotations__)
"""The settings whose `auto` depends on the data."""


def unresolved_values(config: Config) -> dict[str, Any]:
    """The settings that resolving leaves as they are: all but `RESOLVED`."""
    names = (one.name for one in dataclasses.fields(Config))
    return {name: getattr(config, name) for name in names if name not in RESOLVED}


def given_otherwise(given: Config, resolved: ResolvedConfig) -> dict[str, Any]:
    """The settings whose value was chosen for the data: name -> what was given, such as `auto`.

    The other settings have the value that was given, by a flag, a file or the preset.

    Args:
      given: the settings before they were resolved.
      resolved: the same settings after.
    """
    return {
        name: getattr(given, name)
        for name in RESOLVED
        if getattr(given, name) != getattr(resolved, name)
    }


def read_resolved(path: str | Path) -> ResolvedConfig:
    """The settings of a run, from its `config.toml`.

    Raises:
      InputError: no such file, no TOML, or as `resolved_of`.
    """
    return resolved_of(read_toml(path), str(path))


def resolved_of(values: Mapping[str, Any], where: str) -> ResolvedConfig:
    """The settings of a run from what it wrote: a value for each name.

    Raises:
      InputError: as `config_of`; or a setting is missing, or one is `auto` that every run has a
        value of. It begins with `where`.
    """
    config = config_of(values, where)
    if missing := [one.name for one in dataclasses.fields(Config) if one.name not in values]:
        expected = "all settings: it is cut off, or of another version of snm (train again)"
        raise InputError(where, f"no {missing[0]}", expected)
    resolved = {name: getattr(config, name) for name in RESOLVED}
    for name, value in resolved.items():
        if value == "auto":
            raise InputError(f"{where}: {name}", "auto", "a value, as `snm train` writes it")
    return ResolvedConfig(**unresolved_values(config), **resolved)

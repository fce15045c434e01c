"""The settings of one training on one data set, with a value for every `auto`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Literal

from snm.config.settings import Config, parse_config, read_toml
from snm.errors import InputError

__all__ = [
    "RESOLVED",
    "ResolvedConfig",
    "changed_by_data",
    "parse_resolved",
    "read_resolved",
    "unresolved_values",
]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ResolvedConfig(Config):
    """Settings with a value wherever `Config` allows an `auto` that depends on the data.

    `snm.config.resolve.resolve` makes them. `sampled` and `mined` may still be `all`, which stands
    for all other labels and for all that are sampled.

    `data_on`, `mesh`, `steps_per_dispatch` and `mining_kernel` keep the values that were asked for.
    They describe the machine, not the data. Each process resolves them
    (`snm.trainer.start.prepare`, `snm.topk.kernel.choice`), since a run may resume on another
    machine.
    """

    # `field()` removes the default of `Config`: each value is required.
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
    propensity_a: float = field()
    propensity_b: float = field()


RESOLVED = tuple(ResolvedConfig.__annotations__)
"""The settings whose `auto` depends on the data."""


def unresolved_values(config: Config) -> dict[str, Any]:
    """The settings that `resolve` does not change: all but `RESOLVED`."""
    names = (setting.name for setting in dataclasses.fields(Config))
    return {name: getattr(config, name) for name in names if name not in RESOLVED}


def changed_by_data(given: Config, resolved: ResolvedConfig) -> dict[str, Any]:
    """The settings whose value was chosen for the data: name -> the value before, such as `auto`.

    All other settings keep the value of a flag, a file or the preset.

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
      InputError: no such file, no TOML, or as `parse_resolved`.
    """
    return parse_resolved(read_toml(path), str(path))


def parse_resolved(values: Mapping[str, Any], where: str) -> ResolvedConfig:
    """Parses the settings that a run wrote: a value for each name.

    Raises:
      InputError: as `parse_config`; or a setting is missing, or is `auto` where every run has a
        value. It begins with `where`.
    """
    config = parse_config(values, where)
    if missing := [s.name for s in dataclasses.fields(Config) if s.name not in values]:
        expected = "all settings: it is cut off, or of another version of snm (train again)"
        raise InputError(where, f"no {missing[0]}", expected)
    resolved = {name: getattr(config, name) for name in RESOLVED}
    for name, value in resolved.items():
        if value == "auto":
            raise InputError(f"{where}: {name}", "auto", "a value, as `snm train` writes it")
    return ResolvedConfig(**unresolved_values(config), **resolved)

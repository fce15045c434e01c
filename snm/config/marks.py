"""Metadata of settings: their ranges, the settings that control their use, and their traits.

They are arguments of `typing.Annotated` in `snm.config.fields`.
"""

from __future__ import annotations

import dataclasses
import enum
import importlib
from collections.abc import Callable, Collection
from typing import Any

__all__ = [
    "TABLES",
    "Limit",
    "Trait",
    "UsedIf",
    "above",
    "at_least",
    "between",
    "load_table",
    "used_by_object",
    "used_if",
    "used_unless",
]

TABLES = {
    "loss": ("snm.losses.sampled.table", "LOSSES"),
    "phi": ("snm.losses.surrogates", "SURROGATES"),
    "transformation": ("snm.losses.transformations", "TRANSFORMATIONS"),
    "vartheta": ("snm.losses.sampled.options", "RANK_SHAPES"),
    "sampler": ("snm.sampling.samplers", "SAMPLERS"),
    "schedule": ("snm.config.schedules", "SCHEDULES"),
    "row_optimizer": ("snm.tables.optimizers", "ROW_OPTIMIZERS"),
}
"""Settings that name an object of a table. Most modules import jax, which `--help` must not."""


def load_table(setting: str) -> dict[str, Any]:
    """Imports the table of a setting in `TABLES`: name -> object."""
    module, table = TABLES[setting]
    return getattr(importlib.import_module(module), table)


@dataclasses.dataclass(frozen=True)
class Limit:
    """The range of a numeric setting; words such as `auto` are not checked by it.

    Attributes:
      allows: whether a number is in the range.
      expected: the range in words, for error messages.
    """

    allows: Callable[[float], bool]
    expected: str


def at_least(least: float) -> Limit:
    """Numbers from `least` on."""
    return Limit(lambda value: value >= least, f"{least} or more")


def above(limit: float) -> Limit:
    """Numbers above `limit`."""
    return Limit(lambda value: value > limit, f"a number above {limit}")


def between(low: float, high: float) -> Limit:
    """Numbers from `low` to `high`."""
    return Limit(lambda value: low <= value <= high, f"{low} to {high}")


@dataclasses.dataclass(frozen=True)
class UsedIf:
    """Marks a setting that is used only for some values of others, the controlling settings.

    Attributes:
      settings: the controlling settings; each must have a value that uses the marked one. A message
        names the last one that does not.
      is_used: (setting, controlling setting, value of the latter) -> whether this value uses it.
      values: (setting, controlling setting) -> the values of the latter that use it, for error
        messages.
      expected: what error messages expect, of `{default}`, that of the setting, and `{values}`.
    """

    settings: tuple[str, ...]
    is_used: Callable[[str, str, Any], bool]
    values: Callable[[str, str], str]
    expected: str = "{default}, or {values}"


def used_if(setting: str, *values: str) -> UsedIf:
    """Used if the other setting has one of these values."""
    return UsedIf(
        (setting,), lambda _, __, value: value in values, lambda _, __: " or ".join(values)
    )


def used_unless(setting: str, off: Any, others: str) -> UsedIf:
    """Used unless the other setting is `off`; `others` describes the other values."""
    return UsedIf((setting,), lambda _, __, value: value != off, lambda _, __: others)


def used_by_object(*settings: str, expected: str = UsedIf.expected) -> UsedIf:
    """Used if each object that these settings name lists the setting in its `option_names`."""

    def is_used(name: str, setting: str, value: str) -> bool:
        listed = getattr(load_table(setting)[value], "option_names", ())
        # That of a loss is a property, if its class was registered in place of an object.
        return isinstance(listed, Collection) and name in listed

    def values(name: str, setting: str) -> str:
        return " or ".join(value for value in load_table(setting) if is_used(name, setting, value))

    return UsedIf(settings, is_used, values, expected)


class Trait(enum.Enum):
    """A property of a setting, which may have several; `fields.settings_with` finds them."""

    MAY_CHANGE = enum.auto()
    """It may differ when a run resumes, because it does not affect the steps done."""
    FIXED_AT_START = enum.auto()
    """Its `auto` depends on what may differ when a run resumes: `epochs`, the number of processes,
    the machine's memory, or the name of the data's folder. So a run keeps its first value. Settings
    that follow from it, such as `class_init` from `item_splits`, need no mark."""
    RUN_ONLY = enum.auto()
    """Only runs with a run folder use it, not fits in memory."""

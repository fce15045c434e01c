"""What stands beside the type of a setting: its limits, what decides on it, and who asks for it.

They are metadata of `typing.Annotated`, in `snm.config.fields`.
"""

from __future__ import annotations

import dataclasses
import enum
import importlib
from collections.abc import Callable, Iterator
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

__all__ = [
    "TABLES",
    "Decides",
    "Fact",
    "Limit",
    "above",
    "at_least",
    "between",
    "marks_of",
    "objects_of",
    "read_by",
    "read_if",
    "read_unless",
    "settings_with",
]

Mark = TypeVar("Mark")

TABLES = {
    "loss": ("snm.losses.sampled.table", "LOSSES"),
    "phi": ("snm.losses.surrogates", "SURROGATES"),
    "transformation": ("snm.losses.transformations", "TRANSFORMATIONS"),
    "vartheta": ("snm.losses.sampled.options", "RANK_SHAPES"),
    "sampler": ("snm.sampling.samplers", "SAMPLERS"),
    "row_optimizer": ("snm.tables.optimizers", "ROW_OPTIMIZERS"),
}
"""Settings that name an object of a table. The tables import jax, which `--help` must not."""


def objects_of(setting: str) -> dict[str, Any]:
    """The table of a setting of `TABLES`: name -> object."""
    module, table = TABLES[setting]
    return getattr(importlib.import_module(module), table)


@dataclasses.dataclass(frozen=True)
class Limit:
    """What numbers a setting may have; words such as `auto` are beyond it.

    Attributes:
      allows: whether it may have a number.
      says: what is expected, for messages.
    """

    allows: Callable[[float], bool]
    says: str


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
class Decides:
    """Another setting, which decides whether one is read.

    Attributes:
      setting: the other one.
      reads: whether the setting (first) is read where the other one has a value (second).
      which: the values with which the setting is read, as they follow the flag of the other one.
    """

    setting: str
    reads: Callable[[str, Any], bool]
    which: Callable[[str], str]


def read_if(setting: str, *values: str) -> Decides:
    """Read where the other setting has one of these values."""
    return Decides(setting, lambda _, value: value in values, lambda _: " or ".join(values))


def read_unless(setting: str, off: Any, others: str) -> Decides:
    """Read where the other setting is not `off`; `others` says what else it can be."""
    return Decides(setting, lambda _, value: value != off, lambda _: others)


def read_by(setting: str) -> Decides:
    """Read where the object that the other setting names has the name in its `reads`, if any."""

    def reads(name: str, of: str) -> bool:
        return name in getattr(objects_of(setting)[of], "reads", ())

    def which(name: str) -> str:
        return " or ".join(of for of in objects_of(setting) if reads(name, of))

    return Decides(setting, reads, which)


class Fact(enum.Enum):
    """What is true of a setting; it may have several, which `settings_with` finds."""

    MAY_CHANGE = enum.auto()
    """It may differ when a run continues, because it does not affect the steps done."""
    KEPT = enum.auto()
    """Its `auto` looks at what may differ then: `epochs`, the number of processes, or the machine's
    memory. So a run keeps what it began with. What follows from that, such as `class_init` from
    `item_splits`, needs no mark."""
    OF_RUNS = enum.auto()
    """A run folder uses it, and a fit in memory does not."""


def marks_of(groups: tuple[type, ...], kind: type[Mark]) -> dict[str, Mark]:
    """The marks of a kind that stand beside the types of the fields of some dataclasses.

    Args:
      groups: the dataclasses.
      kind: class of the marks, of which a field has at most one.

    Returns:
      name of a field -> its mark; without the fields that have none.
    """
    return {name: mark for name, mark in _marks(groups) if isinstance(mark, kind)}


def settings_with(groups: tuple[type, ...], fact: Fact) -> tuple[str, ...]:
    """The names of the fields of some dataclasses that a fact is true of, in their order."""
    return tuple(name for name, mark in _marks(groups) if mark is fact)


def _marks(groups: tuple[type, ...]) -> Iterator[tuple[str, Any]]:
    """The fields that have marks, once with each."""
    for group in groups:
        for name, hint in get_type_hints(group, include_extras=True).items():
            if get_origin(hint) is Annotated:
                yield from ((name, mark) for mark in get_args(hint)[1:])

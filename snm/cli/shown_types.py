"""Changes the types of verbs for tyro, so that their help has better placeholders and defaults.

`snm train --help` shows a box for each group of settings. `Config` is flat, and tyro shows a box
for each dataclass. So verbs are parsed with the base classes of `Config` instead;
`flatten_settings` joins them afterwards.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from tyro.conf import OmitArgPrefixes, arg

from snm.config.fields import GROUPS
from snm.config.marks import TABLES
from snm.config.settings import Config

__all__ = [
    "as_declared",
    "fields_with_marks",
    "flatten_settings",
    "in_groups",
    "shown_type",
    "with_groups",
]

# What the value of a setting is, where tyro would show STR. `snm.config` does not import tyro.
_PLACEHOLDERS = dict.fromkeys(TABLES, "NAME") | {
    "monitor": "METRIC",
    "mesh": "AXIS=N,...",
    "coordinator": "HOST:PORT",
}
_NOTHING = ("", "''", "None")  # how tyro writes a default of no value
_GROUP_TYPES = {kind.__name__.removesuffix("Settings").lower(): kind for kind in GROUPS}
# Titles of boxes that differ from the name of the group in the code; tyro appends " options".
_TITLES = {
    "input": "feature",
    "loss": "loss and sampling",
    "answer": "after-training",
}


def fields_with_marks(kind: Any) -> Iterator[tuple[dataclasses.Field[Any], Any, tuple[Any, ...]]]:
    """The fields of a dataclass, each with its type and the marks that `Annotated` adds to it."""
    hints = get_type_hints(kind, include_extras=True)
    for field in dataclasses.fields(kind):
        hint = hints[field.name]
        plain, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        yield field, plain, tuple(marks)


@functools.cache
def shown_type(kind: type) -> Any:
    """A subclass of a dataclass for tyro to parse; `as_declared` converts its instances.

    Its help leaves out defaults of no value, such as `(default: None)`, and names values by what
    they are. Dataclasses in its fields are replaced too, but for settings, which `with_groups`
    replaces.
    """
    fields = []
    for field, plain, marks in fields_with_marks(kind):
        default, factory = field.default, field.default_factory
        if dataclasses.is_dataclass(plain) and plain is not Config:
            plain = factory = shown_type(plain)  # type: ignore[arg-type]
        elif plain is not Config:
            placeholder = _PLACEHOLDERS.get(field.name)
            marks = (*marks, arg(metavar=placeholder, help_behavior_hint=_default_hint))
        copied = dataclasses.field(default=default, default_factory=factory)
        fields.append((field.name, Annotated[(plain, *marks)] if marks else plain, copied))
    return dataclasses.make_dataclass(
        kind.__name__,
        fields,
        bases=(kind,),
        namespace={"__doc__": kind.__doc__, "__module__": kind.__module__, "declared": kind},
        kw_only=True,
        frozen=kind.__dataclass_params__.frozen,  # type: ignore[attr-defined]
    )


def as_declared(value: Any) -> Any:
    """Converts an instance of a `shown_type` to the dataclass itself; other values stay."""
    if not hasattr(type(value), "declared"):
        return value
    return value.declared(**{name: as_declared(part) for name, part in vars(value).items()})


def _default_hint(default: str) -> str:
    return "" if default in _NOTHING else f"(default: {default})"


# -- groups of settings --------------------------------------------------------------------------


@functools.cache
def _groups() -> Any:
    """A dataclass of the groups; made only for the verb that was asked for, as that takes time."""
    fields = [
        (name, Annotated[shown_type(kind), arg(name=_TITLES.get(name, name), prefix_name=False)])
        for name, kind in _GROUP_TYPES.items()
    ]
    return dataclasses.make_dataclass("_Groups", fields)


def with_groups(kind: type) -> Any:
    """The dataclass of a verb, with `settings` in groups."""
    settings = ("settings", OmitArgPrefixes[_groups()], dataclasses.field())  # type: ignore[misc]
    namespace = {"__doc__": kind.__doc__, "__module__": kind.__module__}
    return dataclasses.make_dataclass(
        kind.__name__, [settings], bases=(shown_type(kind),), namespace=namespace, kw_only=True
    )


def in_groups(config: Config) -> Any:
    """The settings as the groups that `with_groups` expects."""
    return _groups()(
        **{
            name: shown_type(kind)(
                **{field.name: getattr(config, field.name) for field in dataclasses.fields(kind)}
            )
            for name, kind in _GROUP_TYPES.items()
        }
    )


def flatten_settings(command: Any) -> Any:
    """Converts a parsed verb with groups to its own dataclass, with flat settings."""
    groups = vars(command.settings).values()
    settings = Config(**{name: value for group in groups for name, value in vars(group).items()})
    return as_declared(dataclasses.replace(command, settings=settings))

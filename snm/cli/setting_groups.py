"""The settings of a run in groups: `snm train --help` shows a box for each.

`Config` is flat, and tyro shows a box for each dataclass. So verbs are parsed with the base classes
of `Config` instead; `flatten_settings` joins them afterwards.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Annotated, Any

from tyro.conf import OmitArgPrefixes, arg

from snm.cli.shown_types import as_declared, shown_type
from snm.config.fields import GROUPS
from snm.config.settings import Config

__all__ = ["flatten_settings", "in_groups", "with_groups"]

_GROUP_TYPES = {kind.__name__.removesuffix("Settings").lower(): kind for kind in GROUPS}
# Titles of boxes that differ from the name of the group in the code; tyro appends " options".
_TITLES = {
    "input": "feature",
    "loss": "loss and sampling",
    "answer": "after-training",
}


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

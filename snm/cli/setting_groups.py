"""The settings of a run in groups: `snm train --help` shows a box for each.

`Config` is flat, and tyro makes a box of a dataclass. So verbs are parsed with the bases of
`Config` in its place, which are joined afterwards.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

from tyro.conf import OmitArgPrefixes, arg

from snm.config.fields import GROUPS
from snm.config.settings import Config

__all__ = ["in_groups", "joined", "with_groups"]

_KINDS = {kind.__name__.removesuffix("Settings").lower(): kind for kind in GROUPS}
# Of the boxes of `--help`, where a group is called otherwise in the code; " options" follows.
_TITLES = {
    "start": "preset",
    "input": "feature",
    "loss": "loss and sampling",
    "answer": "after-training",
}
_Groups: Any = dataclasses.make_dataclass(
    "_Groups",
    [
        (name, Annotated[kind, arg(name=_TITLES.get(name, name), prefix_name=False)])
        for name, kind in _KINDS.items()
    ],
)


def with_groups(kind: type) -> Any:
    """A verb's dataclass whose `settings` are in groups."""
    settings = ("settings", OmitArgPrefixes[_Groups], dataclasses.field())  # type: ignore[misc]
    about = {"__doc__": kind.__doc__, "__module__": kind.__module__}
    return dataclasses.make_dataclass(
        kind.__name__, [settings], bases=(kind,), namespace=about, kw_only=True
    )


def in_groups(config: Config) -> Any:
    """The settings as the groups that `with_groups` expects."""
    return _Groups(
        **{
            name: kind(**{one.name: getattr(config, one.name) for one in dataclasses.fields(kind)})
            for name, kind in _KINDS.items()
        }
    )


def joined(command: Any, kind: type) -> Any:
    """A parsed verb as its own dataclass, with flat settings."""
    groups = vars(command.settings).values()
    settings = Config(**{name: value for group in groups for name, value in vars(group).items()})
    return kind(**vars(command) | {"settings": settings})

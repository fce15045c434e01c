"""The settings of the loss, as the object that losses are configured with."""

from __future__ import annotations

import dataclasses
from typing import Any

from snm.config.checks import READ_WITH
from snm.config.settings import Config
from snm.losses.sampled import HeadLoss, LossOptions

__all__ = ["loss_options", "options_of_others"]

_SETTINGS = {field.name for field in dataclasses.fields(Config)}
_DEFAULTS: dict[str, Any] = {
    field.name: field.default
    for field in dataclasses.fields(LossOptions)
    if field.name in _SETTINGS
}
_OF_ANY_LOSS = {"retrieval_k"}
"""Options that `snm bounds` and `snm compare` read, whatever the loss is."""


def loss_options(config: Config, *, list_grade: float = 1.0) -> LossOptions:
    """The options of the loss; none of these settings is ever `auto`.

    Args:
      config: settings, resolved or not.
      list_grade: the option that is no setting: it follows from the score scale.
    """
    values = {name: getattr(config, name) for name in _DEFAULTS}
    return LossOptions(**values, list_grade=list_grade)


def options_of_others(loss: HeadLoss) -> dict[str, Any]:
    """The settings that other losses than this one read, and their defaults.

    Without those that another setting decides on: a file may hold them before that setting is
    known, and `snm.config.checks.unread` has them later.
    """
    without = loss.reads | READ_WITH.keys() | _OF_ANY_LOSS
    return {name: plain for name, plain in _DEFAULTS.items() if name not in without}

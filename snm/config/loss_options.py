"""Builds the `LossOptions` of a run from its settings."""

from __future__ import annotations

import dataclasses
from typing import Any

from snm.config.fields import USED_IF, LossSettings
from snm.losses.sampled import HeadLoss, LossOptions
from snm.losses.sampled.options import USED_WITH_ANY_LOSS

__all__ = ["loss_options", "unused_loss_options"]

_SETTINGS = {field.name for field in dataclasses.fields(LossSettings)}
_DEFAULTS: dict[str, Any] = {
    field.name: field.default
    for field in dataclasses.fields(LossOptions)
    if field.name in _SETTINGS
}


def loss_options(config: LossSettings, *, list_grade: float = 1.0) -> LossOptions:
    """The options of the loss; none of these settings can be `auto`.

    Args:
      config: settings, resolved or not.
      list_grade: the only option that is no setting; it follows from the score scale.
    """
    values = {name: getattr(config, name) for name in _DEFAULTS}
    return LossOptions(**values, list_grade=list_grade)


def unused_loss_options(loss: HeadLoss) -> dict[str, Any]:
    """The loss settings that this loss does not use: name -> default.

    Excludes settings in `USED_IF`, whose use depends on another setting that may not be known yet;
    `snm.config.checks.unused_settings` checks those later.
    """
    excluded = loss.option_names | USED_IF.keys() | USED_WITH_ANY_LOSS
    return {name: default for name, default in _DEFAULTS.items() if name not in excluded}

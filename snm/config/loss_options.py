"""Builds the `LossOptions` of a run from its settings."""

from __future__ import annotations

import dataclasses

from snm.config.fields import LossSettings
from snm.losses.sampled import LossOptions

__all__ = ["loss_options"]

_NAMES = {field.name for field in dataclasses.fields(LossOptions)} & {
    field.name for field in dataclasses.fields(LossSettings)
}


def loss_options(config: LossSettings, *, list_grade: float = 1.0) -> LossOptions:
    """The options of the loss; none of these settings can be `auto`.

    Args:
      config: settings, resolved or not.
      list_grade: the only option that is no setting; it follows from the score scale.
    """
    values = {name: getattr(config, name) for name in _NAMES}
    return LossOptions(**values, list_grade=list_grade)

"""The settings of the loss, as the object that losses are configured with."""

from __future__ import annotations

import dataclasses

from snm.config.settings import Config
from snm.losses.sampled import LossOptions

__all__ = ["loss_options"]

_NAMES = {field.name for field in dataclasses.fields(LossOptions)} & {
    field.name for field in dataclasses.fields(Config)
}


def loss_options(config: Config, *, list_grade: float = 1.0) -> LossOptions:
    """The options of the loss; none of these settings is ever `auto`.

    Args:
      config: settings, resolved or not.
      list_grade: the option that is no setting: it follows from the score scale.
    """
    values = {name: getattr(config, name) for name in _NAMES}
    return LossOptions(**values, list_grade=list_grade)

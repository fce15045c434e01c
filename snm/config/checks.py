"""Checks of settings: types, ranges, names of tables, and settings that exclude each other.

Every door checks with these: the command line, TOML files, `snm.train` and the estimator. Messages
name flags, which `InputError` turns into arguments for Python.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from snm.config.fields import GROUPS
from snm.config.marks import TABLES, Decides, Limit, marks_of, objects_of
from snm.errors import InputError

if TYPE_CHECKING:
    from snm.config.settings import Config

__all__ = [
    "READ_WITH",
    "check_name",
    "checked",
    "checked_settings",
    "refuse_unread",
    "unread",
]

Settings = TypeVar("Settings", bound="Config")

_LIMITS = marks_of(GROUPS, Limit)
"""A setting -> what values it may have."""
_MOST = 2**31 - 1  # of whole numbers

READ_WITH = marks_of(GROUPS, Decides)
"""A setting -> the other one that decides whether it is read."""


def check_name(where: str, setting: str, name: str) -> None:
    """Raises `InputError` unless the setting can take the name."""
    known = objects_of(setting)
    if name not in known:
        expected = f"{' or '.join(known)}, or a name that the module of SNM_IMPORT adds"
        raise InputError(where, repr(name), expected)


def checked_settings(config: Settings, hints: Mapping[str, Any]) -> Settings:
    """The settings in their own types.

    Args:
      config: settings, resolved or not.
      hints: the type of each, with those that an `auto` allows.

    Raises:
      InputError: the first value that fits no data set.
    """
    given = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    for name, (_, table) in TABLES.items():
        if not isinstance(given[name], str):
            found = repr(given[name])
            raise InputError(
                _flag(name), found, f"a name; add your own object to {table} under one"
            )
    values = {name: checked(_flag(name), value, hints[name]) for name, value in given.items()}
    config = dataclasses.replace(config, **values)
    for name, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(_flag(name), f"{value}", "a finite number")
        if type(value) is int and value > _MOST:
            raise InputError(_flag(name), f"{value}", f"at most {_MOST}")
    for name, limit in _LIMITS.items():
        value = values[name]
        if not isinstance(value, str) and not limit.allows(value):
            raise InputError(_flag(name), f"{value}", limit.says)
    if (config.patience or config.refit) and not config.validation_fraction:
        where = "--patience" if config.patience else "--refit"
        raise InputError(where, "no validation set", "--validation-fraction above 0")
    if config.refit and not config.patience:
        raise InputError("--refit", "--patience 0", "early stopping (--patience)")
    sampled, mined = config.sampled, config.mined
    if isinstance(sampled, int) and isinstance(mined, int) and mined > sampled:
        found = f"{mined} mined of {sampled} sampled labels"
        raise InputError("--mined", found, "at most as many as --sampled")
    for setting in TABLES:
        check_name(_flag(setting), setting, getattr(config, setting))
    _check_loss(config)
    return config


def _check_loss(config: Config) -> None:
    """Refuses options out of range, and those that the loss does not read."""
    # Imports jax, which `--help` must not.
    from snm.config.loss_options import loss_options, options_of_others
    from snm.losses.sampled import HeadLoss
    from snm.losses.transformations import TransformationFamily

    try:
        loss_options(config)
    except InputError as error:
        name = error.where.removeprefix("LossOptions ")
        raise InputError(_flag(name), error.found, error.expected) from error
    loss, losses = config.loss, objects_of("loss")
    kind = losses[loss]
    if not isinstance(kind, HeadLoss):
        found = f"{loss}, for which LOSSES has {kind!r}"
        raise InputError("--loss", found, "an object of a subclass of HeadLoss there")
    for name, plain in options_of_others(kind).items():
        value = getattr(config, name)
        if value != plain:
            found = f"{value} with --loss {loss}"
            readers = [
                n for n, of in losses.items() if isinstance(of, HeadLoss) and name in of.reads
            ]
            expected = f"--loss {' or '.join(readers)}, or {_INSTEAD.get(name, plain)}"
            raise InputError(_flag(name), found, expected)
    learned = config.learn_score_scale is True
    psi = objects_of("transformation")[config.transformation]
    if not isinstance(psi, TransformationFamily):
        found = f"{config.transformation}, for which TRANSFORMATIONS has {psi!r}"
        raise InputError("--transformation", found, "a TransformationFamily there")
    if not psi.positive_everywhere and (config.bias or learned):
        found = "a learned bias" if config.bias else "--learn-score-scale True"
        where = f"--transformation {config.transformation}"
        instead = "--no-bias" if config.bias else "--learn-score-scale False"
        raise InputError(where, found, f"{instead}: psi must stay positive")
    if kind.listwise and config.positives == "all" and config.exclude == "positive":
        found = f"positive with --loss {loss} and all positives"
        expected = "all, or --positives one: a label is a positive or a negative of a list"
        raise InputError("--exclude", found, expected)


_INSTEAD = {"temperature": "--score-scale"}
"""Options of some losses, and what does the same for the others."""


def unread(config: Config) -> dict[str, Any]:
    """The settings that no part of a run with these settings reads, and their defaults."""
    return {
        name: getattr(type(config), name)
        for name, other in READ_WITH.items()
        if not other.reads(name, getattr(config, other.setting))
    }


def refuse_unread(config: Config, names: Collection[str] | None = None) -> None:
    """Refuses values that are not read.

    Args:
      config: the settings.
      names: those of `unread` to look at; None is all.

    Raises:
      InputError: a setting that nothing reads has another value than its default.
    """
    plain = unread(config)
    for name, other in READ_WITH.items():
        value = getattr(config, name)
        asked = name in plain and value != plain[name]
        if asked and (names is None or name in names):
            flag = _flag(other.setting)
            found = f"{value} with {flag} {getattr(config, other.setting)}"
            raise InputError(_flag(name), found, f"{plain[name]}, or {flag} {other.which(name)}")


_TYPES = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


def checked(where: str, value: Any, hint: Any) -> Any:
    """The value, if its type fits the annotation; an int is taken as a float.

    Raises:
      InputError: it does not; the message has `where` and what fits.
    """
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        value = value.item()
    choices = [hint] if isinstance(hint, type) else list(get_args(hint))
    if float in choices and type(value) is int:
        try:
            return float(value)
        except OverflowError as error:
            found = "a whole number of more than 308 digits"
            raise InputError(where, found, "a finite number") from error
    words: list[str] = []
    for choice in choices:
        if isinstance(choice, str):
            words.append(choice)
        elif isinstance(choice, type):
            if type(value) is choice:
                return value
            words.append(_TYPES[choice])
        else:
            words.extend(get_args(choice))
    if isinstance(value, str) and value in words:
        return value
    raise InputError(where, repr(value), " or ".join(words))


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")

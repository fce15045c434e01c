"""The settings of a run, `Config`, and where they come from: flags override TOML, TOML the preset.

`Config.check` looks at types, ranges, names of tables, and settings that exclude each other. The
command line, TOML files, `snm.train` and the estimator all use it. Messages name flags, which
`InputError` turns into arguments for Python.
"""

from __future__ import annotations

import dataclasses
import math
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Self, get_type_hints

from snm.config.checks import check_name, check_type
from snm.config.fields import (
    USED_IF,
    AnswerSettings,
    EvaluationSettings,
    InputSettings,
    LossSettings,
    MainSettings,
    ModelSettings,
    OptimizationSettings,
    RunSettings,
    marks_of,
)
from snm.config.marks import TABLES, Limit, load_table
from snm.errors import InputError, flag_of
from snm.system.faults import read_error
from snm.text import nearest

__all__ = [
    "PRESETS",
    "Config",
    "config_text",
    "parse_config",
    "preset",
    "read_config",
    "read_toml",
    "reject_unused_settings",
    "unused_settings",
]

_LIMITS = marks_of(Limit)
"""Name of a setting -> its range."""
_MAX_INT = 2**31 - 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(
    RunSettings,
    EvaluationSettings,
    OptimizationSettings,
    AnswerSettings,
    LossSettings,
    ModelSettings,
    InputSettings,
    MainSettings,  # the last base has the first fields
):
    """Settings of a training run."""

    def __eq__(self, other: object) -> bool:
        """Settings with equal values are equal, whether they are resolved or not."""
        if not isinstance(other, Config):
            return NotImplemented
        return dataclasses.astuple(self) == dataclasses.astuple(other)

    def check(self, *, all_read: bool = True) -> Self:
        """Returns the settings in their types, or rejects values that no data set makes valid.

        An int becomes a float where a float is expected, a NumPy scalar a Python number.

        Args:
          all_read: whether to reject unused settings, too; False for the settings of a file or of
            all arms of a comparison, where other settings may follow.

        Raises:
          InputError: the first such value.
        """
        config = dataclasses.replace(self, **_typed_values(self))
        _check_ranges(config)
        for setting in TABLES:
            check_name(flag_of(setting), setting, getattr(config, setting))
        _check_loss(config)
        if all_read:
            reject_unused_settings(config)
        return config


PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "fast": {
        "dim": 256,
        "members": "few",
        "epochs": "few",
        "batch_size": 128,
    },
    "paper": {
        "input_dropout": 0.0,
        "encoder": "relu",
        "feature_init": 1.0,
        "score_scale": 1.0,
        "learn_score_scale": False,
        "class_init": "random",
        "bias": False,
        "members": 1,
        "loss": "bowl",
        "mined": 16,
        "exclude": "positive",
        "positives": "one",
        "seen": "keep",
        "item_splits": 0,
        "label_text": "off",
        "memory": "off",
        "logit_adjustment": "off",
        "epochs": 20,
        "learning_rate": 50.0,
    },
}


def preset(name: str) -> Config:
    """The settings of a preset."""
    if name not in PRESETS:
        raise InputError("--preset", repr(name), f"one of {', '.join(PRESETS)}")
    return Config(preset=name, **PRESETS[name])  # type: ignore[arg-type]


def read_config(path: str | Path, *, base: Config | None = None) -> Config:
    """Settings of a TOML file, over those of its `preset` (or of `base`).

    Raises:
      InputError: no such file, no TOML, an unknown key (the nearest is named), a wrong type.
    """
    return parse_config(read_toml(path), str(path), base=base)


def read_toml(path: str | Path) -> dict[str, Any]:
    """The keys and values of a TOML file, unchecked.

    Raises:
      InputError: no such file, or no TOML.
    """
    path = Path(path)
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise read_error(path, error, "a TOML file") from error
    except (ValueError, RecursionError) as error:
        # Also numbers of thousands of digits and brackets of thousands of levels.
        raise InputError(str(path), f"no TOML: {error}", "lines `key = value`") from error


def parse_config(values: Mapping[str, Any], where: str, *, base: Config | None = None) -> Config:
    """Settings of a mapping from names to values, over those of its `preset` (or of `base`).

    Raises:
      InputError: an unknown key (the nearest is named), a wrong type, another preset than that of
        `base`, whose settings are not those of that preset; it begins with `where`.
    """
    hints, checked = get_type_hints(Config), dict[str, Any]()
    for key, value in values.items():
        if key not in hints:
            expected = nearest(key, hints, "a setting, as in the config.toml of a run")
            raise InputError(f"{where}: {key}", "an unknown key", expected)
        checked[key] = check_type(f"{where}: {key}", value, hints[key])
        if key in TABLES:
            check_name(f"{where}: {key}", key, checked[key])
    if base is None:
        base = preset(checked.get("preset", "default"))
    elif (named := checked.get("preset", base.preset)) != base.preset:
        raise InputError(f"{where}: preset", repr(named), f"{base.preset!r}, as --preset, or none")
    return dataclasses.replace(base, **checked).check(all_read=False)


def config_text(config: Config) -> str:
    """Every setting as TOML."""
    import tomli_w

    return tomli_w.dumps(dataclasses.asdict(config))


def _typed_values(config: Config) -> dict[str, Any]:
    """The values in the types that `Config` has for them: name -> value.

    A resolved config may have those of `Config` too, such as `auto`.
    """
    values = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    for name, (_, table) in TABLES.items():
        if not isinstance(values[name], str):
            found = repr(values[name])
            raise InputError(
                flag_of(name), found, f"a name; add your own object to {table} under one"
            )
    hints = get_type_hints(Config)
    return {name: check_type(flag_of(name), value, hints[name]) for name, value in values.items()}


def _check_ranges(config: Config) -> None:
    """Rejects numbers out of range, alone or beside other settings."""
    for name, value in dataclasses.asdict(config).items():
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(flag_of(name), f"{value}", "a finite number")
        if type(value) is int and value > _MAX_INT:
            raise InputError(flag_of(name), f"{value}", f"at most {_MAX_INT}")
    for name, limit in _LIMITS.items():
        value = getattr(config, name)
        if not isinstance(value, str) and not limit.allows(value):
            raise InputError(flag_of(name), f"{value}", limit.expected)
    if (config.patience or config.refit) and not config.validation_fraction:
        where = "--patience" if config.patience else "--refit"
        raise InputError(where, "no validation set", "--validation-fraction above 0")
    if config.refit and not config.patience:
        raise InputError("--refit", "--patience 0", "early stopping (--patience)")
    sampled, mined = config.sampled, config.mined
    if isinstance(sampled, int) and isinstance(mined, int) and mined > sampled:
        found = f"{mined} mined of {sampled} sampled labels"
        raise InputError("--mined", found, "at most as many as --sampled")


def _check_loss(config: Config) -> None:
    """Rejects options out of range, and options that the loss does not use."""
    # Imports jax, which `--help` must not.
    from snm.config.loss_options import loss_options
    from snm.losses.sampled import HeadLoss
    from snm.losses.transformations import TransformationFamily

    try:
        loss_options(config)
    except InputError as error:
        name = error.where.removeprefix("LossOptions ")
        raise InputError(flag_of(name), error.found, error.expected) from error
    loss = config.loss
    head_loss = load_table("loss")[loss]
    if not isinstance(head_loss, HeadLoss):
        found = f"{loss}, for which LOSSES has {head_loss!r}"
        raise InputError("--loss", found, "an object of a subclass of HeadLoss there")
    if head_loss.name != loss:
        found = f"{loss}, for which LOSSES has an object with the name {head_loss.name}"
        raise InputError("--loss", found, "its name as its key there")
    # A file names the loss whose options it has. What also decides on an option may be a flag.
    by_loss_alone = [name for name, control in USED_IF.items() if control.settings == ("loss",)]
    reject_unused_settings(config, by_loss_alone)
    learned = config.learn_score_scale is True
    psi = load_table("transformation")[config.transformation]
    if not isinstance(psi, TransformationFamily):
        found = f"{config.transformation}, for which TRANSFORMATIONS has {psi!r}"
        raise InputError("--transformation", found, "a TransformationFamily there")
    if not psi.positive_everywhere and (config.bias or learned):
        found = "a learned bias" if config.bias else "--learn-score-scale True"
        where = f"--transformation {config.transformation}"
        instead = "--no-bias" if config.bias else "--learn-score-scale False"
        raise InputError(where, found, f"{instead}: psi must stay positive")
    if head_loss.listwise and config.positives == "all" and config.exclude == "positive":
        found = f"positive with --loss {loss} and all positives"
        expected = "all, or --positives one: a label is a positive or a negative of a list"
        raise InputError("--exclude", found, expected)


def unused_settings(config: Config) -> dict[str, Any]:
    """The settings that a run with these settings does not use: name -> default."""
    return {name: getattr(Config, name) for name in _unused_by(config)}


def _unused_by(config: Config) -> dict[str, str]:
    """The settings that a run does not use: name -> the last one to decide so."""
    return {
        name: setting
        for name, control in USED_IF.items()
        for setting in control.settings
        if not control.is_used(name, setting, getattr(config, setting))
    }


def reject_unused_settings(config: Config, names: Collection[str] | None = None) -> None:
    """Rejects unused settings whose value is not the default.

    Args:
      config: the settings.
      names: the settings to check; None is all.

    Raises:
      InputError: an unused setting has another value than its default.
    """
    for name, setting in _unused_by(config).items():
        value, default = getattr(config, name), getattr(Config, name)
        if value != default and (names is None or name in names):
            flag, control = flag_of(setting), USED_IF[name]
            found = f"{value} with {flag} {getattr(config, setting)}"
            values = f"{flag} {control.values(name, setting)}"
            expected = control.expected.format(default=default, values=values)
            raise InputError(flag_of(name), found, expected)

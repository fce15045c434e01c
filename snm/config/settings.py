"""Settings of a run, `Config`, and where they come from: flags override TOML, TOML the preset."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_type_hints

from snm.config.checks import Config, check_name, check_type
from snm.config.marks import TABLES
from snm.errors import InputError
from snm.system.faults import read_error
from snm.text import nearest

__all__ = [
    "PRESETS",
    "Config",
    "check_name",
    "config_text",
    "parse_config",
    "preset",
    "read_config",
    "read_toml",
]


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

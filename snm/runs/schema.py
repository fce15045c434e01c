"""What the JSON files of a run folder must hold: types and ranges, one table for each file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NotRequired, TypedDict

from snm.errors import InputError

__all__ = [
    "EXPORT",
    "FACTS",
    "MEMORY",
    "RESULT",
    "Field",
    "MemoryRecord",
    "RunFacts",
    "validated",
]

_MOST = 2**31 - 1  # ids are int32


class Field(NamedTuple):
    """One value of a JSON object.

    Attributes:
      says: what it is, for messages.
      fits: whether a value is that.
      needed: whether every run has it.
    """

    says: str
    fits: Callable[[Any], bool]
    needed: bool = True


def _whole(low: int, high: int = 2**63) -> Field:
    return Field(
        f"a whole number from {low} to {high}", lambda x: type(x) is int and low <= x <= high
    )


def _is_number(x: Any) -> bool:
    return type(x) in (int, float)


def _numbers(x: Any) -> bool:
    return isinstance(x, list) and all(map(_is_number, x))


def _metrics(x: Any) -> bool:
    return isinstance(x, dict) and all(map(_is_number, x.values()))


_TEXT = Field("a text", lambda x: isinstance(x, str))
_NUMBER = Field("a number", _is_number)
_FLAG = Field("true or false", lambda x: type(x) is bool)
_NUMBERS = Field("numbers", _numbers)
_METRICS = Field("numbers by name", _metrics)
_OBJECT = Field("an object", lambda x: isinstance(x, dict))

_SETTINGS = {
    "neighbors": _whole(1, _MOST),
    "power": _NUMBER,
    "feature_share": _NUMBER,
    "weight": _NUMBER,
}


_ADJUSTMENT = {"strength": _NUMBER, "before": _NUMBERS, "precision": _NUMBERS}


def _is_adjustment(x: Any) -> bool:
    return isinstance(x, dict) and all(_fits(x, n, f) for n, f in _ADJUSTMENT.items())


def _ascending(x: Any) -> bool:
    return _numbers(x) and len(x) > 0 and x == sorted(x)


def _in_unit(x: Any) -> bool:
    return all(0 <= one <= 1 for one in x)


def _is_curve(x: Any) -> bool:
    if not (isinstance(x, dict) and isinstance(x.get("method"), str)):
        return False
    weights, knots, p = (x.get(name) for name in ("weights", "knots", "probabilities"))
    fits = _numbers(weights) and len(weights or ()) == 4 and _ascending(knots)
    fits = fits and _ascending(p) and len(p or ()) == len(knots or ()) and _in_unit(p)
    best = x.get("best_scores")
    return fits and _ascending(best) and len(best or ()) == 2


def _is_calibration(x: Any) -> bool:
    curves = isinstance(x, dict) and all(_is_curve(x.get(name)) for name in ("ranked", "alone"))
    if not curves or type(x.get("answers")) is not int:
        return False
    thresholds = x.get("thresholds")
    return isinstance(thresholds, dict) and all(map(_is_threshold, thresholds.values()))


def _is_threshold(x: Any) -> bool:
    if not isinstance(x, dict):
        return False
    labels, own = x.get("labels"), x.get("own")
    if not isinstance(labels, list):
        return False
    if not all(type(one) is int and 0 <= one <= _MOST for one in labels):
        return False
    fits = labels == sorted(labels) and _numbers(own) and len(own or ()) == len(labels)
    fits = fits and type(x.get("k")) is int and x["k"] >= 1 and _is_number(x.get("overall"))
    return fits and _in_unit([x["overall"], *(own or ())])


class MemoryRecord(TypedDict):
    """The content of `memory.json`: what held-out points chose, and what it costs.

    Keys:
      used: whether there is a memory.
      held_out: how many points chose.
      gain: of the mean of P@1, P@3 and P@5.
      error: its standard error.
      before: P@1, P@3 and P@5 without a memory.
      precision: P@1, P@3 and P@5 with it.
      settings: of the memory, as `snm.memory.memory.MemorySettings`.
      calibration: curves from scores to probabilities, with thresholds; None where there is none.
      adjustment: the logit adjustment: its `strength`, `before` and `precision`; None for none.
      points: of the memory, 0 if it is not used.
      bytes: of the memory, 0 if it is not used.
      seconds: that the choice took.
      inherited_from: the run that chose it, where that is another one.
    """

    used: bool
    held_out: int
    gain: float
    error: float
    before: Sequence[float]
    precision: Sequence[float]
    settings: dict[str, Any]
    calibration: dict[str, Any] | None
    adjustment: dict[str, Any] | None
    points: int
    bytes: int
    seconds: float
    inherited_from: NotRequired[str]


MEMORY = {
    "used": _FLAG,
    "held_out": _whole(0),
    "gain": _NUMBER,
    "error": _NUMBER,
    "before": _NUMBERS,
    "precision": _NUMBERS,
    "settings": Field(
        f"an object with {', '.join(_SETTINGS)}",
        lambda x: isinstance(x, dict) and all(_fits(x, n, f) for n, f in _SETTINGS.items()),
    ),
    "calibration": Field(
        "curves from scores to probabilities, or null",
        lambda x: x is None or _is_calibration(x),
    ),
    "adjustment": Field(
        f"an object with {', '.join(_ADJUSTMENT)}, or null",
        lambda x: x is None or _is_adjustment(x),
    ),
    "points": _whole(0),
    "bytes": _whole(0),
    "seconds": _NUMBER,
}
"""`memory.json`."""


class RunFacts(TypedDict):
    """The content of `run.json`: the data of a run, its sizes and its start.

    Keys:
      data: where the training data are, a path or a name.
      in_memory: true where a program handed the data over, which have only a name.
      sha256: of their content.
      num_features: width of the points.
      num_labels: K.
      warm_start: the run whose parameters this one starts from, or None.
      grown_from: the run that `snm grow` made this one of.
      inherited: what was taken over from the run of `warm_start`; None is nothing.
    """

    data: str
    sha256: str
    num_features: int
    num_labels: int
    warm_start: str | None
    in_memory: NotRequired[bool]
    grown_from: NotRequired[str]
    inherited: NotRequired[MemoryRecord | None]


FACTS = {
    "data": _TEXT,
    "sha256": _TEXT,
    "num_features": _whole(1, _MOST),
    "num_labels": _whole(2, _MOST),
    "warm_start": Field("a text or null", lambda x: x is None or isinstance(x, str)),
    "in_memory": Field("true or false", lambda x: isinstance(x, bool), needed=False),
    "grown_from": _TEXT._replace(needed=False),
    "inherited": Field(
        "the content of a memory.json, or null",
        lambda x: (
            x is None or (isinstance(x, dict) and all(_fits(x, n, f) for n, f in MEMORY.items()))
        ),
        needed=False,
    ),
}
"""`run.json`."""

_STORED = {
    **_SETTINGS,
    "points": _whole(0, _MOST),
    "arrays": Field("names", lambda x: isinstance(x, list) and all(type(n) is str for n in x)),
}

EXPORT = {
    "num_features": FACTS["num_features"],
    "num_labels": FACTS["num_labels"],
    "members": _whole(1, _MOST),
    "rows": Field("float32 or int8", lambda x: x in ("float32", "int8")),
    "log_multipliers": _NUMBERS,
    "calibration": MEMORY["calibration"]._replace(needed=False),
    "memory": Field(
        f"an object with points, arrays, {', '.join(_SETTINGS)}",
        lambda x: isinstance(x, dict) and all(_fits(x, n, f) for n, f in _STORED.items()),
        needed=False,
    ),
}
"""`manifest.json` of an export that is opened as a model."""

RESULT = {
    "metrics": _METRICS,
    "validation": _OBJECT._replace(needed=False),
    "members": _whole(1, _MOST),
    "steps": _whole(0),
    "best_step": _whole(0),
    "skipped_steps": _whole(0),
    "epochs": _NUMBER,
    "epochs_asked": _whole(0),
    "seconds": _NUMBER,
    "examples_per_second": _NUMBER,
    "peak_memory_bytes": _whole(0),
    "data": _OBJECT,
    "versions": _OBJECT,
    "points_without_features": _whole(0)._replace(needed=False),
    "without_repeats": _METRICS._replace(needed=False),
    "by_label_frequency": Field(
        "a list of numbers by name",
        lambda x: isinstance(x, list) and all(map(_metrics, x)),
        needed=False,
    ),
    "memory": _OBJECT._replace(needed=False),
    "reliability": _OBJECT._replace(needed=False),
    "time": _OBJECT,
}
"""`result.json`."""


def validated(path: Path, value: Any, fields: dict[str, Field]) -> dict[str, Any]:
    """The value, if it is an object with these fields; further ones are kept.

    Raises:
      InputError: the first field that is missing or does not fit.
    """
    if not isinstance(value, dict):
        raise InputError(str(path), f"{_shown(value)}", "a JSON object of a run")
    for name, field in fields.items():
        if not _fits(value, name, field):
            found = _shown(value[name]) if name in value else "nothing"
            raise InputError(f"{path}: {name}", found, field.says)
    return value


def _fits(value: dict[str, Any], name: str, field: Field) -> bool:
    return field.fits(value[name]) if name in value else not field.needed


def _shown(value: Any) -> str:
    if isinstance(value, list | dict):
        return f"a {type(value).__name__} of {len(value)}"
    return ascii(value)[:60]

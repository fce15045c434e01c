"""Formats numbers and settings for the tables, plots and sentences of a comparison."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

__all__ = [
    "format_chosen", "format_figure", "format_grid", "format_mean", "format_mebibytes",
    "format_mined", "format_number", "format_row", "format_seconds", "format_setting",
    "format_short", "format_speed",
]  # fmt: skip


def format_row(arm: dict[str, Any], names: Sequence[str], extra: list[str]) -> tuple[str, ...]:
    """A row: the name of an arm, extra cells, and the metrics `names`."""
    return (arm["name"], *extra, *(_cell(arm, name) for name in names))


def _cell(arm: dict[str, Any], name: str) -> str:
    mean = arm["mean"].get(name)
    if mean is None:
        return "-"
    text = format_mean(mean, arm["ci95"].get(name))
    ratio = arm["ratio"][name]
    if ratio is None or arm["name"] == arm["baseline"]:
        return text
    return f"{text} ({format_mean(ratio, arm['ratio_ci95'].get(name))}x)"


def format_mined(arm: dict[str, Any], num_labels: int) -> str:
    """The cell with k' and B, and their values at the start if they change.

    Args:
      arm: an arm of the results.
      num_labels: K. Where all labels are sampled, B is K - 1.
    """
    start, end = (
        num_labels - 1 if value == "all" else value
        for value in (arm.get("sampled_start"), arm["sampled"])
    )
    return f"{_from_start(arm.get('mined_start'), arm['mined'])} of {_from_start(start, end)}"


def _from_start(start: Any, end: Any) -> str:
    """A size; with its value at the start, unless that is 0 or None."""
    return f"{start} to {end}" if start else str(end)


_SHORT = {"learning_rate": "rate", "negative_weight": "weight", "score_scale": "scale"}


def format_chosen(tuning: dict[str, Any]) -> str:
    """The tuned settings of an arm, with short names; a * behind the lowest or highest rate tried.

    Args:
      tuning: `best`, the settings or None, and `trials`, each with its `settings`.
    """
    if tuning["best"] is None:
        return "-"
    rates = _tried(tuning).get("learning_rate", [])
    edges = {min(rates), max(rates)} if len(rates) > 1 else ()
    return ", ".join(
        f"{_SHORT.get(name, name)} {value:g}" + "*" * (name == "learning_rate" and value in edges)
        for name, value in tuning["best"].items()
    )


def format_grid(tuning: dict[str, Any]) -> str:
    """The values of each setting that were tried, with short names; a dash for none."""
    grid = _tried(tuning).items()
    words = (
        f"{_SHORT.get(name, name)} {', '.join(f'{v:g}' for v in tried)}" for name, tried in grid
    )
    return "; ".join(words) or "-"


def _tried(tuning: dict[str, Any]) -> dict[str, list[float]]:
    """The ascending values of each setting in the trials of an arm."""
    values: dict[str, set[float]] = {}
    for trial in tuning["trials"]:
        for name, value in trial["settings"].items():
            values.setdefault(name, set()).add(value)
    return {name: sorted(tried) for name, tried in values.items()}


def format_setting(value: Any) -> str:
    """The value of a setting; a dash for None."""
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def format_number(value: float | None, digits: int) -> str:
    """A number with `digits` decimals; a dash for None."""
    return "-" if value is None else f"{value:,.{digits}f}"


def format_mebibytes(value: float | None) -> str:
    """Bytes in MiB without decimals; a dash for None."""
    return format_number(None if value is None else value / 2**20, 0)


def format_speed(arm: dict[str, Any]) -> str:
    """Examples a second, mean over seeds; a dash if no seed has them."""
    speeds = [s["examples_per_second"] for s in arm["seeds"] if "examples_per_second" in s]
    return format_number(sum(speeds) / len(speeds) if speeds else None, 0)


def format_figure(values: Sequence[float | None]) -> str:
    """The mean of known values with three significant digits; a dash if there are none."""
    known = [value for value in values if value is not None]
    return f"{sum(known) / len(known):.3g}" if known else "-"


def format_seconds(value: float | None) -> str:
    """Seconds with one decimal, below 1 with two significant digits; a dash for None.

    Example:
      >>> format_seconds(1234.56), format_seconds(0.0312), format_seconds(0.0)
      ('1,234.6', '0.031', '0.0')
    """
    if value is None:
        return "-"
    digits = 1 - math.floor(math.log10(value)) if 0 < value < 1 else 1
    return f"{value:,.{digits}f}"


def format_mean(value: float, half: float | None) -> str:
    """A mean, with half of its interval if it has one."""
    return f"{value:.2f}" if half is None else f"{value:.2f} ± {half:.2f}"


def format_short(value: float) -> str:
    """Three significant digits, without exponents."""
    digits = 2 - math.floor(math.log10(abs(value))) if value else 0
    return f"{value:.{min(max(digits, 0), 6)}f}"

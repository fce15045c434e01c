"""A table of a comparison, and the format of its cells."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from snm.compare.report.summary import format_mean, format_seconds, spread

__all__ = [
    "Sheet", "chosen", "figure", "mebibytes", "mined", "number", "row", "seconds", "setting",
    "speed",
]  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Sheet:
    """A table with a title and a note.

    Attributes:
      title: a short title.
      note: how to read the table.
      columns: names of the columns; the first column names the rows.
      rows: the cells as text.
      late: whether the page shows it after the plots.
    """

    title: str
    note: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    late: bool = False


def row(arm: dict[str, Any], names: Sequence[str], extra: list[str]) -> tuple[str, ...]:
    """A row: the name of an arm, extra cells, and the metrics `names`."""
    return (arm["name"], *extra, *(_cell(arm, name) for name in names))


def _cell(arm: dict[str, Any], name: str) -> str:
    mean = arm["mean"].get(name)
    if mean is None:
        return "-"
    text = format_mean(mean, spread(arm, name))
    ratio = arm["ratio"][name]
    return text if ratio is None or arm["name"] == arm["baseline"] else f"{text} ({ratio:.2f}x)"


def mined(arm: dict[str, Any], num_labels: int) -> str:
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


def chosen(settings: dict[str, Any] | None) -> str:
    """The tuned settings of an arm, with short names."""
    if settings is None:
        return "-"
    short = {"learning_rate": "rate", "negative_weight": "weight", "score_scale": "scale"}
    return ", ".join(f"{short.get(name, name)} {value:g}" for name, value in settings.items())


def setting(value: Any) -> str:
    """The value of a setting; a dash for None."""
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def seconds(value: float | None) -> str:
    """Seconds; a dash for None."""
    return "-" if value is None else format_seconds(value)


def number(value: float | None, digits: int) -> str:
    """A number with `digits` decimals; a dash for None."""
    return "-" if value is None else f"{value:,.{digits}f}"


def mebibytes(value: float | None) -> float | None:
    """Bytes in MiB."""
    return None if value is None else value / 2**20


def speed(arm: dict[str, Any]) -> float | None:
    """Examples a second, mean over seeds."""
    speeds = [s["examples_per_second"] for s in arm["seeds"] if "examples_per_second" in s]
    return sum(speeds) / len(speeds) if speeds else None


def figure(values: Sequence[float | None]) -> str:
    """The mean with three significant digits."""
    known = [value for value in values if value is not None]
    return f"{sum(known) / len(known):.3g}" if known else "-"

"""Draws the plots of a comparison: lines, bars, and quantiles of scores, as inline SVG."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from snm.compare.probe import QUANTILES
from snm.compare.report.html.svg import (
    COLOURS,
    INK,
    draw_line,
    draw_panel,
    limit_ticks,
    line_sample,
    wrap_name,
)
from snm.compare.report.series import Points, Record, over_probes, probe_value

__all__ = [
    "Bar",
    "Lines",
    "Plot",
    "Row",
    "draw_bars",
    "draw_lines",
    "draw_score_quantiles",
]


_KINDS = {"positive": 1, "sampled": 2, "mined": 3}  # kind of label -> index of its line style


@dataclasses.dataclass(frozen=True)
class Row:
    """Panels that share a legend.

    Attributes:
      legend: the name and a sample of each line.
      panels: SVG elements.
      small: whether the panels are small, so that the page shows more of them side by side.
    """

    legend: tuple[tuple[str, Markup], ...]
    panels: tuple[Markup, ...]
    small: bool = False


@dataclasses.dataclass(frozen=True)
class Plot:
    """Drawings under one heading.

    Attributes:
      title: the heading.
      note: how to read the drawings.
      rows: rows of panels, each with at most eight arms.
    """

    title: str
    note: str
    rows: tuple[Row, ...]

    @property
    def wide(self) -> bool:
        """Whether a row has more than one panel."""
        return any(len(row.panels) > 1 for row in self.rows)


@dataclasses.dataclass(frozen=True)
class Lines:
    """A panel of lines.

    Attributes:
      title: title of the panel.
      xlabel: label of the x axis.
      ylabel: label of the y axis.
      points: arm -> its points.
      describe: names and points of all arms -> the alternative text.
      horizontal: y and text of a horizontal reference line.
      vertical: x of a vertical reference line.
      markers: whether points have markers.
      ticks: ticks of the x axis; matplotlib chooses them by default.
    """

    title: str
    xlabel: str
    ylabel: str
    points: Callable[[Record], Points]
    describe: Callable[[list[tuple[str, Points]]], str]
    horizontal: tuple[float, str] | None = None
    vertical: float | None = None
    markers: bool = True
    ticks: Sequence[int] = ()


@dataclasses.dataclass(frozen=True)
class Bar:
    """A horizontal bar.

    Attributes:
      name: name of the arm.
      value: length of the bar.
      text: the value as text.
      half_width: half the width of the interval, or None.
      seeds: values of the seeds, drawn as dots.
    """

    name: str
    value: float
    text: str
    half_width: float | None = None
    seeds: Sequence[float] = ()


def draw_lines(title: str, note: str, arms: list[Record], panels: list[Lines]) -> Plot:
    """Draws lines in rows of at most eight arms with equal axes; each row has the baseline."""
    rows = []
    limits = [_axis_limits([panel.points(arm) for arm in arms]) for panel in panels]
    groups = _split_arms(arms)
    for part, group in enumerate(groups, 1):
        drawn: list[Markup] = []
        in_legend: set[int] = set()
        suffix = f" ({part} of {len(groups)})" if len(groups) > 1 else ""
        for panel, limit in zip(panels, limits, strict=True):
            lines = [(number, arm["name"], panel.points(arm)) for number, arm in enumerate(group)]
            lines = [line for line in lines if line[2]]
            if lines:
                in_legend.update(number for number, _, _ in lines)
                drawn.append(_draw_line_panel(panel, panel.title + suffix, lines, limit))
        legend = tuple(
            (arm["name"], line_sample(number))
            for number, arm in enumerate(group)
            if number in in_legend
        )
        if drawn:
            rows.append(Row(legend, tuple(drawn)))
    return Plot(title, note, tuple(rows))


def _split_arms(arms: list[Record]) -> list[list[Record]]:
    """Splits the arms into groups of at most one per colour, each with its baseline."""
    max_others, groups = len(COLOURS) - 1, []
    for name in dict.fromkeys(arm["baseline"] for arm in arms):
        base = [arm for arm in arms if arm["name"] == name]
        others = [arm for arm in arms if arm["baseline"] == name and arm["name"] != name]
        parts = max(1, math.ceil(len(others) / max_others))
        groups += [base + others[len(others) * i // parts : len(others) * (i + 1) // parts]
                   for i in range(parts)]  # fmt: skip
    return groups


def _axis_limits(lines: list[Points]) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """The limits of x and y that contain all lines; None without points."""
    points = np.array([point for line in lines for point in line])
    if not points.size:
        return None
    left, right = float(points[:, 0].min()), float(points[:, 0].max())
    margin = 0.03 * (right - left) or 1.0
    return (left - margin, right + margin), (0.0, 1.06 * float(points[:, 3].max()) or 1.0)


def _draw_line_panel(
    panel: Lines, title: str, lines: list[tuple[int, str, Points]], limits: Any
) -> Markup:
    """Draws the (colour number, name, points) of each line."""

    def draw(ax: Any) -> None:
        for number, _, points in lines:
            x, y, low, high = np.array(points).T
            if np.any(low < high):
                ax.fill_between(x, low, high, color=COLOURS[number], alpha=0.15, linewidth=0)
            draw_line(ax, x, y, number, panel.markers)
        ax.set(xlabel=panel.xlabel, ylabel=panel.ylabel, xlim=limits[0], ylim=limits[1])
        if panel.ticks:
            ax.set_xticks(list(panel.ticks))
        else:
            limit_ticks(ax)
        if panel.vertical is not None:
            ax.axvline(panel.vertical, color=INK, linewidth=0.8)
        if panel.horizontal is not None:
            y, text = panel.horizontal
            ax.axhline(y, color=INK, linewidth=0.8, dashes=(2, 2))
            ax.annotate(text, (0.3, y), xytext=(0, 4), fontsize=10.5,
                        xycoords=ax.get_yaxis_transform(), textcoords="offset points")  # fmt: skip

    description = panel.describe([(name, points) for _, name, points in lines])
    return draw_panel(title, description, draw, (380, 250))


def draw_bars(
    title: str,
    description: str,
    xlabel: str,
    bars: Sequence[Bar],
    reference: float | None = None,
) -> Markup:
    """Draws a panel of horizontal bars with their values as text.

    Args:
      title: title of the panel.
      description: the alternative text.
      xlabel: label of the x axis.
      bars: from top to bottom.
      reference: x of a vertical reference line.
    """
    names = [wrap_name(bar.name, 20) for bar in bars]
    highest = max(*(max(bar.value, *bar.seeds, 0.0) for bar in bars), reference or 0.0)
    upper_end = max(bar.value + (bar.half_width or 0.0) for bar in bars)
    right = max(1.08 * highest, min(1.04 * upper_end, 2 * highest)) or 1.0

    def draw(ax: Any) -> None:
        for y, bar in enumerate(bars):
            ax.barh(y, bar.value, height=0.6, color=INK, alpha=0.28, linewidth=0)
            ax.plot(bar.seeds, [y] * len(bar.seeds), "o", color=INK, markersize=3)
            if bar.half_width is not None:
                low, high = bar.value - bar.half_width, bar.value + bar.half_width
                ax.plot([max(low, 0), min(high, right)], [y, y], color=INK, linewidth=1.2)
                for end, inside, arrow in ((low, low >= 0, "<"), (high, high <= right, ">")):
                    ax.plot(min(max(end, 0), right), y, "|" if inside else arrow, color=INK,
                            markersize=8 if inside else 5, clip_on=False)  # fmt: skip
            ax.text(1.06, y, bar.text, transform=ax.get_yaxis_transform(), va="center")
        ax.set_yticks(range(len(bars)), names)
        ax.tick_params(axis="y", length=0, pad=8)
        ax.grid(visible=False, axis="y")
        ax.set(xlabel=xlabel, xlim=(0, right), ylim=(len(bars) - 0.5, -0.5))
        limit_ticks(ax)
        if reference is not None:
            ax.axvline(reference, color=INK, linewidth=1.2, dashes=(4, 2))

    height = 56 + sum(26 + 12 * name.count("\n") for name in names)
    return draw_panel(title, description, draw, (380, height))


def draw_score_quantiles(arms: list[Record]) -> Row | None:
    """Draws the score quantiles of positives and negatives during training, a panel per arm.

    None if no arm was probed for them.
    """
    by_arm = {arm["name"]: _read_quantiles(arm) for arm in arms}
    by_arm = {name: kinds for name, kinds in by_arm.items() if kinds}
    if not by_arm:
        return None
    scores = np.concatenate([y.ravel() for kinds in by_arm.values() for _, y in kinds.values()])
    low, high = float(scores.min()), float(scores.max())
    margin = 0.04 * (high - low) or 1.0
    limits = (low - margin, high + margin)
    panels = tuple(_draw_quantile_panel(name, kinds, limits) for name, kinds in by_arm.items())
    legend = tuple((kind, line_sample(number)) for kind, number in _KINDS.items())
    return Row(legend, panels, small=True)


def _read_quantiles(arm: Record) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Kind of label -> steps [entries], and quantiles averaged over seeds [quantiles, entries]."""
    found: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for kind in _KINDS:
        paths = [
            over_probes(arm, functools.partial(_quantile, kind=kind, place=i))
            for i in range(len(QUANTILES))
        ]
        if paths[0]:
            means = np.array(paths)[:, :, :2]
            found[kind] = (means[0, :, 0], means[:, :, 1])
    if "mined" in found and np.array_equal(found["mined"][1], found["sampled"][1]):
        del found["mined"]  # the same labels
    return found


def _quantile(entry: Record, kind: str, place: int) -> float | None:
    values = probe_value(entry, "negatives", kind)
    return values[place] if values else None


def _draw_quantile_panel(name: str, kinds: dict[str, Any], limits: tuple[float, float]) -> Markup:
    def draw(ax: Any) -> None:
        for kind, (x, y) in kinds.items():
            for outer, alpha in ((0, 0.13), (1, 0.25)):
                ax.fill_between(x, y[outer], y[-1 - outer], color=COLOURS[_KINDS[kind]],
                                alpha=alpha, linewidth=0)  # fmt: skip
            draw_line(ax, x, y[2], _KINDS[kind])
        ax.set(xlabel="steps", ylabel="score", ylim=limits)
        limit_ticks(ax)
        ax.set_title(wrap_name(name, 32), fontsize=11.5)

    medians = ", ".join(f"of {kind} labels {y[2, -1]:.3f}" for kind, (_, y) in kinds.items())
    description = f"Median score at the end: {medians}."
    return draw_panel(f"Scores of {name}", description, draw, (290, 220))

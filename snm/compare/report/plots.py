"""Draws the plots of a comparison as inline SVG that takes its colours from the page.

Text remains text. Lines and text use `currentColor`, and each arm a CSS custom property, so one SVG
works in light and dark mode. Every SVG has a title and a description of its figures in words.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import math
import re
import textwrap
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from snm.compare.probe import QUANTILES
from snm.compare.report.series import Points, Record, over_probes, probe_value

__all__ = [
    "Bar",
    "Lines",
    "Plot",
    "Row",
    "bars_of",
    "drawing",
    "lines_of",
    "scores_of",
]


# Placeholders that `_inlined` replaces by colours of the page.
_INK = "#010203"
_COLOURS = tuple(f"#0a0b{number:02x}" for number in range(8))
_DASHES = ((5, 2), (), (2, 2), (8, 2, 2, 2), (3, 1), (8, 2), (1, 1.5), (6, 2, 1, 2, 1, 2))
_MARKERS = "osD^vPXp"
_SHAPES = (
    "M13 6a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "M13.5 2.5h7v7h-7z",
    "M17 1.5l4.5 4.5l-4.5 4.5l-4.5-4.5z",
    "M17 1.5l4.5 8h-9z",
    "M17 10.5l4.5-8h-9z",
    "M15.5 2h3v2.5h2.5v3h-2.5v2.5h-3v-2.5h-2.5v-3h2.5z",
    "M14.5 2l2.5 2.2l2.5-2.2l1.8 1.8l-2.4 2.2l2.4 2.2l-1.8 1.8l-2.5-2.2l-2.5 2.2l-1.8-1.8"
    "l2.4-2.2l-2.4-2.2z",
    "M17 1.8l4.2 3l-1.6 5h-5.2l-1.6-5z",
)
_KINDS = {"positive": 1, "sampled": 2, "mined": 3}  # kind of label -> index of its line style
_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "snm",
    "text.parse_math": False,
    "font.size": 11.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.14,
    "lines.scale_dashes": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
    "xtick.major.pad": 6,
    **dict.fromkeys(
        ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color",
         "grid.color"), _INK,
    ),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Row:
    """Panels that share a legend.

    Attributes:
      keys: the legend: name and a sample of the line.
      panels: SVG elements.
      small: whether the page shows many of them side by side.
    """

    keys: tuple[tuple[str, Markup], ...]
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
      x: label of the x axis.
      y: label of the y axis.
      points: arm -> its points.
      says: names and points of all arms -> the description in words.
      level: y and text of a horizontal reference line.
      upright: x of a vertical reference line.
      marked: whether points have markers.
      ticks: ticks of the x axis; matplotlib chooses them by default.
    """

    title: str
    x: str
    y: str
    points: Callable[[Record], Points]
    says: Callable[[list[tuple[str, Points]]], str]
    level: tuple[float, str] | None = None
    upright: float | None = None
    marked: bool = True
    ticks: Sequence[int] = ()


@dataclasses.dataclass(frozen=True)
class Bar:
    """A horizontal bar.

    Attributes:
      name: name of the arm.
      value: length of the bar.
      text: the value as text.
      half: half the width of the interval, or None.
      dots: values of the seeds.
    """

    name: str
    value: float
    text: str
    half: float | None = None
    dots: Sequence[float] = ()


@contextlib.contextmanager
def drawing() -> Iterator[None]:
    """A context with the style of the plots, independent of the user's matplotlib settings."""
    import matplotlib

    with matplotlib.rc_context(), warnings.catch_warnings():
        # The browser renders the text, so glyphs missing from matplotlib's font do not matter.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        yield


def lines_of(title: str, note: str, arms: list[Record], panels: list[Lines]) -> Plot:
    """Draws lines in rows of at most eight arms with equal axes; each row has the baseline."""
    rows = []
    limits = [_limits([panel.points(arm) for arm in arms]) for panel in panels]
    groups = _groups(arms)
    for part, group in enumerate(groups, 1):
        drawings: list[Markup] = []
        keyed: set[int] = set()
        which = f" ({part} of {len(groups)})" if len(groups) > 1 else ""
        for panel, limit in zip(panels, limits, strict=True):
            found = [(number, arm["name"], panel.points(arm)) for number, arm in enumerate(group)]
            found = [line for line in found if line[2]]
            if found:
                keyed.update(number for number, _, _ in found)
                drawings.append(_drawn(panel, panel.title + which, found, limit))
        keys = tuple((arm["name"], _key(n)) for n, arm in enumerate(group) if n in keyed)
        if drawings:
            rows.append(Row(keys, tuple(drawings)))
    return Plot(title, note, tuple(rows))


def _groups(arms: list[Record]) -> list[list[Record]]:
    most, found = len(_COLOURS) - 1, []
    for name in dict.fromkeys(arm["baseline"] for arm in arms):
        base = [arm for arm in arms if arm["name"] == name]
        others = [arm for arm in arms if arm["baseline"] == name and arm["name"] != name]
        parts = max(1, math.ceil(len(others) / most))
        found += [base + others[len(others) * i // parts : len(others) * (i + 1) // parts]
                  for i in range(parts)]  # fmt: skip
    return found


def _limits(lines: list[Points]) -> tuple[tuple[float, float], tuple[float, float]] | None:
    every = np.array([point for line in lines for point in line])
    if not every.size:
        return None
    left, right = float(every[:, 0].min()), float(every[:, 0].max())
    room = 0.03 * (right - left) or 1.0
    return (left - room, right + room), (0.0, 1.06 * float(every[:, 3].max()) or 1.0)


def _drawn(panel: Lines, title: str, found: list[tuple[int, str, Points]], limits: Any) -> Markup:
    def draw(ax: Any) -> None:
        for number, _, points in found:
            x, y, low, high = np.array(points).T
            if np.any(low < high):
                ax.fill_between(x, low, high, color=_COLOURS[number], alpha=0.15, linewidth=0)
            _line(ax, x, y, number, panel.marked)
        ax.set(xlabel=panel.x, ylabel=panel.y, xlim=limits[0], ylim=limits[1])
        if panel.ticks:
            ax.set_xticks(list(panel.ticks))
        else:
            _few_ticks(ax)
        if panel.upright is not None:
            ax.axvline(panel.upright, color=_INK, linewidth=0.8)
        if panel.level is not None:
            ax.axhline(panel.level[0], color=_INK, linewidth=0.8, dashes=(2, 2))
            ax.annotate(panel.level[1], (0.3, panel.level[0]), xytext=(0, 4), fontsize=10.5,
                        xycoords=ax.get_yaxis_transform(), textcoords="offset points")  # fmt: skip

    says = panel.says([(name, points) for _, name, points in found])
    return _panel(title, says, draw, (380, 250))


def _line(ax: Any, x: Any, y: Any, number: int, marked: bool = True) -> None:
    ax.plot(x, y, color=_COLOURS[number], linestyle=(0, _DASHES[number] or None),
            marker=_MARKERS[number] if marked else "")  # fmt: skip


def bars_of(
    title: str, says: str, x: str, bars: Sequence[Bar], level: float | None = None
) -> Markup:
    """A panel of horizontal bars with their values as text."""
    names = [_folded(bar.name, 20) for bar in bars]
    most = max(*(max(bar.value, *bar.dots, 0.0) for bar in bars), level or 0.0)
    far = max(bar.value + (bar.half or 0.0) for bar in bars)
    right = max(1.08 * most, min(1.04 * far, 2 * most)) or 1.0

    def draw(ax: Any) -> None:
        for at, bar in enumerate(bars):
            ax.barh(at, bar.value, height=0.6, color=_INK, alpha=0.28, linewidth=0)
            ax.plot(bar.dots, [at] * len(bar.dots), "o", color=_INK, markersize=3)
            if bar.half is not None:
                low, high = bar.value - bar.half, bar.value + bar.half
                ax.plot([max(low, 0), min(high, right)], [at, at], color=_INK, linewidth=1.2)
                for end, inside, arrow in ((low, low >= 0, "<"), (high, high <= right, ">")):
                    ax.plot(min(max(end, 0), right), at, "|" if inside else arrow, color=_INK,
                            markersize=8 if inside else 5, clip_on=False)  # fmt: skip
            ax.text(1.06, at, bar.text, transform=ax.get_yaxis_transform(), va="center")
        ax.set_yticks(range(len(bars)), names)
        ax.tick_params(axis="y", length=0, pad=8)
        ax.grid(visible=False, axis="y")
        ax.set(xlabel=x, xlim=(0, right), ylim=(len(bars) - 0.5, -0.5))
        _few_ticks(ax)
        if level is not None:
            ax.axvline(level, color=_INK, linewidth=1.2, dashes=(4, 2))

    return _panel(title, says, draw, (380, 56 + sum(26 + 12 * name.count("\n") for name in names)))


def _folded(name: str, width: int) -> str:
    return "\n".join(textwrap.wrap(name, width)) or name


def _few_ticks(ax: Any) -> None:
    """At most five steps along x: the browser's font may be wider than matplotlib's."""
    ax.locator_params(axis="x", nbins=5)


def _key(number: int) -> Markup:
    dash = " ".join(str(length) for length in _DASHES[number]) or "none"
    return Markup(
        '<svg class="key" viewBox="0 0 34 12" aria-hidden="true" style="color: var(--c{})">'
        '<path d="M0 6h34" stroke="currentColor" stroke-width="2" stroke-dasharray="{}"/>'
        '<path d="{}" fill="currentColor"/></svg>'
    ).format(number, dash, _SHAPES[number])


def _panel(title: str, says: str, draw: Callable[[Any], None], size: tuple[float, float]) -> Markup:
    """Draws an SVG element; `size` is in points."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(size[0] / 72, size[1] / 72), layout="constrained")
    draw(figure.add_subplot())
    written = io.StringIO()
    figure.savefig(written, format="svg", transparent=True, metadata={"Date": None})
    return _inlined(written.getvalue(), title, says)


def _inlined(svg: str, title: str, says: str) -> Markup:
    """Turns an SVG file into an element with unique ids, colours of the page and no metadata."""
    own = f"{re.sub(r'[^a-z]+', '-', title.lower()).strip('-')}-{zlib.crc32(title.encode()):x}"
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", svg, flags=re.S)
    used = set(re.findall(r'(?:href="#|url\(#)([\w-]+)', svg))
    box = re.search(r'viewBox="([^"]*)"', svg)
    assert box

    def tag(found: re.Match[str]) -> str:
        text = re.sub(r' id="([^"]*)"', lambda m: f' id="{own}-{m[1]}"' if m[1] in used else "",
                      found[0])  # fmt: skip
        text = re.sub(r"""(?:xlink:)?(href="#|url\(#)""", rf"\1{own}-", text)
        text = re.sub(r"font(?:-family)?: ?(?:([\d.]+px) )?'[^;\"]*",
                      lambda m: f"font-size: {m[1]}" if m[1] else "", text)  # fmt: skip
        text = re.sub(r"(\.\d\d)\d+", r"\1", text).replace(_INK, "currentColor")
        return re.sub("#0a0b0([0-7])", r"var(--c\1)", text)

    inner = re.sub(r"<[^>]*>", tag, svg[svg.index(">") + 1 :].strip())
    return Markup(
        '<svg class="plot" viewBox="{}" role="img" aria-labelledby="{}-title {}-desc">'
        '<title id="{}-title">{}</title><desc id="{}-desc">{}</desc>{}'
    ).format(box[1], own, own, own, title, own, says, Markup(inner))


def scores_of(arms: list[Record]) -> Row | None:
    """Small multiples: score quantiles of positives and negatives during training, per arm."""
    found = {arm["name"]: _quantiles(arm) for arm in arms}
    found = {name: kinds for name, kinds in found.items() if kinds}
    if not found:
        return None
    every = np.concatenate([y.ravel() for kinds in found.values() for _, y in kinds.values()])
    low, high = float(every.min()), float(every.max())
    room = 0.04 * (high - low) or 1.0
    limits = (low - room, high + room)
    panels = tuple(_scores(name, kinds, limits) for name, kinds in found.items())
    keys = tuple((kind, _key(number)) for kind, number in _KINDS.items())
    return Row(keys, panels, small=True)


def _quantiles(arm: Record) -> dict[str, tuple[np.ndarray, np.ndarray]]:
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


def _scores(name: str, kinds: dict[str, Any], limits: tuple[float, float]) -> Markup:
    def draw(ax: Any) -> None:
        for kind, (x, y) in kinds.items():
            for outer, alpha in ((0, 0.13), (1, 0.25)):
                ax.fill_between(x, y[outer], y[-1 - outer], color=_COLOURS[_KINDS[kind]],
                                alpha=alpha, linewidth=0)  # fmt: skip
            _line(ax, x, y[2], _KINDS[kind])
        ax.set(xlabel="steps", ylabel="score", ylim=limits)
        _few_ticks(ax)
        ax.set_title(_folded(name, 32), fontsize=11.5)

    medians = ", ".join(f"of {kind} labels {y[2, -1]:.3f}" for kind, (_, y) in kinds.items())
    return _panel(f"Scores of {name}", f"Median score at the end: {medians}.", draw, (290, 220))

"""Draws panels by matplotlib, and turns them into inline SVG that takes its colours from the page.

Text remains text. Lines and text use `currentColor`, and each arm a CSS custom property, so one SVG
works in light and dark mode. Every SVG has a title and a description of its figures in words.
"""

from __future__ import annotations

import contextlib
import io
import re
import textwrap
import warnings
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from markupsafe import Markup

__all__ = [
    "COLOURS",
    "INK",
    "draw_line",
    "draw_panel",
    "limit_ticks",
    "line_sample",
    "plot_style",
    "wrap_name",
]

INK = "#010203"
"""The colour of text; `_inline_svg` replaces it by that of the page."""

COLOURS = tuple(f"#0a0b{number:02x}" for number in range(8))
"""The colours of arms; `_inline_svg` replaces them by those of the page."""

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
         "grid.color"), INK,
    ),
}  # fmt: skip


@contextlib.contextmanager
def plot_style() -> Iterator[None]:
    """Applies the style of the plots in a block, whatever the user's matplotlib settings are."""
    import matplotlib

    with matplotlib.rc_context(), warnings.catch_warnings():
        # The browser renders the text, so glyphs missing from matplotlib's font do not matter.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        yield


def draw_line(ax: Any, x: Any, y: Any, number: int, markers: bool = True) -> None:
    """Draws a line with the colour, dashes and markers of a number from 0 to 7."""
    ax.plot(x, y, color=COLOURS[number], linestyle=(0, _DASHES[number] or None),
            marker=_MARKERS[number] if markers else "")  # fmt: skip


def wrap_name(name: str, width: int) -> str:
    """Wraps a name into lines of at most `width` characters."""
    return "\n".join(textwrap.wrap(name, width)) or name


def limit_ticks(ax: Any) -> None:
    """At most five intervals along x: the browser's font may be wider than matplotlib's."""
    ax.locator_params(axis="x", nbins=5)


def line_sample(number: int) -> Markup:
    """A short line as `draw_line` draws it, for the legend."""
    dash = " ".join(str(length) for length in _DASHES[number]) or "none"
    return Markup(
        '<svg class="key" viewBox="0 0 34 12" aria-hidden="true" style="color: var(--c{})">'
        '<path d="M0 6h34" stroke="currentColor" stroke-width="2" stroke-dasharray="{}"/>'
        '<path d="{}" fill="currentColor"/></svg>'
    ).format(number, dash, _SHAPES[number])


def draw_panel(
    title: str, description: str, draw: Callable[[Any], None], size: tuple[float, float]
) -> Markup:
    """Draws a panel as an SVG element.

    Args:
      title: the title, from which ids in the SVG are made.
      description: the alternative text.
      draw: draws on matplotlib axes.
      size: width and height in points.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(size[0] / 72, size[1] / 72), layout="constrained")
    draw(figure.add_subplot())
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    return _inline_svg(buffer.getvalue(), title, description)


def _inline_svg(svg: str, title: str, description: str) -> Markup:
    """Turns an SVG file into an element with unique ids, colours of the page and no metadata."""
    prefix = f"{re.sub(r'[^a-z]+', '-', title.lower()).strip('-')}-{zlib.crc32(title.encode()):x}"
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", svg, flags=re.S)
    used = set(re.findall(r'(?:href="#|url\(#)([\w-]+)', svg))
    box = re.search(r'viewBox="([^"]*)"', svg)
    assert box

    def replace_tag(match: re.Match[str]) -> str:
        text = re.sub(r' id="([^"]*)"', lambda m: f' id="{prefix}-{m[1]}"' if m[1] in used else "",
                      match[0])  # fmt: skip
        text = re.sub(r"""(?:xlink:)?(href="#|url\(#)""", rf"\1{prefix}-", text)
        text = re.sub(r"font(?:-family)?: ?(?:([\d.]+px) )?'[^;\"]*",
                      lambda m: f"font-size: {m[1]}" if m[1] else "", text)  # fmt: skip
        text = re.sub(r"(\.\d\d)\d+", r"\1", text).replace(INK, "currentColor")
        return re.sub("#0a0b0([0-7])", r"var(--c\1)", text)

    inner = re.sub(r"<[^>]*>", replace_tag, svg[svg.index(">") + 1 :].strip())
    return Markup(
        '<svg class="plot" viewBox="{}" role="img" aria-labelledby="{}-title {}-desc">'
        '<title id="{}-title">{}</title><desc id="{}-desc">{}</desc>{}'
    ).format(box[1], prefix, prefix, prefix, title, prefix, description, Markup(inner))

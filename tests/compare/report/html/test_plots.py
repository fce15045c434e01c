"""What is drawn is at the values that it is of."""

import numpy as np
import pytest
from markupsafe import Markup
from matplotlib.figure import Figure

from snm.compare.report.html import plots
from snm.compare.report.html.plots import (
    Bar,
    Lines,
    draw_bars,
    draw_lines,
    draw_score_quantiles,
)
from snm.compare.report.html.svg import plot_style


@pytest.fixture
def axes(monkeypatch):
    """The axes of the panels that are drawn, in their order."""
    drawn = []

    def panel(title, description, draw, size):
        drawn.append(Figure().add_subplot())
        draw(drawn[-1])
        return Markup(title)

    monkeypatch.setattr(plots, "draw_panel", panel)
    with plot_style():
        yield drawn


def data_of(line):
    return np.transpose(line.get_data()).tolist()


def test_bars(axes):
    draw_bars("t", "", "x", [Bar("a", 2.0, "2.00", 0.5, (1.5, 2.5)), Bar("b", 1.0, "1.00")], 1.25)
    (ax,) = axes
    assert [(bar.get_y() + bar.get_height() / 2, bar.get_width()) for bar in ax.patches] == [
        (0, 2.0),
        (1, 1.0),
    ]
    dots, interval, low, high, none, level = (data_of(line) for line in ax.lines)
    assert dots == [[1.5, 0], [2.5, 0]] and interval == [[1.5, 0], [2.5, 0]]
    assert (low, high, none) == ([[1.5, 0]], [[2.5, 0]], [])
    assert [x for x, _ in level] == [1.25, 1.25]
    assert [text.get_text() for text in ax.texts] == ["2.00", "1.00"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b"]


def test_lines_of_arms_and_their_intervals(axes):
    points = {
        "base": [(0, 1.0, 0.5, 1.5), (10, 2.0, 1.0, 3.0)],
        "other": [(0, 4.0, 4.0, 4.0), (10, 3.0, 3.0, 3.0)],
        "none": [],
    }
    arms = [{"name": name, "baseline": "base"} for name in points]
    panel = Lines("t", "steps", "loss", lambda arm: points[arm["name"]], lambda found: "",
                  horizontal=(2.5, "level"), vertical=5)  # fmt: skip
    plot = draw_lines("title", "note", arms, [panel])
    (ax,) = axes
    first, second, upright, level = (data_of(line) for line in ax.lines)
    assert first == [[0, 1.0], [10, 2.0]] and second == [[0, 4.0], [10, 3.0]]
    assert [x for x, _ in upright] == [5, 5] and [y for _, y in level] == [2.5, 2.5]
    (band,) = ax.collections  # the other has an interval of no width
    corners = {tuple(corner) for corner in band.get_paths()[0].vertices.tolist()}
    assert corners == {(0, 0.5), (0, 1.5), (10, 1.0), (10, 3.0)}
    assert [name for name, _ in plot.rows[0].legend] == ["base", "other"]
    assert ax.get_ylim()[0] == 0 and ax.get_ylim()[1] > 4


def test_quantiles_of_scores(axes, monkeypatch):
    of = {"positive": [1.0, 2.0, 3.0, 4.0, 5.0], "sampled": [0.0, 0.1, 0.2, 0.3, 0.4]}

    def over_probes(arm, value):
        kind, place = value.keywords["kind"], value.keywords["place"]
        return [(step, of[kind][place] + step, 0, 0) for step in (0, 8)] if kind in of else []

    monkeypatch.setattr(plots, "over_probes", over_probes)
    row = draw_score_quantiles([{"name": "arm"}])
    (ax,) = axes
    assert [data_of(line) for line in ax.lines] == [[[0, 3.0], [8, 11.0]], [[0, 0.2], [8, 8.2]]]
    outer = {tuple(corner) for corner in ax.collections[0].get_paths()[0].vertices.tolist()}
    assert outer == {(0, 1.0), (0, 5.0), (8, 9.0), (8, 13.0)}
    assert row.panels == ("Scores of arm",)

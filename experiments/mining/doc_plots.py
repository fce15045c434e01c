"""Draws the plots of the documentation from committed results; it measures nothing.

    python -m experiments.mining.doc_plots         # writes docs/plots, takes a few seconds

| plot | from |
|---|---|
| `mined.svg` | `experiments/results/compare-*.json` (`snm compare`) |
| `sizes.svg`, `losses.svg` | `experiments/results/choosing.json` (`experiments.mining.choosing`) |
| `steps.svg` | `benchmarks/results/cpu.json` (`snm bench`) |
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from experiments.shared.figures import COLOURS, DASHES, RESULTS, panels, save
from snm.runs.folder import read_json

ROOT = Path(__file__).parents[2]
PLOTS = ROOT / "docs" / "plots"
MARKS = ("o", "s", "^", "D", "v", "P")
SHAPES = {
    "eurlex": "4 thousand labels",
    "amazoncat": "13 thousand labels",
    "amazon670k": "670 thousand labels",
}


def main() -> None:
    """Draws all plots."""
    PLOTS.mkdir(exist_ok=True)
    for name, figure in (("mined", mined()), ("sizes", sizes()), ("losses", losses()),
                         ("steps", steps())):  # fmt: skip
        path = PLOTS / f"{name}.svg"
        save(figure, path, name)
        print(path.relative_to(ROOT))


def mined() -> Figure:
    """R@1 relative to negative sampling against k', from `snm compare`."""
    figure, axes = panels(2)
    names = ("citeulike-t-14k", "delicious", "gowalla")
    left, right = "--exclude positive (the paper's)", "--exclude all"
    for number, name in enumerate(names):
        arms = read_json(RESULTS / f"compare-{name}.json")["arms"]
        for axis, exclude in zip(axes, ("positive", "all"), strict=True):
            points = [
                (arm["mined"], arm["ratio"]["R@1"], arm["ratio_ci95"]["R@1"])
                for arm in arms
                if arm["exclude"] == exclude and arm["mined"] != "all"
            ]
            if points:
                ks, ratios, errors = zip(*points, strict=True)
                line(axis, number, ks, ratios, name, errors)
    for axis, title in zip(axes, (left, right), strict=True):
        axis.axhline(1, color="#888888", linewidth=1)
        axis.text(64, 0.94, "negative sampling: k' = B", fontsize=8, color="#555555", ha="right")
        ticks(axis, (1, 16, 64), "mined labels k'")
        axis.set(title=title, ylim=(0.4, 2.1))
        axis.legend()
    axes[0].set_ylabel("R@1 / that of negative sampling")
    return figure


def sizes() -> Figure:
    """P@1 on a held-out fifth of train against B, one line per k'."""
    cells = of("sizes")
    names = list(dict.fromkeys(cell["data"] for cell in cells))
    figure, axes = panels(len(names))
    for axis, name in zip(axes, names, strict=True):
        one = [cell for cell in cells if cell["data"] == name]
        curves(axis, one)
        axis.set(title=f"{name} (K = {one[0]['num_labels']:,})", ylabel="P@1, percent, held out")
    return figure


def curves(axis: Any, cells: list[dict[str, Any]]) -> None:
    """P@1 against B, one line per k'; k' = B is negative sampling."""
    every = sorted({cell["settings"]["sampled"] for cell in cells})
    for number, some in enumerate((16, 64, 256, "all")):
        points = sorted(
            (cell["settings"]["sampled"], cell["metrics"]["P@1"])
            for cell in cells
            if cell["settings"]["mined"] == some
        )
        if points:
            bs, values = zip(*points, strict=True)
            line(axis, number, bs, values, f"k' = {'B' if some == 'all' else some}")
    ticks(axis, every, "sampled labels B")
    axis.legend()


def losses() -> Figure:
    """P@1 of each loss at the better of its learning rates, for two values of k'."""
    cells = [cell for cell in of("losses") if cell["metrics"]]
    figure, (axis,) = panels(1, width=6, height=2.8)
    names = list(dict.fromkeys(loss_of(cell) for cell in cells))
    found = {}  # (k', loss) -> P@1 at the better learning rate
    for cell in cells:
        key = cell["settings"]["mined"], loss_of(cell)
        found[key] = max(found.get(key, 0.0), cell["metrics"]["P@1"])
    # The values of k' with which every loss was trained.
    ks = [
        k for k in dict.fromkeys(k for k, _ in found) if all((k, name) in found for name in names)
    ]
    height = 0.7 / len(ks)
    for number, k in enumerate(ks):
        places = [place + (number - (len(ks) - 1) / 2) * height for place in range(len(names))]
        values = [found[k, name] for name in names]
        bars = axis.barh(places, values, 0.9 * height, color=COLOURS[number], label=f"k' = {k}")
        axis.bar_label(bars, fmt="%.1f", padding=3, fontsize=8)
    axis.set_yticks(range(len(names)), names)
    axis.invert_yaxis()
    axis.grid(False, axis="y")
    axis.set(xlabel="P@1, percent, held out", xlim=(0, 70))
    axis.set_title(f"{cells[0]['data']}, B = {cells[0]['settings']['sampled']:,}", loc="left")
    axis.set_axisbelow(True)
    figure.legend(loc="outside upper right", ncols=len(ks))
    return figure


def steps() -> Figure:
    """Time of a training step against k', relative to k' = B."""
    rows = [row for row in read_json(ROOT / "benchmarks" / "results" / "cpu.json")
            if row["part"] == "step"]  # fmt: skip
    figure, (axis,) = panels(1, width=5.2)
    for number, (shape, label) in enumerate(SHAPES.items()):
        mine = [row for row in rows if row["shape"] == shape]
        (whole,) = (row["median_s"] for row in mine if row["mined"] == "all")
        points = sorted(
            (row["sampled"] if row["mined"] == "all" else row["mined"], row["median_s"] / whole)
            for row in mine
        )
        ks, shares = zip(*points, strict=True)
        sampled = mine[0]["sampled"]
        line(axis, number, ks, shares, f"{label}, B = {sampled:,}: {whole * 1e3:,.0f} ms")
    ticks(axis, (1, 16, 256, 1024, 32768), "mined labels k'")
    axis.set(ylabel="time of a step / of negative sampling's", ylim=(0, 1.12))
    axis.legend(title="and negative sampling's step", title_fontsize=8, loc="lower right")
    return figure


def line(
    axis: Any, number: int, x: Iterable[float], y: Iterable[float], label: str, errors: Any = None
) -> None:
    """Draws a curve with its own colour, dashes and markers."""
    axis.errorbar(
        x, y, yerr=errors, label=label, color=COLOURS[number], linestyle=DASHES[number],
        marker=MARKS[number], markersize=4, capsize=3,
    )  # fmt: skip


def ticks(axis: Any, at: Iterable[int], label: str) -> None:
    """Makes the x axis logarithmic with ticks at these numbers."""
    at = list(at)
    axis.set_xscale("log")
    axis.set_xticks(at, [f"{value:,}" for value in at])
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xlabel(label)


def loss_of(cell: dict[str, Any]) -> str:
    """Name of the loss of a run, as in the documentation."""
    settings = cell["settings"]
    return settings["loss"] + (f", {settings['phi']}" if "phi" in settings else "")


def of(question: str) -> list[dict[str, Any]]:
    """The runs of `experiments.mining.choosing` that belong to a question."""
    cells = read_json(RESULTS / "choosing.json")["cells"]
    return [cell for cell in cells if cell["question"] == question]


if __name__ == "__main__":
    main()

"""Writes the tables of `EPYC.md`, and a plot of time against K, from `snm bench` JSON.

python -m benchmarks.tables.summary FILE [--plot benchmarks/tables/growth.svg]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from snm.system.files.atomic import atomic_file

Rows = list[dict[str, Any]]


def markdown(rows: Rows) -> Iterator[str]:
    """Yields Markdown: one table for each part, and one more for each tuned allocator."""
    titled = [(_title(row), row) for row in rows]
    for title in dict.fromkeys(title for title, _ in titled):
        here = [row for found, row in titled if found == title]
        peak, line = ("", "") if here[0]["peak_bytes"] is None else (" peak MB |", "---:|")
        yield f"## {title}\n"
        yield f"| shape | job | ms | / floor | times faster than |{peak}"
        yield f"|---|---|---:|---:|---|{line}"
        for row in here:
            yield f"| {' | '.join(_cells(row))} |"
        yield ""


def _title(row: dict[str, Any]) -> str:
    malloc, part = row["on"]["malloc"], row["part"]
    if row["device"] == "cpu" and row.get("compute_dtype") == "bfloat16":
        part = f"{part}, factors of bfloat16"
    return part if malloc == "default" else f"{part}, with {malloc}"


def _cells(row: dict[str, Any]) -> Iterator[str]:
    yield row["shape"]
    mined = "" if row["mined"] is None else f"k' {row['mined']} of {row['sampled']:,}"
    yield row["case"] or mined or "draw"
    low, high = (_number(1e3 * value) for value in row["quartiles_s"])
    yield f"{_number(1e3 * row['median_s'])} ({low}-{high})"
    if row["ratio_to_floor"] is None:
        yield ""
    else:
        low, high = (_number(value) for value in row["ratio_to_floor_quartiles"])
        yield f"{_number(row['ratio_to_floor'])} ({low}-{high})"
    peers = [f"{name} {_number(value)}" for name, value in row["ratio_to_peer"].items()]
    if "agreement" in row:
        peers.append(f"agrees with float32 in {row['agreement']:.1%}")
    yield "; ".join([*peers, *(f"{name}: {why}" for name, why in row["peers_missing"].items())])
    if row["peak_bytes"] is not None:
        yield f"{row['peak_bytes'] / 2**20:,.0f}"


def _number(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def draw(rows: Rows, path: Path) -> None:
    """Draws the milliseconds of a step against the number of labels, with quartiles."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
    for shape in dict.fromkeys(row["shape"] for row in rows if row["part"] == "growth"):
        of_shape = [row for row in rows if (row["part"], row["shape"]) == ("growth", shape)]
        labels = [row["labels"] for row in of_shape]
        median = np.array([row["median_s"] for row in of_shape]) * 1e3
        around = np.abs(np.array([row["quartiles_s"] for row in of_shape]).T * 1e3 - median)
        name = f"{shape}'s features, {of_shape[0]['sampled']:,} sampled"
        axes.errorbar(labels, median, around, marker="o", capsize=3, label=name)
    axes.set(xscale="log", xlabel="labels K", ylabel="ms a training step (k' 16)")
    axes.set_ylim(bottom=0)
    figure.legend(frameon=False, loc="outside upper left")
    axes.spines[["top", "right"]].set_visible(False)
    with atomic_file(path) as partial:
        figure.savefig(partial, format=path.suffix[1:] or "svg", metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument("--plot", type=Path, help="SVG to draw")
    options = parser.parse_args()
    rows: Rows = []
    for path in options.results:
        rows += json.loads(path.read_text(encoding="utf-8"))
    print("\n".join(markdown(rows)))
    if options.plot:
        draw(rows, options.plot)


if __name__ == "__main__":
    main()

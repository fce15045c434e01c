"""Measures training seconds, peak memory and prediction time against the size of the data.

    python -m experiments.defaults.growth FOLDER --out FOLDER [--presets fast default]

One of three sizes changes at a time: points, labels, or features per point; the others have the
values of `BASE`. The data sets are generated (`snm data synth`, seed 0) into the first folder, and
kept there. Every run is a separate process, as in `experiments.defaults.presets`; runs in the
result file are not repeated. Let no other program run meanwhile.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tyro

from experiments.defaults import presets as runs_beside
from experiments.shared.command_line import run_command
from experiments.shared.figures import COLOURS, DASHES, panels, save_results
from snm.cli.data_verbs.synth import Synth
from snm.runs.folder import read_json

BASE = {"points": 40_000, "labels": 20_000, "nonzeros_per_point": 20}
AXES = {
    "points": (10_000, 40_000, 160_000, 500_000),
    "labels": (1_000, 20_000, 200_000, 3_000_000),
    "nonzeros_per_point": (5, 20, 80, 320),
}
TITLES = {"points": "training points", "labels": "labels", "nonzeros_per_point": "features a point"}
FIXED = {"test_points": 5000, "features": 50_000, "labels_per_point": 3.0}
QUANTITIES = {
    "seconds": "seconds of training",
    "mebibytes": "peak memory, MiB",
    "milliseconds": "milliseconds an answer",
}


def main(
    folder: tyro.conf.Positional[Path],
    out: Path,
    presets: tuple[str, ...] = ("fast", "default"),
    peers: tuple[str, ...] = ("omikuji",),
) -> None:
    """Generates the data sets, runs all on each, and draws the plots.

    Args:
      folder: for the data sets.
      out: folder for the runs and the plots.
      presets: of `snm train --preset`.
      peers: packages of `snm compare --peers`.
    """
    sets = {name_of(sizes): sizes for axis in AXES for sizes in along(axis)}
    for name, sizes in sets.items():
        if not (folder / name).exists():
            Synth(out=folder / name, **FIXED | sizes)()
    out.mkdir(parents=True, exist_ok=True)
    kept = out / "growth-runs.json"
    runs_beside.main([folder / name for name in sets], kept, (0,), presets, peers)
    rows = [row_of(run, sets[run["data"]]) for run in read_json(kept)["runs"]]
    draw(rows, out)


def along(axis: str) -> list[dict[str, Any]]:
    """The sizes of the data sets of an axis, ascending."""
    return [BASE | {axis: value} for value in AXES[axis]]


def name_of(sizes: dict[str, Any]) -> str:
    """The folder of the data set with these sizes."""
    return "-".join(f"{value}" for value in sizes.values())


def row_of(run: dict[str, Any], sizes: dict[str, Any]) -> dict[str, Any]:
    """Time and memory of a run, with the sizes of its data."""
    return {
        "name": run["name"], **sizes,
        "seconds": run["seconds"],
        "mebibytes": run["peak_memory_bytes"] / 2**20,
        "milliseconds": 1000 * run["predict_seconds"] / FIXED["test_points"],
        "P@1": run["metrics"]["P@1"],
    }  # fmt: skip


def draw(rows: list[dict[str, Any]], out: Path) -> None:
    """A row of panels for each quantity, one panel an axis, and a line a program."""
    names = list(dict.fromkeys(row["name"] for row in rows))
    figure, _ = panels(1, width=11, height=8.5)
    figure.clear()
    axes = figure.subplots(len(QUANTITIES), len(AXES), sharey="row", sharex="col")
    slopes = []
    for line, (quantity, of_quantity) in enumerate(QUANTITIES.items()):
        for column, axis in enumerate(AXES):
            panel = axes[line, column]
            for number, name in enumerate(names):
                at, values = points_of(rows, name, axis, quantity)
                panel.plot(at, values, marker="o", markersize=3, color=COLOURS[number],
                           linestyle=DASHES[number], label=name)  # fmt: skip
                slopes.append({"quantity": quantity, "axis": axis, "name": name,
                               "slope": slope(at, values)})  # fmt: skip
            panel.set(xscale="log", yscale="log")
            if line == len(QUANTITIES) - 1:
                panel.set_xlabel(TITLES[axis])
        axes[line, 0].set_ylabel(of_quantity)
    axes[0, 0].legend()
    save_results("growth", "What a size costs", rows, figure, out, base=BASE | FIXED, slopes=slopes)


def points_of(
    rows: list[dict[str, Any]], name: str, axis: str, quantity: str
) -> tuple[list[float], list[float]]:
    """The line of a program: the sizes along an axis, and what was measured there."""
    others = [key for key in BASE if key != axis]
    mine = [row for row in rows if row["name"] == name and all(row[k] == BASE[k] for k in others)]
    mine.sort(key=lambda row: row[axis])
    return [row[axis] for row in mine], [row[quantity] for row in mine]


def slope(at: list[float], values: list[float]) -> float | None:
    """The power of the size between its two largest values; None with fewer than two."""
    if len(at) < 2:
        return None
    return float(np.diff(np.log(values[-2:]))[0] / np.diff(np.log(at[-2:]))[0])


if __name__ == "__main__":
    run_command(main)

"""Measures the calibration of the default preset's probabilities on test points.

    python -m experiments.answers.probabilities DATA ... --runs FOLDER

Each data set is trained on once, into a folder of its name; a finished run is not repeated. The
training fits the probabilities on training points that member 1 leaves out, so that test points
choose nothing. ECE is the expected calibration error with 10 bins of equal width; the next column
estimates its value by chance if the probabilities were exact.

Takes about 2 minutes a data set on 2 cores.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tyro

import snm
from experiments.shared.arms import train_and_measure
from experiments.shared.command_line import run_command
from experiments.shared.figures import COLOURS, DASHES, panels, save_results
from snm.evaluation.reliability import Reliability
from snm.machine.versions import machine_record
from snm.runs.folder import RunFolder

KS = (1, 5, 20)
_SHOWN = 20  # answers of a bin that the diagram shows: fewer tell little


def main(data: tyro.conf.Positional[list[str]], runs: Path) -> None:
    """Trains, measures, and writes the JSON and the diagram.

    Args:
      data: folders of data sets.
      runs: folder of the runs.
    """
    rows = train_and_measure(data, runs, measure)
    figure, (panel,) = panels(1)
    panel.plot([0, 1], [0, 1], color="#999999", linewidth=0.8)
    for row, colour, dash in zip(rows, COLOURS, DASHES, strict=False):
        full = [one for one in row["bins"] if one["answers"] >= _SHOWN]
        points = [(one["probability"], one["right"]) for one in full]
        panel.plot(*zip(*points, strict=True), color=colour, linestyle=dash, marker="o",
                   markersize=3, label=row["data"])  # fmt: skip
    panel.set(xlabel="probability of the best 5 answers", ylabel="share that is right")
    panel.legend()
    bins = {row["data"]: row.pop("bins") for row in rows}
    title = "probabilities of the default preset, on test points"
    save_results("probabilities", title, rows, figure, bins_of_5=bins, **machine_record())


def measure(run: Path, dataset: snm.Dataset) -> dict[str, Any]:
    """The error at some k, and the diagram of the best 5 as `bins`."""
    model, test = snm.load(run), dataset.test
    assert test is not None and model.calibration is not None
    test = test.take(np.flatnonzero(np.diff(test.labels.indptr)))
    labels, p = model.predict_proba(test.features, max(KS))
    rows = np.arange(test.num_points).repeat(max(KS))
    right = np.asarray(test.labels[rows, labels.ravel()]).reshape(labels.shape) > 0
    found: dict[str, Any] = {}
    for k in KS:
        measured = Reliability.start().update(p[:, :k], right[:, :k]).result()
        found |= {f"ECE@{k}": measured["ECE"], f"by chance@{k}": measured["ECE_by_chance"]}
        if k == 5:
            bins = measured["bins"]
    record = RunFolder(run).read_memory_record()
    return {
        **found,
        "curve": model.calibration.ranked.method,
        "held out": record.held_out,
        "test points": test.num_points,
        "memory": record.used,
        "bins": bins,
    }


if __name__ == "__main__":
    run_command(main)

"""Compares F1 on test points at a threshold of one half and at the thresholds that a run chooses.

    python -m experiments.answers.thresholds DATA ... --runs FOLDER --out thresholds.json

Each data set is trained on once with the default preset, into a folder of its name; a finished run
is not repeated. The training chooses the thresholds on training points that member 1 leaves out, so
that test points choose nothing. `best k` predicts the same number of labels for every point, with
the k that is best on the test points: a bound that needs the test labels.

Takes about 1 minute a data set on 2 cores.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import tyro

import snm
from experiments.shared.arms import train_and_measure
from experiments.shared.command_line import run_command
from snm.evaluation.f1 import F1
from snm.machine.versions import machine_record
from snm.runs.folder import RunFolder, write_json

GOALS = ("0.5", "micro-f1", "macro-f1", "f1@5")
MOST = 50


def main(data: tyro.conf.Positional[list[str]], runs: Path, out: Path | None = None) -> None:
    """Trains, measures, and prints and writes the JSON.

    Args:
      data: folders of data sets.
      runs: folder of the runs.
      out: a JSON file to write.
    """
    rows = train_and_measure(data, runs, measure)
    found = {"preset": "default", **machine_record(), "rows": rows}
    print(json.dumps(found, indent=1))
    if out is not None:
        write_json(out, found)


def measure(run: Path, dataset: snm.Dataset) -> dict[str, Any]:
    """F1 at each threshold, and of the best number of answers."""
    by_threshold = snm.evaluate(run, dataset, thresholds=GOALS)["at_threshold"]
    model, test = snm.load(run), dataset.test
    assert test is not None
    answers, _ = model.predict(test.features, min(MOST, test.num_labels))
    start = F1.start(test.num_labels)
    of_k = [start.update(answers[:, :k], test.labels).result() for k in range(1, MOST + 1)]
    macro = model.threshold("macro-f1")
    return {
        "at": by_threshold,
        "best k": {name: max(one[name] for one in of_k) for name in ("micro-F1", "macro-F1", "F1")},
        "thresholds": {name: model.threshold(name).overall for name in GOALS[1:]},
        "labels of their own": len(macro.labels),
        "labels": test.num_labels,
        "held out": RunFolder(run).read_memory_record().held_out,
        "test points": int(np.count_nonzero(np.diff(test.labels.indptr))),
    }


if __name__ == "__main__":
    run_command(main)

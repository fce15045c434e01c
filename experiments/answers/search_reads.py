"""Measures how much a neighbour search must read: metrics against entries read per point.

Trains `--preset fast --memory on` on four fifths of the training points, and predicts for the rest.
The memory of the run is searched with several limits on the entries that are read for a point, its
rarest features first (`snm.memory.neighbors.MAX_READ`). Test points are not used.

    python -m experiments.answers.search_reads DATA ... --out experiments/results/search-reads.json
"""

from __future__ import annotations

import dataclasses
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

import tyro

import snm
from experiments.shared.arms import metrics_on_test
from experiments.shared.command_line import run_command
from snm.data.dataset import Dataset
from snm.machine.versions import machine_record
from snm.memory import neighbors
from snm.memory.memory import NUM_FOUND
from snm.memory.neighbors import StoredPoints
from snm.prediction.predictor import Predictor
from snm.runs.folder import write_json

LIMITS = (1 << 40, 1 << 17, 1 << 16, 1 << 15, 1 << 14, 1 << 13)
KEYS = ("P@1", "P@3", "P@5", "PSP@5")


def main(data: tyro.conf.Positional[list[Path]], out: Path) -> None:
    """Trains on each set, and writes the results after each.

    Args:
      data: folders of data sets.
      out: JSON file to write.
    """
    runs: list[dict[str, Any]] = []
    for folder in data:
        parts = snm.load_data(folder).split(0.2, seed=0)
        assert parts.test is not None
        with tempfile.TemporaryDirectory() as place:
            config = dataclasses.replace(snm.preset("fast"), memory="on")
            snm.train(parts, config, f"{place}/run")
            model = snm.load(f"{place}/run")
        runs.append({"data": folder.name, "points": parts.train.num_points,
                     "used": model.memory is not None, **score(model, None, parts)})  # fmt: skip
        for limit in LIMITS if model.memory is not None else ():
            with mock.patch.object(neighbors, "MAX_READ", limit):
                found = score(model, StoredPoints(model.memory.features), parts)
            name = "all" if limit == LIMITS[0] else limit
            runs.append({"data": folder.name, "read": name, **found})
            print(runs[-1], flush=True)
        write_json(out, {**machine_record(), "split": "held-out fifth of train", "runs": runs})


def score(model: Predictor, among: StoredPoints | None, parts: Dataset) -> dict[str, Any]:
    """Metrics of the held-out points; milliseconds of the search for a point, in one block.

    Args:
      model: with a memory.
      among: what its memory stores; None answers without the memory.
      parts: the training points, and those held out.
    """
    points = parts.test
    assert points is not None
    found: dict[str, Any] = {}
    if among is None:
        model = dataclasses.replace(model, memory=None)
    else:
        features = model.weighting.apply(points.features)
        among.similar(features[:100], NUM_FOUND)  # what is computed once is
        begun = time.perf_counter()
        among.similar(features, NUM_FOUND)
        found["milliseconds"] = 1000 * (time.perf_counter() - begun) / points.num_points
    return {**found, **metrics_on_test(model, parts, KEYS)}


if __name__ == "__main__":
    run_command(main, description=__doc__)

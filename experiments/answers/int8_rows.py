"""Measures what int8 rows lose: `snm export --to npy --rows int8` against float32.

Each set is trained with `--preset fast`. Recall is of the class rows and feature rows alone,
relative to float32, on the first 2,048 test points. Precision is of all test points, with both
exports, and with the votes of a memory if the run has one. Seconds are not compared: they depend on
the machine.

    python -m experiments.answers.int8_rows DATA ... --out experiments/results/int8-rows.json
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import tyro

import snm
from experiments.shared.arms import metrics_on_test
from experiments.shared.command_line import run_command
from snm.config.settings import preset
from snm.data.dataset import Dataset
from snm.export.cli import Export
from snm.export.manifest import read_manifest
from snm.runs.folder import write_json

METRICS = ("P@1", "P@3", "P@5")


def measure(run: Path, dataset: Dataset, place: Path) -> dict[str, Any]:
    """Recall of int8 rows; precision and size of both exports of a run."""
    found: dict[str, Any] = {}
    for rows in ("float32", "int8"):
        out = place / rows
        Export(run, to="npy", out=out, rows=rows)()
        model = snm.load(out)
        files = [out / f"model-{table}.npy" for table in ("feature_rows", "class_rows")]
        size = sum(file.stat().st_size for file in files)
        found[rows] = {"MiB": size / 2**20, **metrics_on_test(model, dataset, METRICS)}
    found["memory"] = model.memory is not None
    found["recall"] = read_manifest(out, "npy")["measured"]["recall"]
    return found


def main(data: tyro.conf.Positional[tuple[Path, ...]], out: Path) -> None:
    """Trains on each set, and writes the results."""
    config, sets = preset("fast"), []
    for folder in data:
        dataset = snm.load_data(folder)
        assert dataset.test is not None, f"{folder} has no test points"
        with tempfile.TemporaryDirectory() as name:
            place = Path(name)
            snm.train(folder, config, place / "run")
            labels = dataset.train.num_labels
            about = {"data": dataset.name, "labels": labels, "test points": dataset.test.num_points}
            sets.append(about | measure(place / "run", dataset, place))
        print(sets[-1], flush=True)
        write_json(out, {"preset": "fast", "sets": sets})


if __name__ == "__main__":
    run_command(main)

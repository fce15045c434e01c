"""Tests whether parameters averaged over the end of a run score better than the last ones.

One small member (`default_preset.START`) is trained on four fifths of the training points, with a
linear schedule that ends at 0 and with a constant learning rate. Its parameters are recorded twice
an epoch. Their mean over the last part of the run, with label embeddings scaled to unit length, is
scored on the held-out fifth, beside the parameters of the last step.

    python -m experiments.rules.averaging DATA [DATA ...] --out FILE

Takes two minutes per data set and seed on 2 cores. Test points are not used.
"""

from __future__ import annotations

import dataclasses
import math
import tempfile
from pathlib import Path
from typing import Any

import jax
import numpy as np
import tyro

import snm
from experiments.defaults.default_preset import START, make_dataset
from experiments.shared.arms import metrics_on_test
from experiments.shared.command_line import run_command
from snm.data.dataset import Dataset
from snm.machine.versions import machine_record
from snm.prediction.predictor import Predictor
from snm.runs.folder import write_json
from snm.tables.table import normalize

KEYS = ("P@1", "P@3", "P@5", "PSP@5")
LAST = (0.25, 0.5)
"""Fractions of the run, from its end, to average over."""


def main(
    data: tyro.conf.Positional[list[str]], out: Path, seeds: tuple[int, ...] = (0, 1, 2)
) -> None:
    """Trains, averages, scores, and writes JSON after each run.

    Args:
      data: folders of data sets, or names of generated ones (see `default_preset`).
      out: JSON file to write.
      seeds: seeds of the model.
    """
    runs: list[dict[str, Any]] = []
    for folder in data:
        parts = make_dataset(folder).split(0.2, seed=0)
        for seed in seeds:
            for schedule in ("linear", "constant"):
                scores = averaged(parts, schedule, seed)
                runs.append(
                    {"data": parts.name, "schedule": schedule, "seed": seed, "scores": scores}
                )
                write_json(out, {**machine_record(), "start": START, "runs": runs})
                for name, metrics in scores.items():
                    shown = "  ".join(f"{metrics[key]:.2f}" for key in KEYS)
                    print(f"{parts.name:<16} {schedule:<9} {seed}  {name:<22} {shown}", flush=True)


def averaged(parts: Dataset, schedule: str, seed: int) -> dict[str, dict[str, float]]:
    """Metrics of the last parameters, and of the means over the last parts of the run."""
    settings = {**START, "schedule": schedule, "seed": seed, "checkpoint_every": 10**9}
    config = dataclasses.replace(snm.preset("default"), **settings)
    snapshots: list[Predictor] = []

    def take_snapshot(predictor: Predictor) -> dict[str, Any]:
        # Copy, because the next step updates the parameters in place.
        state = jax.tree.map(np.array, predictor.state)
        snapshots.append(dataclasses.replace(predictor, state=state))
        return {}

    every = max(1, math.ceil(parts.train.num_points / config.batch_size) // 2)
    with tempfile.TemporaryDirectory() as folder:
        run = f"{folder}/run"
        for _ in snm.training(parts, config, run, probe=take_snapshot, probe_every=every):
            pass
    found = {"last": metrics_on_test(snapshots[-1], parts, KEYS)}
    for share in LAST:
        chosen = snapshots[-max(1, round(share * (len(snapshots) - 1))) :]
        states = [predictor.state for predictor in chosen]
        state = jax.tree.map(lambda *leaves: np.mean(leaves, axis=0), *states)
        table = dataclasses.replace(state.head.table, rows=normalize(state.head.table.rows))
        state = dataclasses.replace(state, head=dataclasses.replace(state.head, table=table))
        mean = dataclasses.replace(snapshots[-1], state=state)
        found[f"mean of the last {share:.0%}"] = metrics_on_test(mean, parts, KEYS)
    return found


if __name__ == "__main__":
    run_command(main)

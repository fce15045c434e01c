"""Does the mean of the parameters over the end of a run answer better than the last ones?

One small member (`default_preset.START`) is trained on four fifths of a data set's train points, at
rates that fall to 0 and at constant ones. Twice an epoch its parameters are kept; the mean of those
of the last part of the run, with class rows back at unit length, is scored on the held-out fifth
beside those of the last step.

    python -m experiments.averaging DATA [DATA ...] --out FILE

Two minutes a data set and seed on 2 cores. Test points are never looked at.
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
from experiments.default_preset import START, dataset_of
from snm.data.dataset import Dataset
from snm.distributed.dataset import label_frequency
from snm.evaluation.evaluate import evaluate_points
from snm.model.predictor import Predictor
from snm.runs.folder import write_json
from snm.system.versions import machine
from snm.tables.table import normalize

KEYS = ("P@1", "P@3", "P@5", "PSP@5")
LAST = (0.25, 0.5)
"""Ends of the run, as shares of it, that means are taken over."""


def main(
    data: tyro.conf.Positional[list[str]], out: Path, seeds: tuple[int, ...] = (0, 1, 2)
) -> None:
    """Trains, averages, scores, and writes JSON after each run.

    Args:
      data: folders of data sets, or names of generated ones (see `default_preset`).
      out: JSON file to write.
      seeds: of the model.
    """
    runs: list[dict[str, Any]] = []
    for folder in data:
        parts = dataset_of(folder).split(0.2, seed=0)
        for seed in seeds:
            for schedule in ("linear", "constant"):
                scores = averaged(parts, schedule, seed)
                runs.append(
                    {"data": parts.name, "schedule": schedule, "seed": seed, "scores": scores}
                )
                write_json(out, {**machine(), "start": START, "runs": runs})
                for name, metrics in scores.items():
                    shown = "  ".join(f"{metrics[key]:.2f}" for key in KEYS)
                    print(f"{parts.name:<16} {schedule:<9} {seed}  {name:<22} {shown}", flush=True)


def averaged(parts: Dataset, schedule: str, seed: int) -> dict[str, dict[str, float]]:
    """Metrics of the last parameters, and of the means over the ends of the run."""
    settings = {**START, "schedule": schedule, "seed": seed, "checkpoint_every": 10**9}
    config = dataclasses.replace(snm.preset("default"), **settings)
    looks: list[Predictor] = []

    def look(predictor: Predictor) -> dict[str, Any]:
        # A copy: the next step writes into the parameters themselves.
        state = jax.tree.map(np.array, predictor.state)
        looks.append(dataclasses.replace(predictor, state=state))
        return {}

    every = max(1, math.ceil(parts.train.num_points / config.batch_size) // 2)
    with tempfile.TemporaryDirectory() as folder:
        for _ in snm.training(parts, config, f"{folder}/run", probe=look, probe_every=every):
            pass
    found = {"last": _scores(looks[-1], parts)}
    for share in LAST:
        chosen = looks[-max(1, round(share * (len(looks) - 1))) :]
        states = [predictor.state for predictor in chosen]
        state = jax.tree.map(lambda *leaves: np.mean(leaves, axis=0), *states)
        table = dataclasses.replace(state.head.table, rows=normalize(state.head.table.rows))
        state = dataclasses.replace(state, head=dataclasses.replace(state.head, table=table))
        found[f"mean of the last {share:.0%}"] = _scores(
            dataclasses.replace(looks[-1], state=state), parts
        )
    return found


def _scores(predictor: Predictor, parts: Dataset) -> dict[str, float]:
    """On the held-out part."""
    found = evaluate_points(predictor, parts.test, label_frequency(parts), parts.train.num_points)
    return {key: found["metrics"][key] for key in KEYS}


if __name__ == "__main__":
    tyro.cli(main)

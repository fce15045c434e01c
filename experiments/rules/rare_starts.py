"""Compares initializations of class rows when most labels have one or two training points.

    python -m experiments.rules.rare_starts DATA ... --out FILE [--points 3000] [--seeds 0]

Each run trains on `--points` of the training points of a data set, and scores 4000 others: with so
few points, most labels have one or two. Both presets run with both values of `--class-init`. Test
points are not used. Runs in the output file are not repeated.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import tyro

import snm
from experiments.shared.arms import train_and_score
from experiments.shared.command_line import run_command
from experiments.shared.kept_runs import KeptRuns
from experiments.shared.tables import averaged, print_groups
from snm.data.dataset import Dataset

KEYS = ("P@1", "P@3", "P@5", "PSP@5")
SCORED = 4000


def main(
    data: tyro.conf.Positional[list[Path]],
    out: Path,
    points: int = 3000,
    seeds: tuple[int, ...] = (0,),
) -> None:
    """Runs all arms on every data set with every seed, and writes JSON after each run.

    Args:
      data: folders of data sets.
      out: JSON file to write; its runs are kept, and not repeated.
      points: training points.
      seeds: of the model and of the choice of points.
    """
    kept = KeptRuns(out, points=points, scored=SCORED)
    for folder in data:
        dataset = snm.load_data(folder)
        for seed in seeds:
            few = some_of(dataset, points, seed)
            for preset in ("fast", "default"):
                for start in ("random", "centroid"):
                    key = {"data": folder.name, "seed": seed, "preset": preset, "start": start}
                    if kept.has(**key):
                        continue
                    config = dataclasses.replace(snm.preset(preset), class_init=start, seed=seed)
                    kept.add(**key, rare=share_of_rare(few), **train_and_score(few, config, KEYS))
    show(kept.rows)


def some_of(dataset: Dataset, points: int, seed: int) -> Dataset:
    """A part of the training points, with others as its test points."""
    order = np.random.default_rng(seed).permutation(dataset.train.num_points)
    chosen, others = np.sort(order[:points]), np.sort(order[points : points + SCORED])
    return dataclasses.replace(
        dataset, train=dataset.train.take(chosen), test=dataset.train.take(others)
    )


def share_of_rare(dataset: Dataset) -> float:
    """The share of labels with one or two training points, among those with any."""
    counts = dataset.label_frequency()
    return float(np.mean(counts[counts > 0] <= 2))


def show(runs: list[dict[str, Any]]) -> None:
    """Prints a row a data set, preset and start: means over the seeds."""
    print_groups(
        "points not trained on, means of the seeds",
        runs,
        by={"data": "data", "preset": "preset", "class rows": "start"},
        columns={
            **{key: averaged("metrics", key) for key in KEYS},
            "seconds": averaged("seconds", form=".0f"),
        },
    )


if __name__ == "__main__":
    run_command(main)

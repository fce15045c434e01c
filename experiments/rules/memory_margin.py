"""Compares how sure the gain of a memory must be where few held-out points choose it.

    python -m experiments.rules.memory_margin DATA ... --out FILE [--points 250 500] [--seeds 0]

Each run trains on some of the training points of a data set, and scores 4000 others. A memory is
used if its gain on held-out points is above one standard error, or above two. Test points are not
used. Runs in the output file are not repeated.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from unittest import mock

import tyro

import snm
from experiments.rules.rare_starts import SCORED, some_of
from experiments.shared.arms import train_and_score
from experiments.shared.command_line import run_command
from experiments.shared.kept_runs import KeptRuns
from experiments.shared.tables import averaged, print_groups
from snm.memory import choose

KEYS = ("P@1", "P@3", "P@5")


def main(
    data: tyro.conf.Positional[list[Path]],
    out: Path,
    points: tuple[int, ...] = (250, 500),
    seeds: tuple[int, ...] = (0,),
) -> None:
    """Trains with both margins on all data sets, and writes JSON after each run.

    Args:
      data: folders of data sets with at least 5 labels.
      out: JSON file to write; its runs are kept, and not repeated.
      points: numbers of training points.
      seeds: of the model and of the choice of points.
    """
    kept = KeptRuns(out, scored=SCORED)
    for folder in data:
        dataset = snm.load_data(folder)
        for count in points:
            for seed in seeds:
                few = some_of(dataset, count, seed)
                config = dataclasses.replace(snm.preset("default"), seed=seed)
                for margin in (1.0, 2.0):
                    key = {"data": folder.name, "points": count, "seed": seed, "margin": margin}
                    if kept.has(**key):
                        continue
                    with mock.patch.object(choose, "margin_of", lambda _, margin=margin: margin):
                        kept.add(**key, **train_and_score(few, config, KEYS))
    print_groups(
        "points not trained on, means of the seeds",
        kept.rows,
        by={"data": "data", "points": "points", "margin": "margin"},
        columns={key: averaged("metrics", key, form=".1f") for key in KEYS},
    )


if __name__ == "__main__":
    run_command(main)

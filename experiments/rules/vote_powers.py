"""Compares the powers that a memory's choice tries, on a held-out fifth of train.

    python -m experiments.rules.vote_powers DATA ... --out FILE [--seeds 0]

A neighbour's vote weighs its similarity to a power. The default preset chooses the power on points
that it holds out itself; here it chooses among those up to 4, or up to 16. Test points are not
used. Runs in the output file are not repeated.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from unittest import mock

import tyro

import snm
from experiments.shared.arms import train_and_score
from experiments.shared.command_line import run_command
from experiments.shared.kept_runs import KeptRuns
from experiments.shared.tables import averaged, print_groups
from snm.memory import choose

KEYS = ("P@1", "P@3", "P@5")
POWERS = {"up to 4": (1.0, 2.0, 4.0), "up to 16": (1.0, 2.0, 4.0, 8.0, 16.0)}


def main(data: tyro.conf.Positional[list[Path]], out: Path, seeds: tuple[int, ...] = (0,)) -> None:
    """Trains with both sets of powers on all data sets, and writes JSON after each run.

    Args:
      data: folders of data sets.
      out: JSON file to write; its runs are kept, and not repeated.
      seeds: of the model and of the split.
    """
    kept = KeptRuns(out, held_out=0.2)
    for folder in data:
        dataset = snm.load_data(folder)
        for seed in seeds:
            parts = dataset.split(0.2, seed=seed)
            for name, powers in POWERS.items():
                key = {"data": folder.name, "seed": seed, "powers": name}
                if kept.has(**key):
                    continue
                steps = tuple({**dict(choose._SEARCH_STEPS), "power": powers}.items())
                config = dataclasses.replace(snm.preset("default"), seed=seed)
                with mock.patch.object(choose, "_SEARCH_STEPS", steps):
                    kept.add(**key, **train_and_score(parts, config, KEYS))
    print_groups(
        "points not trained on, means of the seeds",
        kept.rows,
        by={"data": "data", "powers": "powers"},
        columns={key: averaged("metrics", key, form=".1f") for key in KEYS},
    )


if __name__ == "__main__":
    run_command(main)

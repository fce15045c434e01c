"""Compares presets on a few hundred points, with and without their settings for small sets.

    python -m experiments.defaults.small_sets DATA ... --out FILE [--points 100 200 450] [--seeds 0]

Each run trains on some of the training points of a data set, and scores 4000 others. Both presets
run as they are; `fast` also with 4 epochs and no memory, and `default` without a memory. Test
points are not used. Runs in the output file are not repeated.

`--arms` selects arms, such as those of `EPOCHS`, the default with 10 to 30 epochs, and of
`ONE_MODEL`, `fast` with one model and 4,000 visits.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tyro

import snm
from experiments.rules.rare_starts import SCORED, some_of
from experiments.shared.arms import train_and_score
from experiments.shared.command_line import run_command
from experiments.shared.kept_runs import KeptRuns
from experiments.shared.tables import averaged, print_groups
from snm.errors import InputError
from snm.text import nearest

KEYS = ("P@1", "P@3", "P@5")
ARMS: dict[str, tuple[str, dict[str, Any]]] = {
    "fast, 4 passes, no memory": (
        "fast",
        {"members": 1, "epochs": 4, "input_dropout": 0.0, "memory": "off"},
    ),
    "fast": ("fast", {}),
    "default, no memory": ("default", {"memory": "off"}),
    "default": ("default", {}),
}
"""Preset, and settings that are changed."""
EPOCHS: dict[str, tuple[str, dict[str, Any]]] = {
    f"default, {epochs} passes": ("default", {"epochs": epochs}) for epochs in (10, 17, 25, 30)
}
"""The same, of the arms that only `--arms` runs."""
ONE_MODEL: dict[str, tuple[str, dict[str, Any]]] = {
    f"fast, one model, {epochs} passes": (
        "fast",
        {"members": 1, "epochs": epochs, "input_dropout": 0.0},
    )
    for epochs in (2, 4, 8, 20)
}
"""The same, as `fast` was before 2026-11-30; 4,000 visits of 2,000, 1,000, 500 and 200 points."""
_ALL = {**ARMS, **EPOCHS, **ONE_MODEL}


def main(
    data: tyro.conf.Positional[list[Path]],
    out: Path,
    points: tuple[int, ...] = (100, 200, 450),
    seeds: tuple[int, ...] = (0,),
    arms: tuple[str, ...] = tuple(ARMS),
) -> None:
    """Runs the arms on all data sets with all seeds, and writes JSON after each run.

    Args:
      data: folders of data sets.
      out: JSON file to write; its runs are kept, and not repeated.
      points: numbers of training points.
      seeds: of the model and of the choice of points.
      arms: keys of `ARMS`, `EPOCHS` and `ONE_MODEL`.
    """
    if unknown := [arm for arm in arms if arm not in _ALL]:
        raise InputError("--arms", repr(unknown[0]), nearest(unknown[0], _ALL, "a key of ARMS"))
    kept = KeptRuns(out, scored=SCORED)
    for folder in data:
        dataset = snm.load_data(folder)
        for count in points:
            for seed in seeds:
                few = some_of(dataset, count, seed)
                for arm in arms:
                    preset, changes = _ALL[arm]
                    key = {"data": folder.name, "points": count, "seed": seed, "arm": arm}
                    if kept.has(**key):
                        continue
                    config = dataclasses.replace(snm.preset(preset), seed=seed, **changes)
                    kept.add(**key, **train_and_score(few, config, KEYS))
    show(kept.rows)


def show(runs: list[dict[str, Any]]) -> None:
    """Prints a row a data set and number of points: means over the seeds."""

    def column(arm: str) -> Callable[[list[dict[str, Any]]], str]:
        means = [averaged("metrics", key, form=".1f") for key in KEYS]

        def cell(group: list[dict[str, Any]]) -> str:
            of_arm = [run for run in group if run["arm"] == arm]
            return " / ".join(mean(of_arm) for mean in means) if of_arm else ""

        return cell

    arms = [arm for arm in _ALL if any(run["arm"] == arm for run in runs)]
    print_groups(
        "points not trained on, means of the seeds",
        runs,
        by={"data": "data", "points": "points"},
        columns={arm: column(arm) for arm in arms},
        width=120,
    )


if __name__ == "__main__":
    run_command(main)

"""Compares ways to train on added points: from scratch, or from the earlier run.

    python -m experiments.defaults.retraining DATA ... --out FILE [--seeds 0] [--preset fast]

A random tenth of the training points are new; an earlier run was trained on the others. Measured on
test points: the earlier run; a training from scratch on all points; and two that start from the
earlier run, on all points and on the new ones alone. Seconds are of one process, in which later
runs reuse the programs of earlier ones. Runs in the output file are not repeated.
"""

from __future__ import annotations

import dataclasses
import tempfile
import time
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tyro

import snm
from experiments.shared.command_line import run_command
from experiments.shared.kept_runs import KeptRuns
from experiments.shared.tables import averaged, print_groups

KEYS = ("P@1", "P@3", "P@5", "PSP@5")
WAYS = ("before", "anew", "on-all", "on-new")
_NEW = 0.1  # of the training points


def main(
    data: tyro.conf.Positional[list[Path]],
    out: Path,
    seeds: tuple[int, ...] = (0,),
    preset: Literal["fast", "default"] = "fast",
) -> None:
    """Trains in every way on every data set with every seed, and writes JSON after each run.

    Args:
      data: folders of data sets.
      out: JSON file to write; its runs are kept, and not repeated.
      seeds: of the model and of the choice of new points.
      preset: of all runs.
    """
    kept = KeptRuns(out, split="test", preset=preset, new_share=_NEW)
    for folder in data:
        dataset = snm.load_data(folder)
        for seed in seeds:
            if all(kept.has(data=folder.name, seed=seed, way=way) for way in WAYS):
                continue
            for way, found in ways(dataset, seed, preset):
                if not kept.has(data=folder.name, seed=seed, way=way):
                    kept.add(data=folder.name, seed=seed, way=way, **found)
    show(kept.rows)


def ways(dataset: snm.Dataset, seed: int, preset: str) -> list[tuple[str, dict[str, Any]]]:
    """Trains in each of `WAYS`, and returns the results."""
    config = dataclasses.replace(snm.preset(preset), seed=seed)
    total = dataset.train.num_points
    order = np.random.default_rng(seed).permutation(total)
    old, new = np.sort(order[: int(total * (1 - _NEW))]), np.sort(order[int(total * (1 - _NEW)) :])

    def some(rows: np.ndarray, name: str) -> snm.Dataset:
        return dataclasses.replace(dataset, train=dataset.train.take(rows), sha256=name)

    with tempfile.TemporaryDirectory() as place:
        before, anew, on, alone = (Path(place) / name for name in ("a", "b", "c", "d"))
        found = [run_of(some(old, "old"), config, before), run_of(dataset, config, anew)]
        again = dataclasses.replace(
            snm.read_config(before / "config.toml"), memory="auto", logit_adjustment="auto"
        )
        found.append(run_of(dataset, again, on, before))
        found.append(run_of(some(new, "new"), again, alone, before))
    return list(zip(WAYS, found, strict=True))


def run_of(
    dataset: snm.Dataset, config: snm.Config, run: Path, before: Path | None = None
) -> dict[str, Any]:
    """Metrics of one training, the error of its probabilities, and its seconds."""
    begun = time.perf_counter()
    result = snm.train(dataset, config, run, warm_start=before, same_ids=True)
    seconds = time.perf_counter() - begun
    reliability = result.get("reliability") or {}
    return {
        "metrics": {key: result["metrics"][key] for key in KEYS},
        "ECE": reliability.get("ECE"),
        "ECE_by_chance": reliability.get("ECE_by_chance"),
        "memory": result.get("memory", {}).get("used", False),
        "seconds": seconds,
    }


def show(runs: list[dict[str, Any]]) -> None:
    """Prints means over the seeds."""
    print_groups(
        "test points, means of the seeds",
        runs,
        by={"data": "data", "way": "way"},
        columns={
            **{key: averaged("metrics", key) for key in KEYS},
            "ECE@5": averaged("ECE", form=".4f"),  # few points tell of none
            "seconds": averaged("seconds", form=".1f"),
        },
    )


if __name__ == "__main__":
    run_command(main)

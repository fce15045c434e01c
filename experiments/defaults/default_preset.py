"""Compares changes of the default preset on a held-out fifth of train.

Each idea changes some settings. It is trained on four fifths of the training points and scored on
the rest, with several seeds of the model and one split. Test points are not used. If the output
file exists, its runs are not repeated.

    python -m experiments.defaults.default_preset DATA ... --out FILE [--ideas NAME ...]
        [--table FILE]

An idea is a key of `IDEAS`, which changes `START` (one small member of the default preset), or
settings in JSON, which change the default preset itself: '{"mined": 32}'. A data set is a folder,
or one of three generated sets: `generated-500` with 500 labels and 12,000 points, `generated-4k`
with 4,000 and 8,000, `generated-30k` with 30,000 of each. One run (data set, idea, seed) takes half
a minute on 2 cores.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterator
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
from snm.system.files.atomic import write_atomic

KEYS = ("P@1", "P@3", "P@5", "R@1", "R@5", "PSP@1", "PSP@5")
SHOWN = ("P@1", "P@3", "P@5", "PSP@5")

START: dict[str, Any] = {
    "members": 1, "dim": 256, "input_dropout": 0.5, "learn_score_scale": False, "seen": "keep",
}  # fmt: skip
"""One small member of the default preset, so that a run takes half a minute. Dropout and the other
settings are those that the preset had on all data sets when this search began."""

IDEAS: dict[str, dict[str, Any]] = {
    "start": {},
    "dim 512": {"dim": 512},
    "sampled 2048": {"sampled": 2048},
    "mined 16": {"mined": 16},
    "mined 256": {"mined": 256},
    "mined falls from 512": {"mined_start": 512},
    "linear encoder": {"encoder": "linear"},
    "no bias": {"bias": False},
    "dropout 0.3": {"input_dropout": 0.3},
    "dropout 0.7": {"input_dropout": 0.7},
    "learned scale": {"learn_score_scale": True},
    "seen dropped, by the rule": {"seen": "auto"},
    "batch 128": {"batch_size": 128},
    "rate 30": {"learning_rate": 30.0},
    "cosine schedule": {"schedule": "cosine"},
    "frequency sampler": {"sampler": "frequency"},
    "shorter rows at the start": {"feature_init": 0.3},
    "only its own positive left out": {"exclude": "positive"},
    "one positive a visit": {"positives": "one"},
    "3 epochs, batch 128, no dropout": {"epochs": 3, "batch_size": 128, "input_dropout": 0.0},
}
"""Name -> changes of `START`. Each changes one thing, except for the last."""

GENERATED: dict[str, dict[str, int]] = {
    "generated-4k": {"points": 8_000, "features": 8_000, "labels": 4_000},
    "generated-500": {"points": 12_000, "features": 5_000, "labels": 500},
    "generated-30k": {"points": 30_000, "features": 20_000, "labels": 30_000},
}
"""Name -> sizes of a data set from `snm.generate` with seed 0."""


_HEAD = """# One idea at a time, against `start`

`python -m experiments.defaults.default_preset DATA ... --out FILE --table FILE`, from
`default-preset-ideas.json`: differences to `start` with the same seed on a held-out fifth of train,
the mean of the seeds (the worst to the best). Seconds are medians of runs on two cores and of runs
on one core beside another run: only their order of magnitude is meaningful.
"""


def main(
    data: tyro.conf.Positional[list[str]],
    out: Path,
    ideas: list[str] | None = None,
    seeds: list[int] | None = None,
    table: Path | None = None,
) -> None:
    """Trains every idea on every data set with every seed, and writes JSON after each run.

    Args:
      data: folders of data sets, or names of generated ones.
      out: JSON file to write; its runs are kept, and not repeated.
      ideas: keys of `IDEAS`, or settings in JSON; by default all keys.
      seeds: seeds of the model, by default 0 1 2.
      table: Markdown file to write, with all runs of the JSON file.
    """
    kept = KeptRuns(out, under="cells", about={"ideas": IDEAS}, start=START)
    for folder in data:
        dataset = make_dataset(folder)
        parts = dataset.split(0.2, seed=0)
        for seed in seeds or [0, 1, 2]:
            for idea in ideas or list(IDEAS):
                if kept.has(data=dataset.name, idea=idea, seed=seed):
                    continue
                config = dataclasses.replace(
                    snm.preset("default"),
                    **_settings(idea),
                    seed=seed,
                    checkpoint_every=10**9,
                )
                found = train_and_score(parts, config, KEYS)
                kept.add(data=dataset.name, idea=idea, seed=seed, **found)
                shown = f"P@1 {found['metrics']['P@1']:.2f}  {found['seconds']:.0f} s"
                print(f"{dataset.name:<18} {idea:<30} seed {seed}  {shown}", flush=True)
    show(kept.rows)
    if table is not None:
        write_atomic(table, "\n".join(markdown(kept.rows)) + "\n")


def make_dataset(folder: str) -> Dataset:
    """Loads a data set from a folder, or generates the one of that name."""
    if folder in GENERATED:
        return snm.generate(test_points=0, name=folder, **GENERATED[folder])
    return snm.load_data(folder)


def _settings(idea: str) -> dict[str, Any]:
    """The settings of an idea that differ from the default preset."""
    if idea.startswith("{"):
        return json.loads(idea)
    return {**START, **IDEAS[idea]}


def show(cells: list[dict[str, Any]]) -> None:
    """Prints the mean over seeds of each idea on each data set, and the difference to `start`."""
    for name in dict.fromkeys(cell["data"] for cell in cells):
        of_data = [cell for cell in cells if cell["data"] == name]
        start = [cell for cell in of_data if cell["idea"] == "start"]
        print_groups(
            f"{name}: a held-out fifth of train",
            of_data,
            by={"idea": "idea"},
            columns={
                "seeds": lambda runs: str(len(runs)),
                **{key: functools.partial(_with_difference, start=start, key=key) for key in SHOWN},
                "seconds": averaged("seconds", form=".0f", average=np.median),
            },
            width=110,
        )


def markdown(cells: list[dict[str, Any]]) -> Iterator[str]:
    """Yields Markdown: each idea's difference to `start` with the same seed (mean, worst, best)."""
    yield _HEAD
    for name in dict.fromkeys(cell["data"] for cell in cells):
        yield f"### {name}\n"
        yield "| idea | seeds | P@1 | P@5 | PSP@5 | seconds |"
        yield "|---|---:|---|---|---|---:|"
        of_data = [cell for cell in cells if cell["data"] == name]
        start = [cell for cell in of_data if cell["idea"] == "start"]
        for idea in dict.fromkeys(["start", *(cell["idea"] for cell in of_data)]):
            runs = [cell for cell in of_data if cell["idea"] == idea]
            if not runs or idea.startswith("{"):  # not comparable: it does not change `START`
                continue
            row = [idea, str(len(runs))]
            for key in ("P@1", "P@5", "PSP@5"):
                form, values = "+.1f", _differences(runs, start, key)
                if idea == "start" or not values:
                    form, values = ".1f", [run["metrics"][key] for run in runs]
                row.append(
                    f"{np.mean(values):{form}} ({min(values):{form}} to {max(values):{form}})"
                )
            seconds = f"{np.median([run['seconds'] for run in runs]):.0f}"
            yield f"| {' | '.join([*row, seconds])} |"
        yield ""


def _with_difference(runs: list[dict[str, Any]], start: list[dict[str, Any]], key: str) -> str:
    """The mean, and the mean of the differences to `start` with the same seed; or empty."""
    if any(key not in run["metrics"] for run in runs):  # as P@5 of 4 labels
        return ""
    mean = np.mean([run["metrics"][key] for run in runs])
    differences = _differences(runs, start, key)
    return f"{mean:.2f} ({np.mean(differences):+.2f})" if differences else f"{mean:.2f}"


def _differences(runs: list[dict[str, Any]], start: list[dict[str, Any]], key: str) -> list[float]:
    """Differences to the run of `start` with the same seed, for seeds that have one."""
    of_seed = {run["seed"]: run["metrics"][key] for run in start}
    return [run["metrics"][key] - of_seed[run["seed"]] for run in runs if run["seed"] in of_seed]


if __name__ == "__main__":
    run_command(main)

"""Measures the training time that snm needs to reach the P@1 of another package.

The learning rate decreases over a run, so scores during a run are not meaningful. The experiment
therefore looks for the shortest complete run. It chooses the number of epochs on a held-out fifth
of train: the smallest whose mean P@1 over seeds is at least that of the package, both trained on
the other four fifths. Then both are trained on all of train, in turns, and scored on test. The
settings are those of the default preset, with a single member and the options below. Dropout is 0
by default, because it only slows a run of few epochs.

    python -m experiments.time_to_score DATA --out FILE [--peer omikuji] [--dim 256]

Takes three minutes on 2 cores for a data set of 20,000 points.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

import snm
from experiments.arms import scored
from snm.compare.peers.process import measure
from snm.config.resolve import resolve
from snm.data.dataset import Dataset
from snm.runs.folder import write_json
from snm.system.versions import machine

KEYS = ("P@1", "P@3", "P@5")
EPOCHS = (1, 2, 3, 4, 5, 6, 8, 10, 13, 17)


def main(
    data: tyro.conf.Positional[str],
    out: Path,
    peer: str = "omikuji",
    dim: int = 256,
    sampled: int = 4096,
    mined: int = 16,
    batch_size: int = 128,
    input_dropout: float = 0.0,
    seeds: tuple[int, ...] = (0, 1, 2),
) -> None:
    """Finds the shortest run that reaches the package's P@1, and times both.

    Args:
      data: folder of the data set.
      out: JSON file to write.
      peer: a package of `snm compare --peers`.
      dim: dimension of the only member.
      sampled: B; reduced to K - 1 if there are fewer labels.
      mined: k'.
      batch_size: points per step.
      input_dropout: fraction of a point's features to drop in each step.
      seeds: seeds of our runs; the package runs as many times.
    """
    dataset = snm.load_data(data)
    parts = dataset.split(0.2, seed=0)
    settings = {
        "dim": dim,
        "sampled": min(sampled, dataset.train.num_labels - 1),
        "mined": mined,
        "batch_size": batch_size,
        "input_dropout": input_dropout,
    }
    base = dataclasses.replace(snm.preset("default"), members=1, checkpoint_every=10**9, **settings)
    seen = resolve(base, dataset).seen  # applied to the predictions of both
    goal = measure(peer, data, validation_fraction=0.2, seen=seen)["metrics"]["P@1"]
    print(f"{peer} on the held-out fifth: P@1 {goal:.2f}", flush=True)
    trials, chosen = [], None
    for epochs in EPOCHS:
        runs = [
            _scored_with_compilation(parts, dataclasses.replace(base, epochs=epochs, seed=seed))
            for seed in seeds
        ]
        trials.append({"epochs": epochs, "runs": runs})
        reached = float(np.mean([run["metrics"]["P@1"] for run in runs]))
        seconds = float(np.median([run["seconds"] for run in runs]))
        print(f"{epochs} epochs: P@1 {reached:.2f}, {seconds:.1f} s", flush=True)
        if reached >= goal:
            chosen = epochs
            break
    found: list[dict[str, Any]] = []
    for seed in seeds if chosen is not None else ():
        config = dataclasses.replace(base, epochs=chosen, seed=seed)
        ours = _scored_with_compilation(dataset, config)
        theirs = measure(peer, data, seen=seen)
        theirs = {
            "metrics": {key: theirs["metrics"][key] for key in KEYS},
            "seconds": theirs["seconds"],
        }
        found.append({"snm": ours, peer: theirs})
    asked = {"peer": peer, "settings": settings, "seeds": seeds, "seen": seen}
    write_json(out, {**machine(), "data": dataset.name, "sha256": dataset.sha256, **asked,
                     "goal": goal, "trials": trials, "epochs": chosen, "test": found})  # fmt: skip
    if not found:
        print(f"not reached in {EPOCHS[-1]} epochs")
        return
    table = Table(title=f"{dataset.name}, test points, {len(found)} runs", title_justify="left")
    for column in ("", *KEYS, "seconds", "whole call"):
        table.add_column(column, justify="right" if column else "left")
    for name in ("snm", peer):
        metrics = [np.mean([run[name]["metrics"][key] for run in found]) for key in KEYS]
        seconds = float(np.median([run[name]["seconds"] for run in found]))
        whole = [run[name].get("whole_seconds") for run in found]
        total = "" if whole[0] is None else f"{np.median(whole):.1f}"
        table.add_row(name, *(f"{value:.2f}" for value in metrics), f"{seconds:.1f}", total)
    ratio = np.median([run["snm"]["seconds"] / run[peer]["seconds"] for run in found])
    table.add_row("snm over " + peer, "", "", "", f"{ratio:.2f}x", "")
    Console(width=90).print(table)


def _scored_with_compilation(dataset: Dataset, config: snm.Config) -> dict[str, Any]:
    """`scored` with empty compilation caches, as in a new process."""
    jax.clear_caches()
    return scored(dataset, config, KEYS)


if __name__ == "__main__":
    tyro.cli(main)

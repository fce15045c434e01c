"""Trains the default preset on all of train, and scores it on test, with and without its memory.

    python -m experiments.defaults.default_on_test DATA ... --out FILE [--seeds 0 1 2]

This looks at test points: it reports a preset, and chooses nothing. If the output file exists, its
runs are not repeated.
"""

from __future__ import annotations

import dataclasses
import tempfile
import time
from pathlib import Path
from typing import Any

import tyro

import snm
from experiments.shared.arms import metrics_on_test
from experiments.shared.command_line import run_command
from experiments.shared.kept_runs import KeptRuns
from snm.config.resolved import read_resolved
from snm.runs.folder import RunFolder
from snm.runs.stored_run import load

KEYS = ("P@1", "P@3", "P@5", "R@1", "R@5", "PSP@1", "PSP@3", "PSP@5")


def main(
    data: tyro.conf.Positional[list[str]], out: Path, seeds: tuple[int, ...] = (0, 1, 2)
) -> None:
    """Runs every seed on every data set, and writes JSON after each run.

    Args:
      data: folders of data sets.
      out: JSON file to write; its runs are kept, and not repeated.
      seeds: seeds of the model.
    """
    kept = KeptRuns(out, split="test")
    for seed in seeds:
        for folder in data:
            dataset = snm.load_data(folder)
            if kept.has(data=dataset.name, seed=seed):
                continue
            found = run_of(dataset, seed)
            kept.add(data=dataset.name, sha256=dataset.sha256, seed=seed, **found)
            before, after = (
                " / ".join(f"{found[part][key]:.2f}" for key in ("P@1", "P@3", "P@5", "PSP@5"))
                for part in ("without_memory", "metrics")
            )
            print(f"{dataset.name:<18} seed {seed}  {before} -> {after}", flush=True)


def run_of(dataset: snm.Dataset, seed: int) -> dict[str, Any]:
    """One training: metrics with and without the memory, and the seconds of all parts."""
    config = dataclasses.replace(snm.preset("default"), seed=seed)
    with tempfile.TemporaryDirectory() as place:
        begun = time.perf_counter()
        result = snm.train(dataset, config, f"{place}/run")
        seconds = time.perf_counter() - begun
        predictor = load(f"{place}/run", memory=False)
        assert dataset.test is not None
        answering = {}
        for name, one in (("without", predictor), ("with", load(f"{place}/run"))):
            one.predict(dataset.test.features, 5)  # compiled
            begun = time.perf_counter()
            one.predict(dataset.test.features, 5)
            answering[name] = 1000 * (time.perf_counter() - begun) / dataset.test.num_points
        alone = metrics_on_test(predictor, dataset, KEYS)
        resolved = read_resolved(RunFolder(Path(place) / "run").config)
    return {
        "metrics": {key: result["metrics"][key] for key in KEYS},
        "without_memory": alone,
        "memory": result.get("memory"),
        "milliseconds_an_answer": answering,
        "input_dropout": resolved.input_dropout,
        "training_seconds": result["seconds"],
        "whole_seconds": seconds,
    }


if __name__ == "__main__":
    run_command(main)

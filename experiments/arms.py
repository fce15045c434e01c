"""Named settings, run one after the other on one data set: what the experiments share."""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Iterable
from typing import Any

import snm
from snm.data.dataset import Dataset

KEYS = ("R@1", "R@3", "R@5", "P@1", "P@3", "P@5")


@dataclasses.dataclass(frozen=True)
class Arm:
    """A name and the settings that make it."""

    name: str
    config: snm.Config

    def but(self, **changes: Any) -> Arm:
        """The same arm with some settings changed."""
        return Arm(self.name, dataclasses.replace(self.config, **changes))


def scored(dataset: Dataset, config: snm.Config, keys: Iterable[str] = KEYS) -> dict[str, Any]:
    """Trains in a folder that is thrown away; metrics on `dataset.test`, and two times.

    `seconds` are those of the steps, compiling them too; `whole_seconds` are from the call to the
    metrics: initial parameters, checkpoints, prediction and scoring as well.
    """
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        result = snm.train(dataset, config, f"{folder}/run")
    return {
        "metrics": {k: result["metrics"][k] for k in keys},
        "seconds": result["seconds"],
        "whole_seconds": time.perf_counter() - started,
    }


def tuned(dataset: Dataset, arm: Arm, grid: Iterable[dict[str, Any]], watch: str) -> dict[str, Any]:
    """Tries each setting of a grid on a held-out fifth of train; the best by `watch`, and all.

    A setting whose loss overflows counts as a trial that scored nothing.
    """
    parts = dataset.split(0.2, seed=0)
    trials = []
    for settings in grid:
        started = time.perf_counter()
        try:
            metrics = scored(parts, arm.but(**settings).config)["metrics"]
        except ArithmeticError as error:
            metrics = {"error": str(error)}
        seconds = round(time.perf_counter() - started, 1)
        trials.append({"settings": settings, "validation": metrics, "seconds": seconds})
        print(f"  {arm.name:<32} {settings}  {watch} {metrics.get(watch, float('nan')):.2f}  "
              f"{seconds:.0f} s", flush=True)  # fmt: skip
    best = max(trials, key=lambda trial: trial["validation"].get(watch, -1.0))
    return {"best": best["settings"], "validation": best["validation"], "trials": trials}

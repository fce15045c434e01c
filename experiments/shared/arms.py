"""Trains and tunes named settings on one data set."""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import snm
from snm.data.dataset import Dataset
from snm.data.repository.registry import PROPENSITY
from snm.evaluation.evaluate import Measures
from snm.trainer.evaluate_run import score_test_points

KEYS = ("R@1", "R@3", "R@5", "P@1", "P@3", "P@5")


@dataclasses.dataclass(frozen=True)
class Arm:
    """Named settings."""

    name: str
    config: snm.Config

    def with_settings(self, **changes: Any) -> Arm:
        """A copy of the arm with other values of some settings."""
        return Arm(self.name, dataclasses.replace(self.config, **changes))


def train_and_measure(
    data: Iterable[str], runs: Path, measure: Callable[[Path, Dataset], dict[str, Any]]
) -> list[dict[str, Any]]:
    """Trains the default preset on each data set with seed 0, and measures each run.

    Args:
      data: folders of data sets.
      runs: folder of the runs; a finished one is not trained again.
      measure: (folder of the run, data set) -> results.

    Returns:
      a row for each data set, with its results.
    """
    rows = []
    for folder in data:
        dataset = snm.load_data(folder)
        run = runs / dataset.name
        snm.train(dataset, snm.preset("default"), run)
        rows.append({"data": dataset.name, "seed": 0, **measure(run, dataset)})
    return rows


def train_and_score(
    dataset: Dataset, config: snm.Config, keys: Iterable[str] = KEYS
) -> dict[str, Any]:
    """Trains in a temporary folder, and scores the model on the test points.

    Returns:
      `metrics` on `dataset.test`, without those at more answers than there are labels; `seconds`
      of the training steps, with compilation; `whole_seconds` of the whole call, with
      initialization, checkpoints, prediction and scoring.
    """
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        result = snm.train(dataset, config, f"{folder}/run")
    return {
        "metrics": {k: result["metrics"][k] for k in keys if k in result["metrics"]},
        "seconds": result["seconds"],
        "whole_seconds": time.perf_counter() - started,
    }


def metrics_on_test(
    model: snm.Predictor,
    dataset: Dataset,
    keys: Iterable[str] = KEYS,
    propensity: tuple[float, float] = PROPENSITY,
) -> dict[str, float]:
    """Metrics of a model on the test points, with label frequencies of the training points."""
    scored = score_test_points(model, dataset, propensity, Measures(), trained_on=[dataset.train])
    return {key: scored["metrics"][key] for key in keys}


def tune(dataset: Dataset, arm: Arm, grid: Iterable[dict[str, Any]], watch: str) -> dict[str, Any]:
    """Chooses settings from a grid by a metric on a held-out fifth of train.

    Settings whose loss overflows are recorded with an error, and never chosen over others.

    Returns:
      `best`, the settings with the highest metric `watch`; `validation`, their metrics; `trials`,
      all of them.
    """
    parts = dataset.split(0.2, seed=0)
    trials = []
    for settings in grid:
        started = time.perf_counter()
        try:
            metrics = train_and_score(parts, arm.with_settings(**settings).config)["metrics"]
        except ArithmeticError as error:
            metrics = {"error": str(error)}
        seconds = round(time.perf_counter() - started, 1)
        trials.append({"settings": settings, "validation": metrics, "seconds": seconds})
        print(f"  {arm.name:<32} {settings}  {watch} {metrics.get(watch, float('nan')):.2f}  "
              f"{seconds:.0f} s", flush=True)  # fmt: skip
    best = max(trials, key=lambda trial: trial["validation"].get(watch, -1.0))
    return {"best": best["settings"], "validation": best["validation"], "trials": trials}

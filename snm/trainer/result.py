"""What a run says of its data, its scores and its time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from snm.config.resolved import ResolvedConfig
from snm.data.dataset import Dataset
from snm.data.load import absolute_source
from snm.evaluation.evaluate import Measures
from snm.prediction.predictor import Predictor
from snm.runs.schema import RunOrigin
from snm.stores.address import absolute
from snm.system.timing import part
from snm.trainer.evaluate import score_test_points, trained_before
from snm.trainer.phase import Trained

__all__ = ["data_of_result", "origin_of", "test_metrics", "training_figures"]


def origin_of(
    dataset: Dataset, source: str | Path | None, warm_start: str | Path | None
) -> RunOrigin:
    """What the folder of a run says of its data and its start."""
    return RunOrigin(
        data=dataset.name if source is None else absolute_source(source),
        sha256=dataset.sha256,
        num_features=dataset.train.num_features,
        num_labels=dataset.train.num_labels,
        warm_start=None if warm_start is None else absolute(warm_start),
        in_memory=source is None,
    )


def data_of_result(dataset: Dataset, origin: RunOrigin) -> dict[str, Any]:
    """What the result says of the data."""
    return {
        "name": dataset.name,
        "source": origin.data,
        "sha256": dataset.sha256,
        "points": dataset.train.num_points,
    }


def test_metrics(
    predictor: Predictor,
    config: ResolvedConfig,
    dataset: Dataset,
    origin: RunOrigin,
    on_progress: Callable[[int], None],
) -> dict[str, Any]:
    """What the result says of the test points.

    Args:
      predictor: the model of the run, with its memory if it has one.
      config: the settings of the run.
      dataset: that the run was trained on, perhaps with test points.
      origin: of the run.
      on_progress: called with the number of points done.

    Returns:
      As `score_test_points`: `metrics`, `by_label_frequency` and `by_popularity`;
      `without_repeats`, where test points repeat training points; `points_without_features`, where
      there are some; and `reliability`, where the model has probabilities.
      Without test points `metrics` alone, which is empty.
    """
    if dataset.test is None:
        return {"metrics": {}}
    with part("test points"):
        trained_on = [dataset.train, *trained_before(origin)]
        return score_test_points(
            predictor,
            dataset,
            (config.propensity_a, config.propensity_b),
            Measures(auc=config.auc, popularity=True),
            trained_on=trained_on,
            on_progress=on_progress,
        )


def training_figures(config: ResolvedConfig, done: list[Trained], at_once: int) -> dict[str, Any]:
    """What the result says of the steps and their time.

    Args:
      config: the settings of the run.
      done: the last phase of each member.
      at_once: how many members trained side by side.

    Returns:
      `members`: their number;
      `steps`, `epochs` and `best_step`: of the first member; the best step is the last where
        nothing was evaluated;
      `skipped_steps`: of all members;
      `epochs_asked`: of the settings;
      `seconds`: of training; the sum over the members divided by `at_once`, but no less than the
        time of the slowest;
      `examples_per_second`: visits of points by all members, divided by `seconds`.
    """
    each = [run.progress.seconds for run in done]
    seconds = max(max(each), sum(each) / at_once)
    progress = done[0].progress
    return {
        "members": config.members,
        "steps": progress.step,
        "skipped_steps": sum(run.progress.skipped for run in done),
        "epochs": progress.step / done[0].steps_per_epoch,
        "epochs_asked": config.epochs,
        "best_step": progress.best_step or progress.step,
        "seconds": seconds,
        "examples_per_second": sum(run.points for run in done) / seconds,
    }

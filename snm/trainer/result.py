"""The parts of `run.json` and `result.json`: the data, the test metrics and the training time."""

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
from snm.trainer.evaluate_run import score_test_points
from snm.trainer.phase import TrainedPhase
from snm.trainer.run_data import earlier_training_points

__all__ = ["data_summary", "run_origin", "test_metrics", "training_summary"]


def run_origin(
    dataset: Dataset, source: str | Path | None, warm_start: str | Path | None
) -> RunOrigin:
    """The content of `run.json`: the data of a run and the run that it starts from."""
    return RunOrigin(
        data=dataset.name if source is None else absolute_source(source),
        sha256=dataset.sha256,
        num_features=dataset.train.num_features,
        num_labels=dataset.train.num_labels,
        warm_start=None if warm_start is None else absolute(warm_start),
        in_memory=source is None,
    )


def data_summary(dataset: Dataset, origin: RunOrigin) -> dict[str, Any]:
    """The key `data` of the result."""
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
    """The metrics on the test points, for the result.

    Args:
      predictor: the model of the run, with its memory if it has one.
      config: the settings of the run.
      dataset: the data set of the run, with or without test points.
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
        trained_on = [dataset.train, *earlier_training_points(origin)]
        return score_test_points(
            predictor,
            dataset,
            (config.propensity_a, config.propensity_b),
            Measures(auc=config.auc, popularity=True),
            trained_on=trained_on,
            on_progress=on_progress,
        )


def training_summary(
    config: ResolvedConfig, trained: list[TrainedPhase], at_once: int
) -> dict[str, Any]:
    """The steps and the training time, for the result.

    Args:
      config: the settings of the run.
      trained: the last phase of each member.
      at_once: the number of members that trained side by side.

    Returns:
      `members`: their number;
      `steps`, `epochs` and `best_step`: of the first member; without validation, the best step is
        the last;
      `skipped_steps`: of all members;
      `epochs_asked`: of the settings;
      `seconds`: of training; the sum over the members divided by `at_once`, but no less than the
        time of the slowest;
      `examples_per_second`: visits of points by all members, divided by `seconds`.
    """
    member_seconds = [phase.progress.seconds for phase in trained]
    seconds = max(max(member_seconds), sum(member_seconds) / at_once)
    progress = trained[0].progress
    return {
        "members": config.members,
        "steps": progress.step,
        "skipped_steps": sum(phase.progress.skipped for phase in trained),
        "epochs": progress.step / trained[0].steps_per_epoch,
        "epochs_asked": config.epochs,
        "best_step": progress.best_step or progress.step,
        "seconds": seconds,
        "examples_per_second": sum(phase.points for phase in trained) / seconds,
    }

"""Evaluation of a finished run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from snm.config.settings import Config
from snm.data.dataset import Dataset
from snm.data.load import load as load_dataset
from snm.distributed.dataset import duplicate_test_rows, label_frequency
from snm.errors import InputError
from snm.evaluation.evaluate import evaluate_points
from snm.model.predictor import Predictor
from snm.runs.folder import RunFolder
from snm.runs.load import load

__all__ = ["data_of_run", "evaluate", "score_test_points"]


def evaluate(
    run: str | Path,
    data: str | Path | Dataset | None = None,
    *,
    auc: bool | None = None,
    on_progress: Callable[[int], None] | None = None,
    wrap: Callable[[Predictor], Any] | None = None,
) -> dict[str, Any]:
    """Scores a trained model on the test points of its data set, or of another of that shape.

    Args:
      run: the run's folder.
      data: another data set than the run's.
      auc: also the AUC; None is the setting of the run.
      on_progress: told the number of points done.
      wrap: replaces the predictor, for example by a search index over its class rows.

    Returns:
      As `evaluation.evaluate_points`.

    Raises:
      InputError: no run, no test points, or data of another shape.
    """
    folder = RunFolder(Path(run))
    predictor = load(run)
    data = data_of_run(folder, predictor, data)
    config: Config = folder.settings()
    if auc is not None:
        config = dataclasses.replace(config, auc=auc)
    if wrap is not None:
        # It returns the best labels only, and the AUC needs all scores.
        predictor, config = wrap(predictor), dataclasses.replace(config, auc=False)
    return score_test_points(predictor, config, data, on_progress)


def data_of_run(
    folder: RunFolder, predictor: Predictor, data: str | Path | Dataset | None = None
) -> Dataset:
    """The data set of a run, or another of its shape, with test points.

    Raises:
      InputError: no test points, data of another shape, or changed since the run.
    """
    if data is None:
        facts = folder.read_facts()
        data = load_dataset(facts["data"])
        if data.sha256 != facts["sha256"]:
            found = "other content than when the run was trained"
            raise InputError(facts["data"], found, "the same, or to be named with --data")
    elif not isinstance(data, Dataset):
        data = load_dataset(data)
    if data.test is None:
        raise InputError(data.name, "no test points", "a test file beside the train file")
    model = predictor.model
    for what, found_width, width in (
        ("features", data.test.num_features, model.num_features),
        ("labels", data.test.num_labels, model.head.num_labels),
    ):
        if found_width != width:
            raise InputError(data.name, f"{found_width} {what}", f"{width}, as in training")
    return data


def score_test_points(
    predictor: Predictor,
    config: Config,
    dataset: Dataset,
    on_progress: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Metrics of a model on the test points of a data set that has some.

    Args:
      predictor: of the model.
      config: the propensity model, and whether to measure the AUC.
      dataset: with test points; the frequencies of the labels are those of its train.
      on_progress: told the number of points done.

    Returns:
      As `evaluation.evaluate_points`.
    """
    assert dataset.test is not None
    return evaluate_points(
        predictor,
        dataset.test,
        label_frequency(dataset),
        dataset.train.num_points,
        propensity_a=config.propensity_a,
        propensity_b=config.propensity_b,
        duplicates=duplicate_test_rows(dataset),
        auc=config.auc,
        on_progress=on_progress,
    )

"""The points that a phase trains on: those of the data, their item splits, and label names."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from snm.batches.item_splits import add_splits
from snm.config.resolved import ResolvedConfig
from snm.data.dataset import Dataset, Points

__all__ = ["TrainingPoints", "label_name_points", "training_points"]


class TrainingPoints(NamedTuple):
    """The points of the data with their item splits and the label names, and which train.

    Attributes:
      points: n points; features are not weighted.
      rows: int64 [m], the points to train on; None is all.
      ids: int64 [n], the row in the training file of each point or split; -1 - l if the point is
        the name of label l.
    """

    points: Points
    rows: NDArray[np.int64] | None
    ids: NDArray[np.int64]


def training_points(
    config: ResolvedConfig, dataset: Dataset, rows: NDArray[np.int64] | None, seed: int
) -> TrainingPoints:
    """The points that a member trains on; label names always train.

    Args:
      config: the settings of the run.
      dataset: as loaded.
      rows: int64 [m], the rows of the training set to train on; None is all.
      seed: of the member, for the splits.
    """
    points, rows = add_splits(dataset.train, rows, config.item_splits, seed)
    ids = np.arange(points.num_points) % dataset.train.num_points  # a split has the id of its row
    names = label_name_points(config, dataset)
    if names is None:
        return TrainingPoints(points, rows, ids)
    if rows is not None:
        rows = np.append(rows, points.num_points + np.arange(names.num_points))
    ids = np.append(ids, -1 - names.labels.indices.astype(np.int64))
    return TrainingPoints(points.concatenate(names), rows, ids)


def label_name_points(config: ResolvedConfig, dataset: Dataset) -> Points | None:
    """The label names as training points, if the settings train on them; else None."""
    return dataset.name_points if config.label_text == "on" else None

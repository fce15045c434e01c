"""Makes a memory of the points of a run: their weighted features, labels and queries."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.config.resolved import ResolvedConfig
from snm.data.dataset import Dataset, Points
from snm.memory.memory import LABEL_NAME, Memory, MemorySettings
from snm.prediction.predictor import Predictor

__all__ = [
    "make_memory",
    "normalized_queries",
    "select_usable_rows",
    "stored_points",
    "stored_rows",
]


def stored_rows(config: ResolvedConfig, dataset: Dataset) -> NDArray[np.int64]:
    """The rows of the training set that a memory stores: those that some member trains on."""
    if config.refit or not config.validation_fraction:
        return np.arange(dataset.train.num_points)
    return dataset.rows_of_split(config.validation_fraction, config.seed)[0]


def make_memory(
    predictor: Predictor,
    points: Points,
    rows: NDArray[np.int64],
    settings: MemorySettings,
    names: Points | None = None,
) -> Memory:
    """Makes a memory of points.

    Args:
      predictor: weights the features, and computes the queries.
      points: the training points.
      rows: int64 [m], the rows of `points` to store; those without a label or a feature are not.
      settings: of the memory.
      names: points made of label names, stored after the others.
    """
    rows = select_usable_rows(points, rows)
    stored = stored_points(predictor, points.take(rows).concatenate(names))
    if names is not None:
        rows = np.append(rows, np.full(names.num_points, LABEL_NAME))
    queries = None
    if settings.feature_share != 1:
        queries = normalized_queries(predictor, stored.features)
    features = predictor.weighting.apply(stored.features)
    return Memory(features, stored.labels, queries, rows, settings, stored.weights)


def stored_points(predictor: Predictor, points: Points) -> Points:
    """The points as a memory stores them.

    If features and labels are the same items, all items of a point are both its features and its
    labels.
    """
    return points.baskets() if predictor.model.drop_seen else points


def normalized_queries(predictor: Predictor, features: csr_matrix) -> NDArray[np.float16]:
    """The queries of points, scaled to length 1: float16 [n, D]."""
    blocks = [np.zeros((0, predictor.model.members * predictor.model.dim), np.float16)]
    for queries in predictor.queries(features):
        lengths = np.linalg.norm(queries, axis=1, keepdims=True)
        blocks.append((queries / np.where(lengths > 0, lengths, 1)).astype(np.float16))
    return np.concatenate(blocks)


def select_usable_rows(points: Points, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows that have a label, a feature and a weight above 0."""
    return points.labelled(rows[np.diff(points.features.indptr)[rows] > 0])

"""What a memory stores of a run's points: their features as weighted, labels and queries."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.config.resolved import ResolvedConfig
from snm.data.dataset import Dataset, Points
from snm.memory.memory import LABEL_NAME, Memory, MemorySettings
from snm.prediction.predictor import Predictor

__all__ = ["as_stored", "memory_of", "stored_rows", "unit_queries", "with_labels"]


def stored_rows(config: ResolvedConfig, dataset: Dataset) -> NDArray[np.int64]:
    """The rows of train that a memory stores: those that some member trains on."""
    if config.refit or not config.validation_fraction:
        return np.arange(dataset.train.num_points)
    return dataset.rows_of_split(config.validation_fraction, config.seed)[0]


def memory_of(
    predictor: Predictor,
    points: Points,
    rows: NDArray[np.int64],
    settings: MemorySettings,
    names: Points | None = None,
) -> Memory:
    """A memory of those of the `rows` (int64 [m]) of `points` that have a label and a feature.

    The points that label names make are stored after them.
    """
    rows = with_labels(points, rows)
    stored = as_stored(predictor, points.take(rows).concatenate(names))
    if names is not None:
        rows = np.append(rows, np.full(names.num_points, LABEL_NAME))
    queries = None if settings.feature_share == 1 else unit_queries(predictor, stored.features)
    features = predictor.weighting.apply(stored.features)
    return Memory(features, stored.labels, queries, rows, settings, stored.weights)


def as_stored(predictor: Predictor, points: Points) -> Points:
    """The points as a memory stores them.

    Where features and labels are the same items, a neighbour speaks for all of its items, and all
    of them make it a neighbour.
    """
    return points.baskets() if predictor.model.drop_seen else points


def unit_queries(predictor: Predictor, features: csr_matrix) -> NDArray[np.float16]:
    """Queries of length 1, float16 [n, D]."""
    blocks = [np.zeros((0, predictor.model.members * predictor.model.dim), np.float16)]
    for queries in predictor.queries(features):
        lengths = np.linalg.norm(queries, axis=1, keepdims=True)
        blocks.append((queries / np.where(lengths > 0, lengths, 1)).astype(np.float16))
    return np.concatenate(blocks)


def with_labels(points: Points, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Those of the rows that have a label and a feature, and do not weigh 0."""
    return points.labelled(rows[np.diff(points.features.indptr)[rows] > 0])

"""Adds points, and room for new labels, to the memory of a trained model."""

from __future__ import annotations

import dataclasses

import numpy as np
from scipy.sparse import csr_matrix

from snm.data.dataset import Dataset, Points
from snm.memory.memory import EARLIER_POINT, LABEL_NAME, Memory
from snm.memory.merge import merge_memories
from snm.prediction.predictor import Predictor
from snm.trainer.memory.stored import make_memory

__all__ = ["grown_memory"]


def grown_memory(
    memory: Memory,
    predictor: Predictor,
    dataset: Dataset | None,
    num_labels: int,
    names: Points | None = None,
) -> Memory:
    """The memory of a grown model.

    Args:
      memory: the memory of the model before.
      predictor: the model before. New labels do not change its queries.
      dataset: data with all labels, or None. Its training points are stored with their indices;
        points from before, which it may lack, become `EARLIER_POINT`.
      num_labels: K with the new labels.
      names: points made of the names of the new labels, if the run trains on names.
    """
    if names is not None and memory.weights is not None:
        mean = memory.weights.mean(dtype=np.float64)  # as for names in training
        weights = np.full(names.num_points, mean, np.float32)
        names = dataclasses.replace(names, weights=weights)
    if dataset is not None:
        rows = np.where(memory.rows == LABEL_NAME, LABEL_NAME, EARLIER_POINT)
        before = dataclasses.replace(memory, rows=rows)
        all_rows = np.arange(dataset.train.num_points)
        return merge_memories(
            before, make_memory(predictor, dataset.train, all_rows, memory.settings, names)
        )
    if names is not None:
        no_rows = np.arange(0)
        return merge_memories(
            memory, make_memory(predictor, names.take(no_rows), no_rows, memory.settings, names)
        )
    labels = csr_matrix(memory.labels, copy=True)
    labels.resize(labels.shape[0], num_labels)
    return dataclasses.replace(memory, labels=labels)

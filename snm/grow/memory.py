"""Adds points, and room for new labels, to the memory of a trained model."""

from __future__ import annotations

import dataclasses

import numpy as np
from scipy.sparse import csr_matrix

from snm.data.dataset import Dataset
from snm.memory.memory import Memory
from snm.memory.merge import merged
from snm.prediction.predictor import Predictor
from snm.trainer.memory import memory_of

__all__ = ["grown_memory"]


def grown_memory(
    memory: Memory, predictor: Predictor, dataset: Dataset | None, num_labels: int
) -> Memory:
    """The memory of a grown model.

    Args:
      memory: of the model before.
      predictor: the model before. New labels do not change its queries.
      dataset: data with all labels, or None. Its training points are stored, with their numbers
        there; the points from before, which it may not have, are numbered -1.
      num_labels: K with the new labels.
    """
    if dataset is not None:
        before = dataclasses.replace(memory, rows=np.full_like(memory.rows, -1))
        every = np.arange(dataset.train.num_points)
        return merged(before, memory_of(predictor, dataset.train, every, memory.settings))
    labels = csr_matrix(memory.labels, copy=True)
    labels.resize(labels.shape[0], num_labels)
    return dataclasses.replace(memory, labels=labels)

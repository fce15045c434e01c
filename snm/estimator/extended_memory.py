"""The memory of neighbours of the estimator, as `snm train` chooses it."""

from __future__ import annotations

import dataclasses

import numpy as np

from snm.data.dataset import Points
from snm.data.weighting import Weighting
from snm.memory.memory import Memory
from snm.memory.merge import merged
from snm.prediction.predictor import Predictor
from snm.trainer.memory.stored import memory_of, unit_queries

__all__ = ["extended"]


def extended(memory: Memory, points: Points, predictor: Predictor) -> Memory:
    """A memory after the model saw more points: these are stored too.

    Args:
      memory: of the model before.
      points: those that it saw; numbered on from the points of the memory.
      predictor: the model now, whose queries of the stored points differ from those before.
    """
    if memory.queries is not None:
        plain = Weighting.fit("none", memory.features)  # stored points are weighted
        queries = unit_queries(dataclasses.replace(predictor, weighting=plain), memory.features)
        memory = dataclasses.replace(memory, queries=queries)
    new = memory_of(predictor, points, np.arange(points.num_points), memory.settings)
    return merged(memory, dataclasses.replace(new, rows=new.rows + memory.rows.max() + 1))

"""Adds the points of a `partial_fit` to the memory of neighbours of the estimator."""

from __future__ import annotations

import dataclasses

import numpy as np

from snm.data.dataset import Points
from snm.data.weighting import Weighting
from snm.memory.memory import Memory
from snm.memory.merge import merge_memories
from snm.prediction.predictor import Predictor
from snm.trainer.memory.stored import make_memory, normalized_queries

__all__ = ["extend_memory"]


def extend_memory(memory: Memory, points: Points, predictor: Predictor) -> Memory:
    """Stores more points, and embeds the stored ones with the updated model.

    Args:
      memory: the memory before the update.
      points: the points of the update; their indices continue those of the memory.
      predictor: the updated model, whose queries of the stored points differ from those before.
    """
    if memory.queries is not None:
        identity = Weighting.fit("none", memory.features)  # stored features are weighted already
        unweighted = dataclasses.replace(predictor, weighting=identity)
        queries = normalized_queries(unweighted, memory.features)
        memory = dataclasses.replace(memory, queries=queries)
    new = make_memory(predictor, points, np.arange(points.num_points), memory.settings)
    return merge_memories(memory, dataclasses.replace(new, rows=new.rows + memory.rows.max() + 1))

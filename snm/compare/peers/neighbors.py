"""Nearest neighbours: the labels of the training points that are most like a point."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy.sparse import csr_matrix

from snm.compare.peers.protocol import Answers, Rows, timed
from snm.memory.memory import votes
from snm.memory.neighbors import nearest, unit_rows

__all__ = ["NEIGHBORS", "neighbors"]

NEIGHBORS = 50


def neighbors(
    train_features: csr_matrix,
    train_labels: csr_matrix,
    test_features: csr_matrix,
    *,
    k: int,
    seed: int,
    threads: int,
) -> Answers:
    """Adds the labels of the 50 nearest points, each times its cosine; see `TrainAndPredict`.

    A label that none of them has is no answer. `seed` and `threads` have no effect.
    """
    del seed, threads

    def train() -> tuple[csr_matrix, csr_matrix]:
        return unit_rows(train_features).T.tocsr(), train_labels

    def predict(index: tuple[csr_matrix, csr_matrix]) -> Rows:
        by_feature, labels = index
        found = nearest(unit_rows(test_features), by_feature, NEIGHBORS)
        voted = votes(found, labels, NEIGHBORS, power=1.0)
        for first, last in pairwise(voted.indptr.tolist()):
            ids, shares = voted.indices[first:last], voted.data[first:last]
            yield ids[np.lexsort((ids, -shares))[:k]].tolist()

    return timed(train, predict, test_features.shape[0], k)

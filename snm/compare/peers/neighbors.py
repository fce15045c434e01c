"""Nearest neighbours: the labels of the training points that are most like a point."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_matrix

from snm.compare.peers.protocol import Answers, Rows, timed

__all__ = ["NEIGHBORS", "neighbors"]

NEIGHBORS = 50
_BLOCK_SIMILARITIES = 1 << 24  # of one block of test points, 64 MiB


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
        return _unit_rows(train_features).T.tocsr(), train_labels

    def predict(index: tuple[csr_matrix, csr_matrix]) -> Rows:
        by_feature, labels = index
        points = _unit_rows(test_features)
        rows = max(1, _BLOCK_SIMILARITIES // by_feature.shape[1])
        for first in range(0, points.shape[0], rows):
            yield from _answers(points[first : first + rows] @ by_feature, labels, k)

    return timed(train, predict, test_features.shape[0], k)


def _answers(similarities: csr_matrix, labels: csr_matrix, k: int) -> Iterator[list[int]]:
    """The best labels of each row of cosines; ties go to the lowest number."""
    for row in range(similarities.shape[0]):
        entries = slice(similarities.indptr[row], similarities.indptr[row + 1])
        points, cosines = similarities.indices[entries], similarities.data[entries]
        nearest = np.lexsort((points, -cosines))[:NEIGHBORS]
        weights = csr_matrix(
            (cosines[nearest], points[nearest], [0, len(nearest)]), shape=(1, labels.shape[0])
        )
        votes = weights @ labels
        yield votes.indices[np.lexsort((votes.indices, -votes.data))[:k]].tolist()


def _unit_rows(features: csr_matrix) -> csr_matrix:
    """Rows of length 1; rows of zeros stay."""
    lengths = np.sqrt(features.multiply(features).sum(axis=1)).A1
    scaled = features.copy()
    scaled.data /= np.repeat(np.where(lengths > 0, lengths, 1), np.diff(features.indptr))
    return scaled

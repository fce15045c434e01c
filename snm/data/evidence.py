"""How much of what single features say about the labels is lost with half of the features."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.data.dataset import Points
from snm.data.mapped import row_blocks

__all__ = ["evidence_lost"]

_PRODUCTS = 1 << 24  # pairs (feature, label) of the points that are counted
_JUDGED = 1000  # points over which the mean is taken
_CHUNK = 50  # of them at once, at most
_FEW = 8  # labels a point that count in any case, where points have so many
_ENTRIES = 1 << 22  # of the counts of pairs that are looked at once, some 100 MiB


def evidence_lost(
    points: Points,
    take: Callable[[csr_matrix, NDArray[np.int64]], csr_matrix] = lambda m, rows: _ones(m[rows]),
) -> float:
    """The evidence of a point's best feature that is lost when half of its features are left out.

    The evidence of a feature f for a label is P(label | f) - P(label), or 0 where that is negative.
    P(label | f) is the share of the other points with f that have the label, P(label) that of all
    other points. Of each label of a point, this compares its best feature with the expected best of
    a random half. The difference is large where one of few words names the label. It is small where
    other features say the same, and where only many features together say something. Of large sets,
    evenly spaced points are counted, so rare features count less. Where these would be few because
    points have many labels, only evenly spaced labels count.

    Args:
      points: the training points.
      take: of a matrix and ascending rows, these rows with ones as values. Several processes each
        read a part of them.

    Returns:
      the mean over at most 1000 evenly spaced points, and over the labels of each, in [0, 1]; 0 if
      none of them has a label.
    """
    count, pairs = points.num_points, points.features.nnz * points.labels.nnz
    most = _PRODUCTS * count**2 / max(1, pairs)  # points with all of their labels
    share = max(most / min(count, _JUDGED), _FEW * count / max(1, points.labels.nnz))
    counted = _spaced(count, int(most / min(1.0, share)))
    features, labels = (take(m, counted) for m in (points.features, points.labels))
    if share < 1:
        labels = labels[:, _spaced(points.num_labels, round(share * points.num_labels))]
    together = (features.T @ labels).tocsr()
    with_feature = np.bincount(features.indices, minlength=features.shape[1])
    chance = (np.bincount(labels.indices, minlength=labels.shape[1]) - 1) / max(1, len(counted) - 1)
    rows = _spaced(len(counted), _JUDGED)
    total, judged = 0.0, 0
    for first in range(0, len(rows), _CHUNK):
        chunk = rows[first : first + _CHUNK]
        # The counts of features that many points have are looked up for each of these.
        entries = np.concatenate([[0], np.cumsum(features[chunk] @ np.diff(together.indptr))])
        lost = np.concatenate([
            _lost(features[part], labels[part], together, with_feature, chance)
            for part in (chunk[begin:end] for begin, end in row_blocks(entries, _ENTRIES))
        ])  # fmt: skip
        size = np.diff(labels[chunk].indptr)
        total += float((lost[size > 0] / size[size > 0]).sum())
        judged += int((size > 0).sum())
    return total / judged if judged else 0.0


def _lost(
    features: csr_matrix,
    labels: csr_matrix,
    together: csr_matrix,
    with_feature: NDArray[np.int64],
    chance: NDArray[np.float64],
) -> NDArray[np.float64]:
    """float64 [m]: of each point, the sum over its labels of the evidence that is lost."""
    point = np.repeat(np.arange(features.shape[0]), np.diff(features.indptr))
    counts = together[features.indices].multiply(labels[point]).tocoo()
    others = with_feature[features.indices][counts.row] - 1  # the point itself is left out
    shares = np.where(others > 0, (counts.data - 1) / np.maximum(others, 1), 0.0)
    evidence = np.maximum(shares - chance[counts.col], 0.0)
    # Best first within each (point, label). The best of a half is the one of rank r if it is kept
    # and those before it are not: with probability 2^-(r + 1).
    owner = point[counts.row]
    order = np.lexsort((-evidence, counts.col, owner))
    owner, label, evidence = owner[order], counts.col[order], evidence[order]
    first = np.ones(len(owner), bool)
    first[1:] = (np.diff(owner) != 0) | (np.diff(label) != 0)
    starts = np.flatnonzero(first)
    rank = np.arange(len(owner)) - np.repeat(starts, np.diff(np.append(starts, len(owner))))
    lost = evidence * (first - 0.5 ** (rank + 1.0))
    return np.bincount(owner, lost, minlength=features.shape[0]).astype(np.float64)


def _spaced(count: int, most: int) -> NDArray[np.int64]:
    """Evenly spaced numbers below `count`, at most `most` of them."""
    size = max(1, min(count, most))
    return np.arange(size, dtype=np.int64) * count // size


def _ones(matrix: csr_matrix) -> csr_matrix:
    """A matrix with the same entries, all of value 1."""
    ones = np.ones(len(matrix.indices))
    return csr_matrix((ones, matrix.indices, matrix.indptr), shape=matrix.shape)

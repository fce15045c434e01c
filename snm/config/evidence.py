"""How much of what features say about the labels is lost with half of a point's features."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.data.csr import are_entries, row_starts, rows_of_entries, top_k_of_pairs
from snm.data.dataset import Points
from snm.data.mapped import row_blocks
from snm.data.weighting import inverse_frequency
from snm.distributed.dataset import binarized_rows
from snm.memory.memory import votes
from snm.memory.neighbors import Neighbors, StoredPoints

__all__ = ["evidence_lost", "neighbors_lost"]

_PAIRS = 1 << 24  # (feature, label) pairs of the points that are counted
_EVALUATED = 1000  # points over which the mean is taken
_CHUNK = 50  # of these at once, at most
_MIN_LABELS = 8  # labels per point that are always counted, if points have so many
_ENTRIES = 1 << 22  # entries of the pair counts that are read at once: about 100 MiB
_STORED = 20_000  # points among which neighbours are searched
_STORED_ENTRIES = 1 << 24  # of their features, at most: about 650 MiB
_HALVES = 4  # of a point's features; one alone changes the mean by 0.01
_NEIGHBORS = 10  # that vote


def evidence_lost(points: Points) -> float:
    """The evidence of a point's best feature that is lost if half of its features are dropped.

    The evidence of a feature f for a label is max(0, P(label | f) - P(label)). P(label) is
    the fraction of the other points that have the label, P(label | f) the same among those with f.
    For each label of a point, the evidence of its best feature is compared with the expected best
    of a random half. The difference is large if one of few words names the label. It is small if
    other features have similar evidence, or only many features together do. Of a large set, evenly
    spaced points are counted, so rare features count less. If these would be few because points
    have many labels, only evenly spaced labels are counted.

    Args:
      points: the training points; with several processes, each reads a part.

    Returns:
      the mean over at most 1000 evenly spaced points, and over the labels of each, in [0, 1]; 0 if
      none of them has a label.
    """
    count, pairs = points.num_points, points.features.nnz * points.labels.nnz
    limit = _PAIRS * count**2 / max(1, pairs)  # points, if all of their labels are counted
    label_share = max(
        limit / min(count, _EVALUATED), _MIN_LABELS * count / max(1, points.labels.nnz)
    )
    sampled = _spaced(count, int(limit / min(1.0, label_share)))
    features, labels = (binarized_rows(m, sampled) for m in (points.features, points.labels))
    if label_share < 1:
        labels = labels[:, _spaced(points.num_labels, round(label_share * points.num_labels))]
    pair_counts = (features.T @ labels).tocsr()
    with_feature = np.bincount(features.indices, minlength=features.shape[1])
    base_rate = (np.bincount(labels.indices, minlength=labels.shape[1]) - 1) / max(
        1, len(sampled) - 1
    )
    rows = _spaced(len(sampled), _EVALUATED)
    total, num_points = 0.0, 0
    for first in range(0, len(rows), _CHUNK):
        chunk = rows[first : first + _CHUNK]
        # Limits the memory: the pair counts of a frequent feature are read for each of its points.
        entries = row_starts(features[chunk] @ np.diff(pair_counts.indptr))
        lost = np.concatenate([
            _lost(features[part], labels[part], pair_counts, with_feature, base_rate)
            for part in (chunk[begin:end] for begin, end in row_blocks(entries, _ENTRIES))
        ])  # fmt: skip
        size = np.diff(labels[chunk].indptr)
        total += float((lost[size > 0] / size[size > 0]).sum())
        num_points += int((size > 0).sum())
    return total / num_points if num_points else 0.0


def neighbors_lost(points: Points) -> float:
    """How much the P@1 of nearest neighbours falls if half of a point's features are dropped.

    For each point, the ten most similar of the other points vote for their labels: once with all of
    its features, and with four random halves of them. Similarity is the cosine of binary features
    with idf weights. The difference is large where only many features together tell the label, as
    the pieces on a board do: with half of them, the label may be another. It is also large where
    one of few features decides, or where points have so few that none may be left. It is small
    where neighbours are of little use anyway, or where a few of many words suffice.

    Args:
      points: the training points, of which at most 20,000 evenly spaced ones are used, fewer if
        they have more than 800 features; with several processes, each reads a part.

    Returns:
      the difference of the means over at most 1000 evenly spaced points with a label, in [-1, 1];
      0 if none of them has a label.
    """
    fitting = _STORED_ENTRIES * points.num_points // max(1, points.features.nnz)
    sampled = _spaced(points.num_points, min(_STORED, fitting))
    features, labels = (binarized_rows(m, sampled) for m in (points.features, points.labels))
    rows = np.flatnonzero(np.diff(labels.indptr))
    if not len(rows):
        return 0.0
    rows = rows[_spaced(len(rows), _EVALUATED)]
    with_feature = np.bincount(features.indices, minlength=features.shape[1])
    features.data = inverse_frequency(len(sampled), with_feature)[features.indices]
    stored = StoredPoints(features.astype(np.float32))
    whole, rng = stored.features[rows], np.random.default_rng(0)

    def precision(queries: csr_matrix) -> float:
        ids, cosines = stored.similar(queries, _NEIGHBORS + 1)
        others = Neighbors(ids, np.where(ids == rows[:, None], 0, cosines))
        voted = votes(others, labels, _NEIGHBORS, 1.0)
        best, _ = top_k_of_pairs(voted, voted.data, 1, -np.inf)
        return float(are_entries(best, labels[rows]).mean())

    def precision_of_half() -> float:
        half = whole.copy()
        half.data[rng.random(half.nnz) < 0.5] = 0
        half.eliminate_zeros()
        return precision(half)

    return precision(whole) - float(np.mean([precision_of_half() for _ in range(_HALVES)]))


def _lost(
    features: csr_matrix,
    labels: csr_matrix,
    pair_counts: csr_matrix,
    with_feature: NDArray[np.int64],
    base_rate: NDArray[np.float64],
) -> NDArray[np.float64]:
    """The evidence lost by each point, summed over its labels: float64 [m]."""
    point = rows_of_entries(features.indptr)
    counts = pair_counts[features.indices].multiply(labels[point]).tocoo()
    others = with_feature[features.indices][counts.row] - 1  # the point itself is left out
    shares = np.where(others > 0, (counts.data - 1) / np.maximum(others, 1), 0.0)
    evidence = np.maximum(shares - base_rate[counts.col], 0.0)
    # Best first within each (point, label). The feature of rank r is the best of a random half if
    # it is kept and those before it are not: with probability 2^-(r + 1).
    owner = point[counts.row]
    order = np.lexsort((-evidence, counts.col, owner))
    owner, label, evidence = owner[order], counts.col[order], evidence[order]
    first = np.ones(len(owner), bool)
    first[1:] = (np.diff(owner) != 0) | (np.diff(label) != 0)
    starts = np.flatnonzero(first)
    rank = np.arange(len(owner)) - np.repeat(starts, np.diff(np.append(starts, len(owner))))
    lost = evidence * (first - 0.5 ** (rank + 1.0))
    return np.bincount(owner, lost, minlength=features.shape[0]).astype(np.float64)


def _spaced(count: int, limit: int) -> NDArray[np.int64]:
    """Evenly spaced numbers below `count`, at most `limit` of them."""
    size = max(1, min(count, limit))
    return np.arange(size, dtype=np.int64) * count // size

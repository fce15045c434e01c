"""Adds points to a memory."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, vstack

from snm.data.weights import weights_or_ones
from snm.memory.memory import Memory

__all__ = ["merge_memories"]


def merge_memories(old: Memory, new: Memory) -> Memory:
    """The points of two memories; the settings are those of `old`.

    A point of `new` replaces a point of `old` with the same features whose labels are equal to its
    own or, if there is none, a subset of them: it is the same point, passed again.

    Args:
      old: n points with K labels.
      new: m points of the same model, with as many labels or more.
    """
    kept = _kept_points(old, new)
    labels = old.labels[kept]
    labels.resize(labels.shape[0], new.labels.shape[1])
    queries: NDArray[np.float16] | None = None
    if old.queries is not None:
        assert new.queries is not None
        queries = np.concatenate([old.queries[kept], new.queries])
    weights: NDArray[np.float32] | None = None
    if old.weights is not None or new.weights is not None:
        of_old, of_new = (weights_or_ones(m.weights, len(m.rows)) for m in (old, new))
        weights = np.concatenate([of_old[kept], of_new])
    return Memory(
        csr_matrix(vstack([old.features[kept], new.features])),
        csr_matrix(vstack([labels, new.labels])),
        queries,
        np.concatenate([old.rows[kept], new.rows]),
        old.settings,
        weights,
    )


def _kept_points(old: Memory, new: Memory) -> NDArray[np.bool_]:
    """Bool [n]: which points of `old` are not replaced by a point of `new`."""
    new_points: dict[bytes, Counter[frozenset[int]]] = defaultdict(Counter)
    for features, labels in zip(_entries(new.features), _labels(new.labels), strict=True):
        new_points[features][labels] += 1
    kept = np.ones(len(old.rows), bool)
    others = []
    for row, pair in enumerate(zip(_entries(old.features), _labels(old.labels), strict=True)):
        features, labels = pair
        if features not in new_points:
            continue
        if new_points[features][labels] > 0:
            new_points[features][labels] -= 1
            kept[row] = False
        else:
            others.append((row, features, labels))
    for row, features, labels in others:
        counts = new_points[features]
        superset = next((new for new, count in counts.items() if count > 0 and labels < new), None)
        if superset is not None:
            counts[superset] -= 1
            kept[row] = False
    return kept


def _entries(features: csr_matrix) -> Iterator[bytes]:
    """The entries of each row, as a key."""
    features = features.sorted_indices()
    ids, values = features.indices.astype(np.int64), features.data
    for first, last in zip(features.indptr[:-1], features.indptr[1:], strict=True):
        yield ids[first:last].tobytes() + values[first:last].tobytes()


def _labels(labels: csr_matrix) -> Iterator[frozenset[int]]:
    """The labels of each row."""
    for first, last in zip(labels.indptr[:-1], labels.indptr[1:], strict=True):
        yield frozenset(labels.indices[first:last].tolist())

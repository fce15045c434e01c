"""Adds points to a memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, vstack

from snm.memory.memory import Memory

__all__ = ["merged"]


def merged(old: Memory, new: Memory) -> Memory:
    """The points of two memories; the settings are those of `old`.

    A point of `old` gives way to one of `new` with the same features and at least its labels: it is
    the same point, given again.

    Args:
      old: n points with K labels.
      new: m points of the same model, with as many labels or more.
    """
    again = defaultdict(list)
    for features, labels in zip(_entries(new.features), _labels(new.labels), strict=True):
        again[features].append(labels)
    pairs = zip(_entries(old.features), _labels(old.labels), strict=True)
    left = np.asarray([not any(labels <= others for others in again.get(features, ()))
                       for features, labels in pairs], bool)  # fmt: skip
    labels = old.labels[left]
    labels.resize(labels.shape[0], new.labels.shape[1])
    queries: NDArray[np.float16] | None = None
    if old.queries is not None:
        assert new.queries is not None
        queries = np.concatenate([old.queries[left], new.queries])
    weights: NDArray[np.float32] | None = None
    if old.weights is not None or new.weights is not None:
        weights = np.concatenate([_weights(old)[left], _weights(new)])
    return Memory(
        csr_matrix(vstack([old.features[left], new.features])),
        csr_matrix(vstack([labels, new.labels])),
        queries,
        np.concatenate([old.rows[left], new.rows]),
        old.settings,
        weights,
    )


def _weights(memory: Memory) -> NDArray[np.float32]:
    """The weight of each point."""
    return np.ones(len(memory.rows), np.float32) if memory.weights is None else memory.weights


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

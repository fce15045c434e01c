"""Adds points to a memory."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, vstack

from snm.memory.memory import Memory

__all__ = ["merged"]


def merged(old: Memory, new: Memory) -> Memory:
    """The points of two memories; the settings are those of `old`.

    A point of `new` takes the place of one of `old` with the same features and no other labels than
    its own, one with all of them if there is one: it is that point, given again.

    Args:
      old: n points with K labels.
      new: m points of the same model, with as many labels or more.
    """
    left = _left(old, new)
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


def _left(old: Memory, new: Memory) -> NDArray[np.bool_]:
    """Which points of `old` none of `new` takes the place of: bool [n]."""
    again: dict[bytes, Counter[frozenset[int]]] = defaultdict(Counter)
    for features, labels in zip(_entries(new.features), _labels(new.labels), strict=True):
        again[features][labels] += 1
    left = np.ones(len(old.rows), bool)
    others = []
    for row, pair in enumerate(zip(_entries(old.features), _labels(old.labels), strict=True)):
        features, labels = pair
        if features not in again:
            continue
        if again[features][labels] > 0:
            again[features][labels] -= 1
            left[row] = False
        else:
            others.append((row, features, labels))
    for row, features, labels in others:
        found = again[features]
        more = next((own for own, count in found.items() if count > 0 and labels < own), None)
        if more is not None:
            found[more] -= 1
            left[row] = False
    return left


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

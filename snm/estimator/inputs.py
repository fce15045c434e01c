"""The inputs X and the seed of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight

from snm.data.dataset import Points
from snm.errors import InputError

__all__ = ["canonical", "points_of", "seed_of"]


def canonical(inputs: Any) -> csr_matrix:
    """Dense or sparse inputs as float32 CSR, whose rows hold no feature twice."""
    features = csr_matrix(inputs, dtype=np.float32)
    if not features.has_canonical_format:
        features = features.copy()
        features.sum_duplicates()
    return features


def points_of(features: csr_matrix, labels: csr_matrix, sample_weight: Any) -> Points:
    """The points that do not weigh 0.

    Args:
      features: float32 CSR [n, d].
      labels: CSR [n, K] of ones.
      sample_weight: [n], or None for 1 each.

    Raises:
      ValueError: not as many labels or weights as features (the messages are scikit-learn's), a
        weight that is negative or not finite, or only zeros.
    """
    if features.shape[0] != labels.shape[0]:
        raise ValueError(
            "Found input variables with inconsistent numbers of samples: "
            f"{[features.shape[0], labels.shape[0]]}"
        )
    if sample_weight is None:
        return Points(features, labels)
    weights = _check_sample_weight(sample_weight, features, dtype=np.float32)
    if (weights < 0).any():
        raise InputError("sample_weight", f"{weights.min()}", "numbers of at least 0")
    if not weights.any():
        raise InputError("sample_weight", "only zeros", "a weight above 0")
    points = Points(features, labels, weights=weights)
    return points if weights.all() else points.take(np.flatnonzero(weights))


def seed_of(random_state: Any) -> int:
    """The seed that a `random_state` stands for."""
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))

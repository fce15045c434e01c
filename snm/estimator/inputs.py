"""The inputs X and the seed of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.utils import check_random_state

__all__ = ["canonical", "matched", "seed_of"]


def canonical(inputs: Any) -> csr_matrix:
    """Dense or sparse inputs as float32 CSR, whose rows hold no feature twice."""
    features = csr_matrix(inputs, dtype=np.float32)
    if not features.has_canonical_format:
        features = features.copy()
        features.sum_duplicates()
    return features


def matched(features: csr_matrix, labels: csr_matrix) -> csr_matrix:
    """The labels.

    Raises:
      ValueError: there are not as many points as in the features; the message is scikit-learn's.
    """
    if features.shape[0] != labels.shape[0]:
        raise ValueError(
            "Found input variables with inconsistent numbers of samples: "
            f"{[features.shape[0], labels.shape[0]]}"
        )
    return labels


def seed_of(random_state: Any) -> int:
    """The seed that a `random_state` stands for."""
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))

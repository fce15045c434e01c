"""The inputs X and the seed of scikit-learn."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight

from snm.data.dataset import Points
from snm.data.statistics import dominant_feature
from snm.data.weighting import Kind
from snm.errors import InputError
from snm.prediction.inputs import drop_zeros, sum_duplicates

__all__ = ["canonical_csr", "make_points", "to_seed", "warn_dominant_feature"]


def canonical_csr(inputs: Any) -> csr_matrix:
    """Converts dense or sparse inputs to float32 CSR without duplicates and explicit zeros."""
    return drop_zeros(sum_duplicates(csr_matrix(inputs, dtype=np.float32)))


def make_points(features: csr_matrix, labels: csr_matrix, sample_weight: Any) -> Points:
    """The points with a weight above 0.

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


def warn_dominant_feature(weighting: Kind, features: csr_matrix) -> None:
    """Warns if one feature dominates the others; see `dominant_feature`."""
    if weighting == "l2" and (message := dominant_feature(features)) is not None:
        warnings.warn(message, UserWarning, stacklevel=4)  # points to the caller of fit


def to_seed(random_state: Any) -> int:
    """Converts a `random_state` to a seed.

    Raises:
      InputError: a number that is no seed.
    """
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        if not 0 <= random_state < 2**31:
            raise InputError("random_state", f"{random_state}", f"0 to {2**31 - 1}, or None")
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))

"""The inputs X and the seed of scikit-learn."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight

from snm.data.dataset import Points
from snm.data.statistics import dominant_feature
from snm.data.weighting import Kind
from snm.errors import InputError
from snm.prediction.inputs import drop_zeros, sum_duplicates

__all__ = ["label_weights", "make_points", "to_csr", "to_seed", "warn_dominant_feature"]


_CLASS_WEIGHT = "`balanced`, a mapping from class to weight, or one weight a class"


def to_csr(inputs: Any) -> csr_matrix:
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


def label_weights(class_weight: Any, labels: csr_matrix) -> NDArray[np.float32] | None:
    """The weights of the labels, float32 [K], or None for 1 each.

    Args:
      class_weight: None; [K] in the order of the classes; or `balanced`: the number of labels of
        all points, divided by K and by the points of the label. With one class a point that is
        scikit-learn's formula.
      labels: CSR [n, K] of ones.

    Raises:
      InputError: none of these, or a weight that is not finite and above 0.
    """
    num_labels = labels.shape[1]
    if class_weight is None:
        return None
    weights = np.ones(num_labels, np.float32)
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise InputError("class_weight", repr(class_weight), _CLASS_WEIGHT)
        counts = np.bincount(labels.indices, minlength=num_labels)
        present = counts > 0
        weights[present] = labels.nnz / (num_labels * counts[present])
    else:
        try:
            weights = np.asarray(class_weight, np.float32)
        except (TypeError, ValueError) as error:
            raise InputError("class_weight", repr(class_weight)[:60], _CLASS_WEIGHT) from error
    if weights.shape != (num_labels,):
        expected = f"one weight a class, {num_labels} of them"
        raise InputError("class_weight", f"shape {weights.shape}", expected)
    if not (np.isfinite(weights) & (weights > 0)).all():
        raise InputError("class_weight", f"{weights.min()}", "finite numbers above 0")
    return weights


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

"""A tiny problem for the tests of `experiments.references`."""

import numpy as np
from scipy.sparse import csr_matrix


def problem(points: int, features: int, labels: int, seed: int = 0) -> tuple[csr_matrix, ...]:
    """Points of unit length, and labels that depend on their features; label 0 has no point."""
    rng = np.random.default_rng(seed)
    x = rng.random((points, features)) * (rng.random((points, features)) < 0.5)
    x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-9)
    scores = x @ rng.standard_normal((features, labels)) + 0.1 * rng.standard_normal(
        (points, labels)
    )
    y = scores > np.quantile(scores, 0.75)
    y[:, 0] = False
    return csr_matrix(x.astype(np.float32)), csr_matrix(y.astype(np.float32))

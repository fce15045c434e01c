"""Complexities of classes by brute force, by simulation, and on real data."""

import itertools
import math

import numpy as np
import pytest
from scipy import sparse, special

from snm.data.load import load
from snm.data.weighting import Weighting
from snm.errors import InputError
from snm.theory import complexity
from snm.theory.complexity import (
    expected_norm,
    linear_complexity,
    two_layer_ascent,
    two_layer_complexity,
)


def test_expected_norm_of_chi_distributions():
    for d in (1, 2, 5, 300):
        chi = math.sqrt(2) * math.exp(special.gammaln((d + 1) / 2) - special.gammaln(d / 2))
        assert expected_norm(np.full(d, 4.0)) == pytest.approx(2 * chi, rel=1e-11)
    assert expected_norm([0.0, 0.0]) == 0
    rng = np.random.default_rng(0)
    z = rng.standard_normal((400_000, 3)) * np.sqrt([5.0, 1.0, 0.1])
    assert expected_norm([5.0, 1.0, 0.1]) == pytest.approx(
        np.linalg.norm(z, axis=1).mean(), rel=4e-3
    )


def sample(n, d, num_labels, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6) + 0.05
    y = rng.integers(0, num_labels, n)
    labels = sparse.csr_array((np.ones(n), (np.arange(n), y)), shape=(n, num_labels))
    return x, y, labels


def test_linear_complexities_by_maximizing_over_the_class():
    """The supremum of each draw is a dual norm; no random member of the class exceeds it."""
    x, y, labels = sample(12, 5, 3, 0)
    n, num_labels = labels.shape
    found = linear_complexity(x, labels, radius=2.0, draws=400, seed=1)
    rng = np.random.default_rng(2)
    own, completion = [], []
    for _ in range(4000):
        g = rng.standard_normal((n, num_labels))
        only = np.where(np.arange(num_labels) == y[:, None], g, 0)
        for store, multipliers in ((own, only / n), (completion, g / (n * num_labels))):
            gradient = multipliers.T @ x  # of sum_iy g_iy <w_y, x_i> in W
            store.append(2.0 * np.linalg.norm(gradient, axis=1).sum())
            for _ in range(3):
                w = rng.standard_normal((num_labels, 5))
                w *= 2.0 / np.linalg.norm(w, axis=1, keepdims=True)
                assert (gradient * w).sum() <= store[-1] + 1e-12
    assert found.estimate.gaussian == pytest.approx(np.mean(own), rel=0.04)
    assert found.estimate.gaussian_completion == pytest.approx(np.mean(completion), rel=0.02)
    assert found.standard_error[1] == 0  # exact
    for name in ("gaussian", "gaussian_completion", "rademacher_completion"):
        low, high = getattr(found.below, name), getattr(found.above, name)
        assert low <= getattr(found.estimate, name) * (1 + 1e-9) <= high * (1 + 1e-3)
        loosest = math.sqrt(2 if name.startswith("rademacher") else math.pi / 2)
        assert high / low <= loosest + 1e-9


def test_worst_case_rademacher_over_all_multisubsets():
    """Two points, two labels: every multiset of four pairs, every sign."""
    x = np.array([[1.0, 0.5], [-0.3, 2.0]])
    labels = sparse.csr_array(np.eye(2))
    found = linear_complexity(x, labels, radius=1.5)
    pairs = list(itertools.product(range(2), range(2)))
    worst = 0.0
    for multiset in itertools.combinations_with_replacement(pairs, 4):
        values = []
        for signs in itertools.product([-1, 1], repeat=4):
            parts = np.zeros((2, 2))
            for sign, (i, y) in zip(signs, multiset, strict=True):
                parts[y] += sign * x[i]
            values.append(1.5 * np.linalg.norm(parts, axis=1).sum() / 4)
        worst = max(worst, np.mean(values))
    assert found.below.rademacher_completion <= worst + 1e-12
    assert worst <= found.above.rademacher_completion


def test_sparse_dense_and_several_labels_agree():
    x, _, labels = sample(40, 7, 4, 3)
    dense = linear_complexity(x, labels, draws=30)
    thin = linear_complexity(sparse.csr_array(x), labels, draws=30)
    assert dense.estimate.gaussian == pytest.approx(thin.estimate.gaussian, rel=1e-12)
    both = sparse.csr_array(np.ones((40, 4)))
    several = linear_complexity(x, both, draws=2000)
    # Each draw takes one label, so this is the mean over labels of the mean over multipliers.
    rng = np.random.default_rng(0)
    values = []
    for _ in range(4000):
        parts = np.zeros((4, 7))
        np.add.at(parts, rng.integers(0, 4, 40), rng.standard_normal(40)[:, None] * x)
        values.append(np.linalg.norm(parts, axis=1).sum() / 40)
    assert several.estimate.gaussian == pytest.approx(np.mean(values), rel=0.02)
    with pytest.raises(InputError, match="without a label"):
        linear_complexity(x, sparse.csr_array((40, 4)))


def test_large_samples_are_estimated(monkeypatch):
    x, _, labels = sample(300, 40, 5, 0)
    exact = linear_complexity(x, labels)
    monkeypatch.setattr(complexity, "_MAX_EIGENVALUES", 10)
    found = linear_complexity(sparse.csr_array(x), labels, draws=200)
    assert exact.standard_error[1] == 0 < found.standard_error[1]
    middle = exact.estimate.gaussian_completion
    assert found.estimate.gaussian_completion == pytest.approx(middle, rel=0.03)
    assert abs(found.estimate.gaussian_completion - middle) < 4 * found.standard_error[1]


def test_an_exact_norm_is_not_estimated_too(monkeypatch):
    x, _, labels = sample(30, 4, 5, 0)
    estimated = []
    monkeypatch.setattr(np.linalg, "norm", lambda v: estimated.append(v) or 1.0)
    assert linear_complexity(x, labels).standard_error[1] == 0
    assert not estimated


def test_the_two_layer_class_is_between_ascent_and_twice_the_linear_one():
    x, _, labels = sample(30, 4, 3, 5)
    found = two_layer_complexity(x, labels, draws=6)
    linear = linear_complexity(x, labels)
    assert 0 < found.below.gaussian <= found.above.gaussian
    assert found.above.gaussian == 2 * linear.above.gaussian
    # In one dimension only relu(u x) with u = +1 or -1 exists, so the maximum is known.
    x1 = np.array([[1.0], [2.0], [-1.5], [0.5]])
    g = np.array([[0.3], [-1.0], [0.7], [2.0]])
    plus, minus = np.maximum(x1[:, 0], 0) @ g[:, 0], np.maximum(-x1[:, 0], 0) @ g[:, 0]
    best = two_layer_ascent(x1, g, hidden=8, steps=400, rng=np.random.default_rng(0))
    assert best == pytest.approx(max(abs(plus), abs(minus)), rel=0.02)
    assert best <= max(abs(plus), abs(minus)) + 1e-9


@pytest.mark.slow
def test_complexities_on_real_data(real_data):
    """Both classes on training points: estimates lie within their bounds and are ordered."""
    train = load(real_data).train
    kept = np.flatnonzero(np.diff(train.labels.indptr))
    x = Weighting.fit("tfidf", train.features).apply(train.features)[kept]
    labels = train.labels[kept]
    linear = linear_complexity(x, labels, draws=4)
    for name in ("gaussian", "gaussian_completion", "rademacher_completion"):
        low, high = getattr(linear.below, name), getattr(linear.above, name)
        assert low <= getattr(linear.estimate, name) <= high * 1.001
    two = two_layer_complexity(x, labels, draws=1, steps=10)
    assert 0 < two.below.gaussian <= two.above.gaussian == 2 * linear.above.gaussian

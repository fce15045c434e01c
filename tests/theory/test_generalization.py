"""Lemma 7, Theorems 5 and 6, and variances, by brute force and simulation."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from snm.errors import InputError
from snm.losses.rank_weights import negative_sampling, power_law, top
from snm.losses.theta import theta_from_vartheta, theta_norms
from snm.theory.constants import lemma_7, phi_largest, phi_lipschitz, sampling_l1_norms
from snm.theory.generalization import (
    GAUSSIAN_FACTOR,
    Complexity,
    examples_needed,
    theorem_5,
    theorem_6,
)
from snm.theory.variance import (
    gradient_variance_bound,
    linear_gradient_variance,
    value_variance_bound,
)

properties = settings(max_examples=100, deadline=None, derandomize=True)
K = 6
PHI = {
    "hinge": lambda u: np.maximum(1 - u, 0),
    "logistic": lambda u: np.log2(1 + np.exp(-u)),
    "squared_hinge": lambda u: np.maximum(1 - u, 0) ** 2,
    "exponential": lambda u: np.exp(-u),
    "ramp": lambda u: np.clip(1 - u, 0, 1),
}


def owl(kind, phi, v, y, theta):
    others = np.sort(np.delete(v, y))[::-1]
    if kind == "powl":
        return PHI[phi](v[y] - others) @ theta
    return PHI[phi](v[y]) + PHI[phi](-others) @ theta


# -- constants ------------------------------------------------------------------------------------


@pytest.mark.parametrize("phi", PHI)
@pytest.mark.parametrize("lowest", [-3.0, -0.5, 0.25])
def test_slopes_and_values_of_phi_on_a_grid(phi, lowest):
    u = np.linspace(lowest, 12, 200_001)
    slope = np.abs(np.diff(PHI[phi](u)) / np.diff(u)).max()
    bound = phi_lipschitz(phi, lowest)
    # For the hinge and the ramp the constant is that of the whole line, even if it is not attained.
    assert slope <= bound * (1 + 1e-6)
    assert slope >= bound * (1 - 1e-3)
    assert phi_largest(phi, lowest) == pytest.approx(PHI[phi](u).max(), rel=1e-12)


def test_constants_of_the_whole_line():
    assert phi_lipschitz("hinge") == 1 and phi_lipschitz("ramp", ramp_rho=0.25) == 4
    assert phi_lipschitz("logistic") == 1 / math.log(2)
    for phi in ("squared_hinge", "exponential"):
        with pytest.raises(InputError, match="smallest argument"):
            phi_lipschitz(phi)
    with pytest.raises(InputError, match="one of hinge"):
        phi_lipschitz("hing")
    with pytest.raises(InputError, match="ramp_rho: found -1"):
        phi_largest("ramp", 0.0, ramp_rho=-1.0)


def test_the_exponential_of_large_scores_is_infinite():
    for lowest, found in ((-709.0, math.exp(709)), (-800.0, math.inf)):
        assert phi_lipschitz("exponential", lowest) == found
        assert phi_largest("exponential", lowest) == found


bounded = arrays(np.float64, K, elements=st.floats(-1.5, 1.5))


@properties
@given(
    st.sampled_from(["powl", "bowl"]),
    st.sampled_from(sorted(PHI)),
    bounded,
    bounded,
    st.integers(0, K - 1),
    arrays(np.float64, K - 1, elements=st.floats(0, 2)),
)
def test_lemma_7_on_a_bounded_range_for_every_phi(kind, phi, u, v, y, theta):
    lowest = -3.0 if kind == "powl" else -1.5
    found = lemma_7(
        kind,
        theta.sum(),
        np.linalg.norm(theta),
        phi_lipschitz(phi, lowest),
        phi_largest(phi, lowest),
    )
    a, b = owl(kind, phi, u, y, theta), owl(kind, phi, v, y, theta)
    assert abs(a - b) <= found.l2 * np.linalg.norm(u - v) + found.own * abs(u[y] - v[y]) + 1e-9
    assert abs(a - b) <= found.linf * np.abs(u - v).max() + 1e-9
    assert 0 <= a <= found.largest + 1e-9


def test_the_range_of_a_bowl_is_more_than_the_printed_one():
    v = np.array([-1.0, 1.0, 1.0])
    assert owl("bowl", "hinge", v, 0, np.array([1.0, 0.0])) == 4.0
    assert lemma_7("bowl", 1, 1, 1, phi_largest("hinge", -1)).largest == 4.0
    assert 1 * phi_largest("hinge", -1) == 2.0  # ||theta||_1 Phi


@properties
@given(st.integers(2, 40), st.data())
def test_l1_norms_are_those_of_theta(num_labels, data):
    sampled = data.draw(st.integers(1, num_labels - 1))
    k = data.draw(st.integers(1, sampled))
    scale = dict(scale="surrogate", sampled=sampled, num_labels=num_labels, retrieval_k=k)
    found = sampling_l1_norms(sampled, k, num_labels)
    mining = theta_from_vartheta(top(k, **scale), sampled, num_labels)
    flat = negative_sampling(sampled, **{n: v for n, v in scale.items() if n != "sampled"})
    assert mining.sum() == pytest.approx(found.mining)
    assert theta_from_vartheta(flat, sampled, num_labels).sum() == pytest.approx(
        found.negative_sampling
    )
    assert found.ratio == pytest.approx(sampled / k)


def test_l1_norms_at_three_million_labels():
    num_labels, sampled, k = 3_000_000, 32_768, 16
    weights = top(k, scale="surrogate", sampled=sampled, num_labels=num_labels, retrieval_k=k)
    l1, l2 = theta_norms(weights, sampled, num_labels)
    assert l1 == pytest.approx(sampling_l1_norms(sampled, k, num_labels).mining, rel=1e-9)
    assert l2 <= math.sqrt((num_labels - 1) / (k * sampled))


# -- Theorems 5 and 6 -----------------------------------------------------------------------------


def test_theorem_5_by_hand():
    """K = 4, n = 50, G_S = 0.1, completion 0.05, R = 0.2, L = 2, ||th||_1 = 3, ||th||_2 = 1.5."""
    of_class = Complexity(0.1, 0.05, 0.2)
    tail = 3 * math.sqrt(math.log(2 / 0.1) / 100)
    p = theorem_5(lemma_7("powl", 3, 1.5, 2, 5), of_class, 50, 4, 0.1)
    assert p.gaussian == pytest.approx(2 * (1.5 * 4 * 0.05 + 3 * 0.1))
    assert p.rademacher == pytest.approx(2 * 2 * 3 * 2 * 0.2)
    assert p.confidence == pytest.approx(3 * 5 * tail)
    b = theorem_5(lemma_7("bowl", 3, 1.5, 2, 5), of_class, 50, 4, 0.1)
    assert b.gaussian == pytest.approx(2 * (1.5 * 4 * 0.05 + 0.1))
    assert b.rademacher == pytest.approx(2 * 4 * 2 * 0.2)
    assert b.confidence == pytest.approx((3 + 1) * 5 * tail)
    assert b.unit_factors == pytest.approx(b.gaussian + b.confidence)
    assert b.proved == pytest.approx(2 * math.sqrt(math.pi) * b.gaussian + b.confidence)


def test_theorem_6_by_hand():
    found = theorem_6([-1, 0.2, 0.4, 3.0], 0.4, Complexity(0.01, 0.002, 0.003), 4, 100, 0.05)
    assert found.empirical == 0.75
    assert found.bound.gaussian == pytest.approx((100 * 0.002 + 0.01) / 0.4)
    assert found.bound.rademacher == pytest.approx(2 / 0.4 * 10 * 0.003)
    assert found.bound.confidence == pytest.approx(3 * math.sqrt(math.log(40) / 8))
    assert found.unit_factors == pytest.approx(0.75 + 0.15 + found.bound.confidence)
    with pytest.raises(InputError, match="rho"):
        theorem_6([0.0], 0.0, Complexity(0, 0, 0), 1, 2)


def test_examples_needed_brings_the_bound_to_the_target():
    n = examples_needed(0.3, 5.0, 1000, 0.9)
    assert 0.3 + 5.0 * math.sqrt(1000 / n) == pytest.approx(0.9)
    assert examples_needed(1.0, 5.0, 1000) == math.inf


def finite_class(rng, functions, n):
    """A finite class of score functions on n points, as [H, n, K]; the labels; the loss' theta."""
    return rng.uniform(-1, 1, (functions, n, K)), rng.integers(0, K, n)


@pytest.mark.parametrize("kind", ["powl", "bowl"])
def test_the_gaussian_branch_bounds_the_complexity_of_the_loss_class(kind):
    """R_S(l o H) <= sqrt(pi) (l2 K G + own G_S), the inequality behind `proved`."""
    rng = np.random.default_rng(0)
    theta = np.array([1.0, 0.5, 0.2, 0.0, 0.0])
    constants = lemma_7(kind, theta.sum(), np.linalg.norm(theta), 1.0, 3.0)
    for functions, n in ((2, 5), (30, 8), (200, 20)):
        scores, y = finite_class(rng, functions, n)
        losses = np.array(
            [[owl(kind, "hinge", s[i], y[i], theta) for i in range(n)] for s in scores]
        )
        own = scores[:, np.arange(n), y]
        draws = 4000
        sigma, g = rng.choice([-1, 1], (draws, n)), rng.standard_normal((draws, n))
        wide = rng.standard_normal((draws, n * K))
        left = (sigma @ losses.T).max(axis=1).mean() / n
        g_s = (g @ own.T).max(axis=1).mean() / n
        g_all = (wide @ scores.reshape(functions, -1).T).max(axis=1).mean() / (n * K)
        right = math.sqrt(math.pi) * (constants.l2 * K * g_all + constants.own * g_s)
        assert left <= right * 1.02
        assert 2 * math.sqrt(math.pi) == GAUSSIAN_FACTOR


# -- variance -------------------------------------------------------------------------------------


@properties
@given(
    arrays(np.float64, 7, elements=st.floats(-1, 1)),
    st.integers(1, 6),
    st.sampled_from([0.0, 0.7, 2.0]),
    st.sampled_from(["powl", "bowl"]),
    st.sampled_from(["hinge", "logistic", "squared_hinge"]),
    st.data(),
)
def test_variances_by_all_samples(v, sampled, alpha, kind, phi, data):
    """Every B-subset of the six negatives of label 0."""
    mined = data.draw(st.integers(1, sampled))
    weights = power_law(mined, alpha)
    values, gradients = [], []
    for subset in itertools.combinations(range(1, 7), sampled):
        order = sorted(subset, key=lambda j: -v[j])[:mined]
        arguments = v[0] - v[order] if kind == "powl" else -v[order]
        slopes = {
            "hinge": -(arguments < 1).astype(float),
            "logistic": -1 / (1 + np.exp(arguments)) / math.log(2),
            "squared_hinge": -2 * np.maximum(1 - arguments, 0),
        }[phi]
        values.append(PHI[phi](arguments) @ weights)
        gradient = np.zeros(7)
        gradient[order] = -weights * slopes
        gradient[0] = weights @ slopes if kind == "powl" else 0.0
        gradients.append(gradient)
    every = PHI[phi](v[0] - v[1:] if kind == "powl" else -v[1:])
    bound = value_variance_bound(
        weights, sampled, 7, np.ptp(every), mean=np.mean(values), largest=every.max()
    )
    assert np.var(values) <= bound + 1e-12
    assert np.var(values) <= value_variance_bound(weights, sampled, 7, np.ptp(every)) + 1e-12
    slope = phi_lipschitz(phi, -2.0 if kind == "powl" else -1.0)
    trace = np.var(gradients, axis=0).sum()
    assert trace <= gradient_variance_bound(weights, sampled, 7, slope, kind) + 1e-12
    # The hinge is linear if no margin is above 1.
    distinct = len(set(v[1:])) == 6
    if phi == "hinge" and kind == "bowl" and distinct and (v[1:] > -1).all():
        exact = linear_gradient_variance(weights, sampled, 7)
        assert trace == pytest.approx(exact, abs=1e-12)

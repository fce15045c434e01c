"""Retrieval and calibration: Lemma 1, condition (3) of Theorem 4, Definition 2 by minimization."""

import itertools
import math
import time
from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from snm.errors import InputError
from snm.losses.rank_weights import top
from snm.losses.surrogates import SURROGATES, Phi
from snm.losses.theta import theta_from_vartheta
from snm.theory.calibration import condition_3, recommended_theta, relevant_labels, smallest_m
from snm.theory.calibration_gap import calibration_gap
from snm.theory.retrieval import (
    bayes_compatible,
    bayes_predictor,
    margin_risk,
    margins,
    retrieval_risk,
)

properties = settings(max_examples=80, deadline=None, derandomize=True)
K = 6
# Probabilities are multiples of 1/60, so that fractions are exact and ties are common.
counts = st.lists(st.integers(0, 12), min_size=K, max_size=K).filter(lambda c: sum(c) > 0)
scores = arrays(np.float64, K, elements=st.integers(-4, 4).map(lambda i: i / 4))


def distribution(c):
    return np.array(c) / sum(c)


@properties
@given(counts, st.integers(1, K - 1))
def test_lemma_1_the_bayes_predictor_has_minimum_risk(c, k):
    d = distribution(c)
    best = retrieval_risk(bayes_predictor(d, k)[None], d[None])
    every = [retrieval_risk([s], d[None]) for s in itertools.combinations(range(K), k)]
    assert best == pytest.approx(min(every), abs=1e-12)


def test_the_risk_is_a_mean_over_inputs():
    d = [[0.5, 0.25, 0.25], [0.125, 0.125, 0.75]]
    assert retrieval_risk([[0], [0]], d) == (0.5 + 0.875) / 2
    assert retrieval_risk([[0], [0]], d, weights=[3, 1]) == (3 * 0.5 + 0.875) / 4
    with pytest.raises(InputError, match="found labels 0 to 3, expected 0 to 2"):
        retrieval_risk([[0], [3]], d)


@properties
@given(scores, counts, st.integers(1, K - 1))
def test_bayes_compatible_means_a_best_set_without_ties(v, c, k):
    """Breaks ties both ways: the set must be the same, and have minimum risk."""
    d = distribution(c)
    sets = set()
    for p in ([*range(K)], [*range(K - 1, -1, -1)]):
        sets.add(frozenset(np.array(p)[np.argsort(-v[p], kind="stable")[:k]].tolist()))
    best = np.sort(d)[::-1][:k].sum()
    expected = len(sets) == 1 and d[list(next(iter(sets)))].sum() >= best - 1e-12
    assert bayes_compatible(v, d, k) == expected


@properties
@given(scores, st.integers(0, K - 1), st.integers(1, K - 1))
def test_margins_by_definition(v, y, k):
    others = np.sort(np.delete(v, y))[::-1]
    expected = v[y] - others[k - 1]
    assert margins(v[None], [y], k)[0] == expected
    # Above 0 exactly if y is in Top_k and no tie at rank k makes that ambiguous.
    assert (expected > 0) == ((others >= v[y]).sum() < k)


def test_the_margin_risk_counts():
    values = np.array([0.5, -1.0, 2.0, 0.0])
    assert margin_risk(values, [-2, -1, 0, 0.5, 2]).tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert margin_risk(values, 0.0, weights=[1, 0, 0, 3]) == 0.75


# -- condition (3) --------------------------------------------------------------------------------


def slack_at(c, theta, k, last, m):
    """By how much the left side of (3) is larger, multiplied out, in exact fractions."""
    d = sorted((Fraction(x, sum(c)) for x in c), reverse=True)
    t = [0, *theta, *[0] * (len(c) - len(theta))]  # t[1..K], theta_K = 0
    rank = range(k + 1, m + 1) if m < len(c) or last == "printed" else range(k, m)
    return d[k - 1] * k * sum(t[j] for j in rank) - sum(d[k:m])


def first_failure(c, theta, k, last="proof"):
    """The first m at which (3) does not hold; None if it does."""
    ranked = sorted(c, reverse=True)
    for m in range(k + 1, len(c) + 1):
        zero_over_zero = ranked[k] == 0 < ranked[k - 1]  # then nothing else is required
        if not zero_over_zero and slack_at(c, theta, k, last, m) <= 0:
            return m
    return None


@properties
@given(
    counts,
    st.integers(1, K - 1),
    st.lists(st.integers(0, 8), min_size=K - 1, max_size=K - 1),
    st.sampled_from(["proof", "printed"]),
)
def test_condition_3_against_exact_fractions(c, k, eighths, last):
    tail = sorted(eighths, reverse=True)
    theta = [Fraction(1, k) if j < k else Fraction(tail[j], 8 * k) for j in range(K - 1)]
    found = condition_3(distribution(c), [float(t) for t in theta], k, last=last)
    expected = first_failure(c, theta, k, last)
    # If both sides are exactly equal, the slack is 0 and rounding may decide.
    if found.first_failure != expected:
        m = min(x for x in (found.first_failure, expected) if x is not None)
        assert abs(slack_at(c, theta, k, last, m)) == 0
    assert found.theta_fits


@properties
@given(counts, st.integers(1, K - 1))
def test_uniform_weights_always_meet_the_condition_of_the_proof(c, k):
    d = np.sort(distribution(c))[::-1]
    if d[k - 1] > d[k] * (1 + 1e-9):
        assert condition_3(d, np.full(K - 1, 1 / k), k).calibrated


def test_at_m_equal_to_k_the_printed_sum_contradicts_the_text():
    """The paper says that theta_j = 1/k always satisfies (3). With theta_K = 0 it does not."""
    d = np.array([0.175, 0.170, 0.165, 0.165, 0.1625, 0.1625])
    theta = np.full(5, 0.5)
    printed = condition_3(d, theta, 2, last="printed")
    assert printed.first_failure == 6 and printed.right == pytest.approx(0.655 / 3)
    assert condition_3(d, theta, 2).calibrated
    # Minimization shows that the loss is calibrated there, for every phi.
    for kind in ("powl", "bowl"):
        for phi in ("logistic", "squared_hinge", "exponential"):
            assert calibration_gap(d, theta, 2, phi=phi, kind=kind).calibrated


def test_theta_that_violates_theorem_4_is_reported():
    d = [0.5, 0.3, 0.2]
    assert not condition_3(d, [0.5, 0.5], 1).theta_fits
    assert not condition_3(d, [1.0, 1.5], 1).theta_fits
    with pytest.raises(InputError, match="at most"):
        condition_3(d, [1, 1, 1], 1)
    with pytest.raises(InputError, match="add up to"):
        condition_3([0.5, 0.3], [1.0], 1)


@pytest.mark.parametrize(
    "of",
    [
        lambda d: condition_3(d, [1.0], 1),
        relevant_labels,
        lambda d: smallest_m(d, 1),
        lambda d: calibration_gap(d, [1.0], 1),
    ],
)
def test_several_distributions_at_once_are_refused(of):
    with pytest.raises(InputError, match=r"found shape \(2, 3\), expected one distribution"):
        of([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])


def test_smallest_m_where_a_quotient_is_a_whole_number():
    """0.2 + 0.2 ... over 0.2 may be rounded to just below; theta of one label less is too light."""
    d = np.array([5, 5, 5, 4, 4, 1, 1, 0]) / 25
    assert not condition_3(d, recommended_theta(8, 3, 5), 3).holds
    assert condition_3(d, recommended_theta(8, 3, 6), 3).holds
    assert smallest_m(d, 3) == 6


@properties
@given(counts, st.integers(1, K - 1))
def test_smallest_m_by_trying_every_m(c, k):
    d = distribution(c)
    ranked = np.sort(d)[::-1]
    tried = [m for m in range(k, K) if condition_3(d, recommended_theta(K, k, m), k).holds]
    if ranked[k - 1] > ranked[k]:
        assert tried and smallest_m(d, k) == tried[0]
        assert tried == list(range(tried[0], K))  # more weight never hurts
    else:
        assert smallest_m(d, k) is None


@properties
@given(counts, st.integers(1, K - 1))
def test_recommended_theta_meets_condition_3(c, k):
    d = distribution(c)
    ranked = np.sort(d)[::-1]
    most = relevant_labels(d)
    assert most == sum(x > 0 for x in c)
    if ranked[k - 1] > ranked[k]:
        assert condition_3(d, recommended_theta(K, k, most), k).calibrated


def test_relevant_labels_with_a_tail():
    d = np.array([0.4, 0.3, 0.2, 0.06, 0.04])
    masses = [d[m:].sum() for m in range(6)]
    for epsilon in (0.05, 0.1001, 0.3001, 1.0):
        assert relevant_labels(d, epsilon) == max(
            1, min(m for m in range(6) if masses[m] < epsilon)
        )


def test_three_million_labels():
    """One label is three times as probable as each of the others, so all sums are known."""
    num_labels = 3_000_000
    d = np.full(num_labels, 1 / (num_labels + 2))
    d[17] = 3 / (num_labels + 2)
    started = time.perf_counter()
    found = condition_3(d, np.ones(num_labels - 1), 1)
    assert found.calibrated and found.right == pytest.approx(1 / (num_labels + 2), rel=1e-9)
    assert smallest_m(d, 1) == 1_000_001  # M - 1 > (K - 2) / 3 = 999,999.3
    assert condition_3(d, recommended_theta(num_labels, 1, 1_000_001), 1).holds
    # One rank less: 3 * 999,999 units against m - 1 of them.
    less = condition_3(d, recommended_theta(num_labels, 1, 1_000_000), 1)
    assert not less.holds and abs(less.first_failure - 2_999_998) <= 1
    assert time.perf_counter() - started < 20


def snm_theta(sampled, k, num_labels):
    """theta of top-k SNM on the surrogate scale, in fractions: weights (K - 1) / (k B)."""
    others = num_labels - 1
    weight = Fraction(others, k * sampled)
    return [
        weight * sum(
            Fraction(math.comb(j, r) * math.comb(others - 1 - j, sampled - 1 - r),
                     math.comb(others, sampled))
            for r in range(min(j, k - 1) + 1) if sampled - 1 - r >= 0
        )
        for j in range(others)
    ]  # fmt: skip


def test_of_the_heavy_tail_only_the_smallest_sample_is_calibrated():
    """The example of `experiments.theory.calibration`, K 12 and k 2, by fractions.

    At B = 4 and m = 9 the sides of condition (3) are equal; in float64 they differed by a rounding.
    """
    heavy, k, failures = [16, 14, *[7] * 10], 2, {}  # in hundredths
    for sampled in (2, 4, 8, 11):
        theta = snm_theta(sampled, k, 12)
        assert theta[:2] == [Fraction(1, 2)] * 2  # 1/k up to k
        failures[sampled] = first_failure(heavy, theta, k)
        # As the library computes theta, to within 1e-14.
        weights = top(k, scale="surrogate", sampled=sampled, num_labels=12, retrieval_k=k)
        for of_theta in ([float(one) for one in theta], theta_from_vartheta(weights, sampled, 12)):
            found = condition_3(distribution(heavy), of_theta, k)
            assert found.first_failure == failures[sampled]
    assert failures == {2: None, 4: 9, 8: 4, 11: 3}


# -- Definition 2 ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["powl", "bowl"])
@pytest.mark.parametrize("phi", ["logistic", "squared_hinge", "exponential"])
def test_theorem_4_on_random_distributions(kind, phi):
    """If (3) holds, the loss is calibrated and its minimizer predicts b(x)."""
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(12):
        k = int(rng.integers(1, 4))
        d = rng.dirichlet(np.full(K, rng.choice([0.3, 1.0, 5.0]))) + 1e-3
        d /= d.sum()
        tail = np.sort(rng.uniform(0.02, 1, K - 1 - k))[::-1]
        theta = np.concatenate([np.ones(k), tail]) / k
        if not condition_3(d, theta, k).calibrated:
            continue
        held += 1
        found = calibration_gap(d, theta, k, phi=phi, kind=kind)
        assert found.calibrated
        assert bayes_compatible(found.scores, d, k)
        # No random score vector near the minimizer has a smaller loss.
        v = found.scores + rng.normal(size=(200, K)) * rng.choice([0.01, 0.3, 2.0], (200, 1))
        assert risk(v, d, theta, kind, phi).min() >= found.free - 1e-12
        at = risk(found.scores[None], d, theta, kind, phi)[0]
        assert at == pytest.approx(found.free, abs=1e-12)
    assert held >= 5


PHI = {
    "logistic": lambda u: np.log2(1 + np.exp(-u)),
    "squared_hinge": lambda u: np.maximum(1 - u, 0) ** 2,
    "exponential": lambda u: np.exp(-u),
}


def risk(v, d, theta, kind, phi):
    """Psi of score vectors [n, K], by the definitions of POWL and BOWL."""
    total = np.zeros(len(v))
    for y in range(v.shape[1]):
        others = -np.sort(-np.delete(v, y, axis=1), axis=1)
        own = v[:, [y]]
        if kind == "powl":
            total += d[y] * (PHI[phi](own - others) @ theta)
        else:
            total += d[y] * (PHI[phi](own[:, 0]) + PHI[phi](-others) @ theta)
    return total


@pytest.mark.parametrize("kind", ["powl", "bowl"])
@pytest.mark.parametrize("phi", ["logistic", "squared_hinge", "exponential"])
def test_the_top_1_loss_with_a_heavy_tail_is_not_calibrated(kind, phi):
    """0.3 against four of 0.175: equal scores are a minimum of the top-1 loss."""
    d = np.array([0.3, 0.175, 0.175, 0.175, 0.175])
    assert condition_3(d, [1.0], 1).first_failure == 2
    found = calibration_gap(d, [1.0], 1, phi=phi, kind=kind)
    assert not found.calibrated and found.gap < 1e-12
    # The smallest M of the closed form is the first at which minimization finds calibration.
    assert smallest_m(d, 1) == 3
    for most in (2, 3, 4):
        gap = calibration_gap(d, recommended_theta(5, 1, most), 1, phi=phi, kind=kind)
        assert gap.calibrated == (most >= 3)


def test_the_tied_minimum_is_the_infimum_over_wrong_answers():
    """Random incompatible score vectors never fall below it, and some come close."""
    d = np.array([0.4, 0.3, 0.2, 0.1])
    theta = np.array([0.5, 0.5, 0.25])
    found = calibration_gap(d, theta, 2)
    rng = np.random.default_rng(1)
    v = found.scores + rng.normal(size=(40_000, 4)) * 0.3
    v = v[~bayes_compatible(v, d, 2)]
    psi = risk(v, d, theta, "powl", "logistic")
    assert found.tied - 1e-12 <= psi.min() <= found.tied + 2e-3
    with pytest.raises(InputError, match="above the one before"):
        calibration_gap(d, [0.5, 0.5, 0.6], 2)


def smooth_hinge(u):
    """Slope -2 for u < 0, where phi is linear, and 0 from 1 on."""
    return jnp.where(u > 0, jnp.square(jnp.maximum(1 - u, 0)), 1 - 2 * u)


@pytest.mark.parametrize("named", [False, True])
def test_the_gap_of_a_surrogate_of_ones_own(monkeypatch, named):
    monkeypatch.setitem(SURROGATES, "smooth_hinge", Phi(smooth_hinge))
    phi = "smooth_hinge" if named else smooth_hinge
    d = [0.3, 0.175, 0.175, 0.175, 0.175]
    # Top-1 weights fail condition (3) here; equal weights up to rank 3 satisfy it.
    assert not calibration_gap(d, [1.0], 1, phi=phi).calibrated
    assert calibration_gap(d, recommended_theta(5, 1, 3), 1, phi=phi).calibrated


@pytest.mark.parametrize(
    "phi, found",
    [
        ("hinge", "a kink"),
        ("ramp", "a slope that falls"),
        (lambda u: jnp.maximum(jnp.exp(-u), 2 - u), "a kink"),
        (lambda u: jnp.exp(-u) + 0.03 * jnp.maximum(1 - u, 0), "a kink"),
        (lambda u: jnp.square(jnp.maximum(1 - u, 0)) + 0.1 * jnp.maximum(-u, 0), "a kink"),
        (lambda u: jnp.square(1 - u), "a slope above 0"),
        (jnp.log, "a slope that is not finite"),
        ("own", "'own'"),
    ],
)
def test_surrogates_that_the_minimization_is_not_valid_for(phi, found):
    with pytest.raises(InputError, match=f"phi.*: found {found}, expected"):
        calibration_gap([0.5, 0.3, 0.2], [1.0], 1, phi=phi)

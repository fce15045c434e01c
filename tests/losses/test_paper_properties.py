"""What the paper proves, as properties of the code: Lemma 2, Theorems 2 and 3, Lemmas 7 and 8."""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from snm.losses import ordered as losses
from snm.losses.rank_weights import power_law, top
from snm.losses.softmax import sampled_softmax, softmax
from snm.losses.surrogates import SURROGATES, ramp
from snm.losses.theta import theta_from_vartheta

pytestmark = pytest.mark.usefixtures("in_float64")

K, B = 7, 3
SUBSETS = np.array(list(itertools.combinations(range(1, K), B)))  # of the labels other than 0
FULL = {"powl": losses.powl, "bowl": losses.bowl}
SAMPLED = {"powl": losses.sampled_powl, "bowl": losses.sampled_bowl}
CONVEX = [name for name in SURROGATES if name != "ramp"]

# The same examples at every run, and no time limit: the first one compiles.
properties = settings(max_examples=60, deadline=None, derandomize=True)
score_vectors = arrays(np.float64, K, elements=st.floats(-3, 3))
tied_vectors = arrays(np.float64, K, elements=st.integers(-4, 4).map(lambda i: i / 4))
kinds = st.sampled_from(sorted(FULL))
convex = st.sampled_from(CONVEX)


@st.composite
def non_increasing(draw):
    """Weights for the K - 1 ranks; zeros at the end are common."""
    return np.sort(draw(arrays(np.float64, K - 1, elements=st.sampled_from([0, 0.1, 0.5, 1, 2]))))[
        ::-1
    ].copy()


@functools.cache
def full_loss(kind, phi):
    """Jitted (scores, theta) -> loss of label 0."""
    return jax.jit(lambda v, theta: FULL[kind](v, 0, theta=theta, phi=SURROGATES[phi]))


@pytest.mark.parametrize("phi", SURROGATES)
def test_a_surrogate_is_one_and_all_but_the_ramp_are_convex(phi):
    """On a grid with steps of 1/64, so that their middles are on it, too."""
    margins = np.arange(-256, 257) / 64
    values = np.asarray(SURROGATES[phi](jnp.asarray(margins)))
    assert (np.diff(values) <= 0).all() and (values[margins <= 0] >= 1).all()
    middle_below_chord = 2 * values[1:-1] <= values[:-2] + values[2:] + 1e-12 * values[:-2]
    assert middle_below_chord.all() == (phi in CONVEX)


@pytest.mark.parametrize("kind", FULL)
@pytest.mark.parametrize("phi", SURROGATES)
def test_algorithm_1_is_unbiased_in_value_and_gradient(kind, phi):
    """The mean over all C(K-1, B) samples is the full loss with theta from vartheta (Lemma 2)."""

    def sampled(scores, vartheta):
        """Uniform over the subsets, so that their mean is the expectation."""
        return SAMPLED[kind](
            jnp.broadcast_to(scores[0], len(SUBSETS)),
            scores[SUBSETS],
            vartheta=vartheta,
            phi=SURROGATES[phi],
        )

    mean_of_samples = jax.jit(jax.value_and_grad(sampled))
    full = jax.jit(jax.value_and_grad(full_loss(kind, phi)))
    rng = np.random.default_rng(5)
    for vartheta in (top(1), top(2), top(B), power_law(B, 1.3)):
        theta = theta_from_vartheta(vartheta, B, K)
        padded = np.pad(vartheta, (0, B - vartheta.size))
        for _ in range(3):
            scores = rng.normal(size=K)
            value, gradient = mean_of_samples(scores, padded)
            expected, expected_gradient = full(scores, theta)
            np.testing.assert_allclose(value, expected, rtol=1e-12)
            np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-12, atol=1e-14)
        # With ties the gradient is one of many; the value is still the same.
        tied = rng.integers(-1, 2, size=K) / 2
        np.testing.assert_allclose(
            mean_of_samples(tied, padded)[0], full(tied, theta)[0], rtol=1e-12
        )


@properties
@given(kinds, convex, score_vectors, score_vectors, st.floats(0, 1), non_increasing())
def test_theorem_2_convexity(kind, phi, u, v, share, theta):
    loss = full_loss(kind, phi)
    between = loss(share * u + (1 - share) * v, theta)
    above = share * loss(u, theta) + (1 - share) * loss(v, theta)
    assert between <= above + 1e-9 * (1 + abs(above))


def test_theorem_2_needs_non_increasing_weights():
    # All the weight on the easier of two negatives: the loss is 1 - min(v_1, v_2), not convex.
    def loss(a, b):
        return float(losses.powl(jnp.array([0.0, a, b]), 0, theta=[0.0, 1.0]))

    assert loss(0.5, 0.5) > (loss(1.0, 0.0) + loss(0.0, 1.0)) / 2


@properties
@given(kinds, convex, tied_vectors, st.integers(1, K - 1), score_vectors)
def test_theorem_3_surrogate(kind, phi, v, k, rest):
    """At least I(y not in Top_k), twice that for BOWL; ties count as not in the top."""
    theta = np.where(np.arange(K - 1) < k, 1 / k, np.abs(rest[: K - 1]))
    missed = float(np.sum(v[1:] >= v[0]) >= k)
    factor = 2 if kind == "bowl" else 1
    assert full_loss(kind, phi)(v, theta) >= factor * missed - 1e-12


def test_theorem_3_needs_a_convex_phi_for_the_factor_two():
    steep = functools.partial(ramp, rho=0.1)
    scores = jnp.array([0.5, 0.6])
    assert float(losses.bowl(scores, 0, theta=[1.0], phi=steep)) == 1.0  # not 2
    assert float(losses.powl(scores, 0, theta=[1.0], phi=steep)) == 1.0  # still a surrogate
    assert float(losses.bowl(scores, 0, theta=[1.0])) == pytest.approx(2.1)


def test_the_mean_scale_does_not_bound_and_the_surrogate_scale_does():
    # One label above the positive, found in 2 of 10 samples: 0.2 * (1 + 0.5), and the hinge of
    # the others is zero. The retrieval loss at k = 1 is 1.
    scores = jnp.array([0.0, 0.5, *[-9.0] * 9])
    mean = theta_from_vartheta(top(1), 2, 11)
    assert float(losses.powl(scores, 0, theta=mean)) == pytest.approx(0.3)
    scaled = top(1, scale="surrogate", sampled=2, num_labels=11, retrieval_k=1)
    theta = theta_from_vartheta(scaled, 2, 11)
    assert float(losses.powl(scores, 0, theta=theta)) == pytest.approx(1.5)


@properties
@given(kinds, convex, tied_vectors, st.integers(1, K - 1), st.data())
def test_weights_that_fall_off_bound_the_retrieval_loss_too(kind, phi, v, k, data):
    """Their first k theta add up to no less than those of equal weights do, which is 1."""
    sampled = data.draw(st.integers(k, K - 1))
    sizes = dict(sampled=sampled, num_labels=K, retrieval_k=k)
    mined, alpha = data.draw(st.integers(k, sampled)), data.draw(st.floats(0, 4))
    vartheta = power_law(mined, alpha, scale="surrogate", **sizes)
    theta = theta_from_vartheta(vartheta, sampled, K)
    missed = float(np.sum(v[1:] >= v[0]) >= k)
    factor = 2 if kind == "bowl" else 1
    assert full_loss(kind, phi)(v, theta) >= factor * missed - 1e-12


def test_the_mean_scale_bounds_at_k_mined_if_all_labels_are_sampled():
    theta = theta_from_vartheta(top(3), K - 1, K)
    np.testing.assert_allclose(theta, np.where(np.arange(K - 1) < 3, 1 / 3, 0))


def loss_of_a_miss(mined, k, num_labels=20, sampled=10):
    """The POWL of scores that just miss at k: k labels as high as the positive, others far below.

    The hinge of two equal scores is 1.
    """
    weights = top(mined, scale="surrogate", sampled=sampled, num_labels=num_labels, retrieval_k=k)
    scores = jnp.array([0.0, *[0.0] * k, *[-9.0] * (num_labels - 1 - k)])
    return float(losses.powl(scores, 0, theta=theta_from_vartheta(weights, sampled, num_labels)))


def test_the_surrogate_scale_needs_as_many_mined_as_k():
    for k in (1, 3, 5):
        assert loss_of_a_miss(k, k) == pytest.approx(1)
        assert loss_of_a_miss(10, k) == pytest.approx(1)
    # What `resolve` refuses. By hand: (K - 1) / (k B) times the probability that one of the 5 is
    # among the 10 of 19 sampled.
    one_is_drawn = 1 - math.comb(14, 10) / math.comb(19, 10)
    assert loss_of_a_miss(1, 5) == pytest.approx(19 / 50 * one_is_drawn)  # 0.376


@properties
@given(kinds, st.sampled_from(["hinge", "ramp"]), score_vectors, score_vectors, non_increasing())
def test_lemma_7_lipschitz(kind, phi, u, v, theta):
    """With surrogates whose slope is at most 1."""
    difference = abs(full_loss(kind, phi)(u, theta) - full_loss(kind, phi)(v, theta))
    one, two = theta.sum(), np.linalg.norm(theta)
    widest, euclidean = np.abs(u - v).max(), np.linalg.norm(u - v)
    if kind == "powl":
        bounds = (2 * one * widest, two * euclidean + one * abs(u[0] - v[0]))
    else:
        bounds = ((one + 1) * widest, two * euclidean + abs(u[0] - v[0]))
    assert difference <= min(bounds) + 1e-9


def test_a_sampled_softmax_is_biased_downwards():
    """Weighed by (K - 1) / B, the sample's mean loss is below the full one (Jensen)."""

    @jax.jit
    def both(scores):
        mean = sampled_softmax(
            jnp.broadcast_to(scores[0], len(SUBSETS)),
            scores[SUBSETS],
            log_weights=np.full(B, np.log((K - 1) / B)),
        )
        return mean, softmax(scores, 0)

    mean, full = both(np.random.default_rng(1).normal(size=K))
    assert mean < full - 1e-3

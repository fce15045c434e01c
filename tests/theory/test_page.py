"""What `docs/theory.md` says of its examples, by arithmetic."""

import math
from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from snm.losses.listwise import ranksvm
from snm.losses.ordered import powl
from snm.losses.rank_weights import top
from snm.losses.sampled import LossOptions, SampleSizes
from snm.losses.sampled.ranks import RankWeights
from snm.losses.theta import theta_from_vartheta
from snm.theory.auc import corollary_1, empirical_auc, rank_shatter_bound
from snm.theory.calibration import condition_3, recommended_theta, smallest_m
from snm.theory.constants import sampling_l1_norms

# One label of probability 0.3, and four that share the rest.
FIVE = [Fraction(3, 10), *[Fraction(7, 40)] * 4]


def first_failure(most):
    """Condition (3) at k = 1 for weights of 1 up to rank M, in fractions.

    At m = K, theta runs from k to K - 1, as the proof has it.
    """
    theta = [1] * most + [0] * (4 - most)
    for m in range(2, 6):
        weights = theta[1:m] if m < 5 else theta[:4]
        if not FIVE[0] * sum(weights) > sum(FIVE[1:m]):
            return m
    return None


def test_the_example_of_a_calibrated_loss():
    assert [first_failure(most) for most in (1, 2, 3, 4)] == [2, 3, None, None]
    distribution = [float(p) for p in FIVE]
    assert condition_3(distribution, [1.0], 1).first_failure == 2
    assert smallest_m(distribution, 1) == 3
    for most in (1, 2, 3, 4):
        found = condition_3(distribution, recommended_theta(5, 1, most), 1)
        assert found.holds == (most >= 3)


def test_epsilon_tail_weighs_every_sampled_rank():
    sizes = SampleSizes(num_labels=20, sampled=8, mined=3)
    weights = RankWeights(LossOptions(vartheta="epsilon-tail", tail_epsilon=0.01), sizes)
    np.testing.assert_allclose(weights.all_weights(), [1 / 3] * 3 + [0.01 / 3] * 5, rtol=1e-6)
    assert min(RankWeights(LossOptions(), sizes).all_weights()) == 0


def test_the_example_of_the_norms():
    norms = sampling_l1_norms(sampled=1024, k=5, num_labels=13_331)
    assert float(norms.mining) == pytest.approx(13_330 / 1024)
    assert float(norms.negative_sampling) == pytest.approx(13_330 / 5)


def test_the_examples_of_the_auc():
    # Positives 0.4 and 0.8, negatives 0.1 and 0.4: three pairs are right, and one is a tie.
    assert empirical_auc([0.1, 0.4, 0.4, 0.8], [False, True, False, True]) == 3.5 / 4
    # Corollary 1 with ln r <= ln sum_i 2^i C(mn, i), the sum over exact integers.
    faces = math.log(sum(2**i * math.comb(1000 * 1000, i) for i in range(11)))
    deviation = math.sqrt(8 * 1000 * (faces + math.log(4 / 0.05)) / (500 * 500))
    assert deviation > 1
    bound = corollary_1(0.05, 500, 500, rank_shatter_bound(1000, 1000, 10))
    assert bound == pytest.approx(deviation)


def test_ranksvm_is_powl_with_equal_weights():
    positive, negatives = 0.3, [0.9, -0.2, 0.4, -1.5]
    hinges = [max(0.0, 1 - (positive - one)) for one in negatives]
    scores = jnp.array([positive, *negatives])
    mean = sum(hinges) / 4
    assert float(powl(scores, 0, theta=jnp.full(4, 0.25))) == pytest.approx(mean)
    grades = jnp.array([1.0, 0, 0, 0, 0])
    assert float(ranksvm(scores, grades)) == pytest.approx(sum(hinges))


def test_the_best_sigmoid_is_at_most_twice_that_of_0():
    assert special.expit(40.0) / special.expit(0.0) == pytest.approx(2)


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
    heavy, k = [Fraction(16, 100), Fraction(14, 100), *[Fraction(7, 100)] * 10], 2
    failures = {}
    for sampled in (2, 4, 8, 11):
        theta = snm_theta(sampled, k, 12)
        assert theta[:2] == [Fraction(1, 2)] * 2  # 1/k up to k
        failures[sampled] = None
        for m in range(k + 1, 13):
            weights = theta[k:m] if m < 12 else theta[k - 1 :]
            if not heavy[k - 1] * k * sum(weights) > sum(heavy[k:m]):
                failures[sampled] = m
                break
        found = condition_3([float(p) for p in heavy], [float(one) for one in theta], k)
        assert found.first_failure == failures[sampled]
        # As the library computes theta, to within 1e-14.
        weights = top(k, scale="surrogate", sampled=sampled, num_labels=12, retrieval_k=k)
        found = condition_3([float(p) for p in heavy], theta_from_vartheta(weights, sampled, 12), k)
        assert found.first_failure == failures[sampled]
    assert failures == {2: None, 4: 9, 8: 4, 11: 3}

"""What `docs/theory.md` says of its examples, by arithmetic."""

import math
from fractions import Fraction

import pytest

from snm.losses.rank_weights import top
from snm.losses.theta import theta_from_vartheta
from snm.theory.auc import corollary_1, rank_shatter_bound
from snm.theory.calibration import condition_3


def test_the_deviation_of_the_auc():
    # Corollary 1 with ln r <= ln sum_i 2^i C(mn, i), the sum over exact integers.
    faces = math.log(sum(2**i * math.comb(1000 * 1000, i) for i in range(11)))
    deviation = math.sqrt(8 * 1000 * (faces + math.log(4 / 0.05)) / (500 * 500))
    assert deviation > 1
    bound = corollary_1(0.05, 500, 500, rank_shatter_bound(1000, 1000, 10))
    assert bound == pytest.approx(deviation)


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

"""Means, intervals and ratios over seeds, by hand."""

import numpy as np
import pytest

from snm.compare.report.summary import interval, summarize


def run(seed, value):
    return {"seed": seed, "metrics": {"R@1": value, "points": 9}}


def test_interval_by_hand():
    # Deviation of 2, 4, 9 is sqrt(13); t for 2 degrees of freedom at 97.5% is 4.302653.
    assert interval([2.0, 4.0, 9.0]) == pytest.approx(4.302653 * np.sqrt(13 / 3), rel=1e-6)
    assert interval([5.0]) is None
    assert interval([5.0, 6.0]) is None


def test_ratios_are_those_of_means_over_shared_seeds():
    arm = [run(0, 6.0), run(1, 9.0), run(2, 4.0)]
    base = [run(1, 3.0), run(0, 4.0)]  # seed 2 failed there
    found = summarize(arm, base)
    assert found["mean"] == {"R@1": pytest.approx(19 / 3)}
    # 7.5 / 3.5, not the mean of 6/4 and 9/3.
    ratio = found["ratio"]["R@1"]
    assert ratio == pytest.approx(15 / 7)
    assert found["ratio_ci95"]["R@1"] is None  # of two shared seeds
    assert found["ci95"]["R@1"] == interval([6.0, 9.0, 4.0])
    assert all(each == {} for each in summarize([], base).values())
    assert summarize([run(0, 1.0)], [run(0, 0.0)])["ratio"]["R@1"] is None
    # A baseline of 0 with one seed counts as any other.
    assert summarize([run(0, 1.0), run(1, 3.0)], [run(0, 0.0), run(1, 2.0)])["ratio"]["R@1"] == 2.0


def test_a_ratio_agrees_with_the_means():
    # R@1 of `corel5k`: the mean of the arm is the lower, the mean of the ratios is above 1.
    arm, base = [run(0, 5.98), run(1, 4.73)], [run(0, 7.25), run(1, 3.68)]
    assert summarize(arm, base)["ratio"]["R@1"] == pytest.approx((5.98 + 4.73) / (7.25 + 3.68))


def test_the_interval_of_a_ratio():
    """Its variance is quadratic in the covariances of arm and baseline: the delta method."""
    rng = np.random.default_rng(0)
    b = rng.uniform(2, 8, 5)
    a = 1.5 * b + rng.normal(0, 1, 5)
    found = summarize([run(*x) for x in enumerate(a)], [run(*x) for x in enumerate(b)])
    (aa, ab), (_, bb) = np.cov(a, b)
    ratio = a.mean() / b.mean()
    variance = (aa - 2 * ratio * ab + ratio**2 * bb) / b.mean() ** 2 / 5
    assert found["ratio"]["R@1"] == pytest.approx(ratio)
    # t for 4 degrees of freedom at 97.5% is 2.776445.
    assert found["ratio_ci95"]["R@1"] == pytest.approx(2.776445 * np.sqrt(variance), rel=1e-6)

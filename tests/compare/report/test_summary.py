"""Means, intervals and ratios over seeds, by hand."""

import numpy as np
import pytest

from snm.compare.report.summary import half_range, interval, summarize


def run(seed, value):
    return {"seed": seed, "metrics": {"R@1": value, "points": 9}}


def test_interval_by_hand():
    # Deviation of 2, 4, 9 is sqrt(13); t for 2 degrees of freedom at 97.5% is 4.302653.
    assert interval([2.0, 4.0, 9.0]) == pytest.approx(4.302653 * np.sqrt(13 / 3), rel=1e-6)
    assert interval([5.0]) is None
    assert interval([5.0, 6.0]) is None
    assert half_range([5.0, 6.0]) == 0.5 and half_range([5.0, 6.0, 7.0]) is None


def test_ratios_are_taken_seed_by_seed():
    arm = [run(0, 6.0), run(1, 9.0), run(2, 4.0)]
    base = [run(1, 3.0), run(0, 4.0)]  # seed 2 failed there
    found = summarize(arm, base)
    assert found["mean"] == {"R@1": pytest.approx(19 / 3)}
    # The mean of 6/4 and 9/3, not the quotient of the means (which would be 15/7).
    assert found["ratio"]["R@1"] == pytest.approx((1.5 + 3.0) / 2)
    # Two ratios have a range, half of which is (3 - 1.5) / 2, and no interval.
    assert found["ratio_ci95"]["R@1"] is None and found["ratio_half_range"]["R@1"] == 0.75
    assert found["ci95"]["R@1"] == interval([6.0, 9.0, 4.0]) and found["half_range"]["R@1"] is None
    assert all(each == {} for each in summarize([], base).values())
    assert summarize([run(0, 1.0)], [run(0, 0.0)])["ratio"]["R@1"] is None

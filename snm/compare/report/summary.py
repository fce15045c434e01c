"""Summarizes metrics over seeds: means, intervals, and ratios to the baseline's mean."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

__all__ = ["BY_LOSS", "interval", "is_metric", "summarize"]

BY_LOSS = {"learning_rate": "learning rate", "score_scale": "score scale"}
"""Settings with a default that depends on the loss -> their names in texts."""


def is_metric(name: str) -> bool:
    """Whether an entry of a run's `metrics` is a metric, and not a number of points."""
    return "@" in name or name == "AUC"


def interval(values: Sequence[float]) -> float | None:
    """Half the width of the 95% interval of the mean (Student's t); None of fewer than 3 values.

    Two values have one degree of freedom: the interval would be 13 times as wide as their range.

    Example:
      >>> round(interval([1.0, 2.0, 3.0]), 4)  # t(0.975, 2 degrees) = 4.3027, deviation 1
      2.4841
    """
    n = len(values)
    if n < 3:
        return None
    deviation = float(np.std(values, ddof=1))
    return float(stats.t.ppf(0.975, n - 1)) * deviation / math.sqrt(n)


def _ratio(
    values: Mapping[int, float], others: Mapping[int, float]
) -> tuple[float | None, list[float]]:
    """The ratio of the means over the seeds that both arms have; None if the second mean is 0.

    It is the ratio estimator of Cochran, Sampling Techniques (1977), chapter 6, so it agrees with
    the means if both arms have all seeds. A mean of ratios would weigh a seed more, the worse its
    baseline is.

    Args:
      values: seed -> metric of the arm, a_i.
      others: seed -> metric of the other arm, b_i.

    Returns:
      R = mean(a) / mean(b), and the residuals (a_i - R b_i) / mean(b). The mean of the residuals is
      0, and their deviation over sqrt(n) is the standard error of R.
    """
    shared = sorted(values.keys() & others.keys())
    if not shared or not any(others[seed] for seed in shared):
        return None, []
    mean = float(np.mean([others[seed] for seed in shared]))
    ratio = float(np.mean([values[seed] for seed in shared])) / mean
    return ratio, [(values[seed] - ratio * others[seed]) / mean for seed in shared]


def summarize(
    results: Sequence[Mapping[str, Any]], baseline: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Summarizes the seeds of an arm.

    Args:
      results: the successful runs of the arm, each with `seed` and `metrics` (name -> value).
      baseline: the same of the baseline arm.

    Returns:
      `mean` and `ci95` of each metric; `ratio`, the ratio of the means of arm and baseline over the
      seeds that both have, and `ratio_ci95`, paired by seed. An interval is given as half its
      width, None for fewer than three seeds.
    """
    names = [name for name in (results[0]["metrics"] if results else {}) if is_metric(name)]
    keys = ("mean", "ci95", "ratio", "ratio_ci95")
    summary: dict[str, dict[str, Any]] = {key: {} for key in keys}
    for name in names:
        values = {r["seed"]: float(r["metrics"][name]) for r in results}
        others = {r["seed"]: float(r["metrics"][name]) for r in baseline}
        by_seed = list(values.values())
        summary["mean"][name] = float(np.mean(by_seed))
        summary["ci95"][name] = interval(by_seed)
        summary["ratio"][name], residuals = _ratio(values, others)
        summary["ratio_ci95"][name] = interval(residuals)
    return summary

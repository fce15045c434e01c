"""Summarises metrics over seeds: means, intervals, and ratios to the baseline's mean."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

__all__ = [
    "BY_LOSS",
    "Spread",
    "half_range",
    "interval",
    "is_metric",
    "spread",
    "spread_over_seeds",
    "summarize",
]

BY_LOSS = {"learning_rate": "learning rate", "score_scale": "score scale"}
"""Settings with a default that depends on the loss -> their names in texts."""


_OF_INTERVAL = "half the 95% interval"
_OF_RANGE = "half the range of two seeds"
_OF_TWO_RATIOS = "half the paired difference of two seeds"


class Spread(NamedTuple):
    """The interval or range of a mean, or the spread of a ratio: from mean - half to mean + half.

    Attributes:
      half: half the width.
      words: what `half` is, such as "half the 95% interval".
    """

    half: float
    words: str


def is_metric(name: str) -> bool:
    """Whether an entry of a run's `metrics` is a metric, and not a number of points."""
    return "@" in name or name == "AUC"


def interval(values: Sequence[float]) -> float | None:
    """Half the width of the 95% interval of the mean (Student's t); None of fewer than 3 values.

    Two values have one degree of freedom: the interval would be 9 times as wide as their range.

    Example:
      >>> round(interval([1.0, 2.0, 3.0]), 4)  # t(0.975, 2 degrees) = 4.3027, deviation 1
      2.4841
    """
    n = len(values)
    if n < 3:
        return None
    deviation = float(np.std(values, ddof=1))
    return float(stats.t.ppf(0.975, n - 1)) * deviation / math.sqrt(n)


def half_range(values: Sequence[float]) -> float | None:
    """Half the distance of two values; None for any other number of values.

    Example:
      >>> half_range([1.0, 2.0])
      0.5
    """
    return abs(values[0] - values[1]) / 2 if len(values) == 2 else None


def spread(arm: Mapping[str, Any], name: str, prefix: str = "") -> Spread | None:
    """The interval or the range of a metric of an arm; None for a single seed.

    The ratio of two seeds has no range: its ends are half the distance of the residuals away from
    it, and are not the ratios of the seeds.

    Args:
      arm: a dict with the result of `summarize`.
      name: the metric.
      prefix: `ratio_` for the ratio to the baseline.
    """
    half = arm.get(f"{prefix}half_range", {}).get(name)
    return _as_spread(arm[f"{prefix}ci95"].get(name), half, _OF_TWO_RATIOS if prefix else _OF_RANGE)


def spread_over_seeds(values: Sequence[float]) -> Spread | None:
    """The interval or the range of values; None for a single value."""
    return _as_spread(interval(values), half_range(values), _OF_RANGE)


def _as_spread(ci95: float | None, half: float | None, words: str) -> Spread | None:
    """The interval if there is one, else the other half width with its words, else None."""
    if ci95 is not None:
        return Spread(ci95, _OF_INTERVAL)
    return None if half is None else Spread(half, words)


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
    """Summarises the seeds of an arm.

    Args:
      results: the successful runs of the arm, each with `seed` and `metrics` (name -> value).
      baseline: the same of the baseline arm.

    Returns:
      `mean` and `ci95` of each metric; `ratio`, the ratio of the means of arm and baseline over the
      seeds that both have, and `ratio_ci95`, paired by seed. An interval is given as half its
      width, None for fewer than three seeds; of two seeds, `half_range` and `ratio_half_range` are
      half the distance (for the ratio, of its residuals).
    """
    names = [name for name in (results[0]["metrics"] if results else {}) if is_metric(name)]
    keys = ("mean", "ci95", "half_range", "ratio", "ratio_ci95", "ratio_half_range")
    summary: dict[str, dict[str, Any]] = {key: {} for key in keys}
    for name in names:
        values = {r["seed"]: float(r["metrics"][name]) for r in results}
        others = {r["seed"]: float(r["metrics"][name]) for r in baseline}
        by_seed = list(values.values())
        summary["mean"][name] = float(np.mean(by_seed))
        summary["ci95"][name] = interval(by_seed)
        summary["half_range"][name] = half_range(by_seed)
        summary["ratio"][name], residuals = _ratio(values, others)
        summary["ratio_ci95"][name] = interval(residuals)
        summary["ratio_half_range"][name] = half_range(residuals)
    return summary

"""Metrics over seeds: means, their 95% intervals, and ratios taken seed by seed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

__all__ = ["interval", "ratios", "summarized"]


def interval(values: Sequence[float]) -> float | None:
    """Half the width of the 95% interval of the mean, by Student's t; None for fewer than two.

    Example:
      >>> round(interval([1.0, 2.0, 3.0]), 4)  # t(0.975, 2 degrees) = 4.3027, deviation 1
      2.4841
    """
    n = len(values)
    if n < 2:
        return None
    deviation = float(np.std(values, ddof=1))
    return float(stats.t.ppf(0.975, n - 1)) * deviation / math.sqrt(n)


def ratios(values: Mapping[int, float], others: Mapping[int, float]) -> list[float]:
    """The ratio to another arm in each seed that both have finished; a zero below gives none."""
    shared = sorted(set(values) & set(others))
    return [values[seed] / others[seed] for seed in shared if others[seed]]


def summarized(
    results: Sequence[Mapping[str, Any]], baseline: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """What an arm's seeds say together.

    Args:
      results: of one arm, each with `seed` and `metrics` (name -> value), without failures.
      baseline: of the arm to divide by.

    Returns:
      `mean` and `ci95` of each metric, `ratio` and `ratio_ci95` to the baseline; an interval is
      half its width, and None for a single seed.
    """
    names = [name for name in (results[0]["metrics"] if results else {}) if "@" in name]
    found: dict[str, dict[str, Any]] = {"mean": {}, "ci95": {}, "ratio": {}, "ratio_ci95": {}}
    for name in names:
        values = {r["seed"]: float(r["metrics"][name]) for r in results}
        others = {r["seed"]: float(r["metrics"][name]) for r in baseline}
        found["mean"][name] = float(np.mean(list(values.values())))
        found["ci95"][name] = interval(list(values.values()))
        by_seed = ratios(values, others)
        found["ratio"][name] = float(np.mean(by_seed)) if by_seed else None
        found["ratio_ci95"][name] = interval(by_seed)
    return found

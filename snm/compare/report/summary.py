"""Summarises metrics over seeds: means, 95% intervals, and ratios to the baseline per seed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

__all__ = ["interval", "ratios", "summarized"]


def interval(values: Sequence[float]) -> float | None:
    """Half the width of the 95% interval of the mean (Student's t); None for fewer than two values.

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
    """Ratios to another arm for the seeds that both have, without zero denominators.

    Args:
      values: seed -> metric of the arm.
      others: seed -> metric of the other arm.
    """
    shared = sorted(set(values) & set(others))
    return [values[seed] / others[seed] for seed in shared if others[seed]]


def summarized(
    results: Sequence[Mapping[str, Any]], baseline: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Summarises the seeds of an arm.

    Args:
      results: the successful runs of the arm, each with `seed` and `metrics` (name -> value).
      baseline: the same of the baseline arm.

    Returns:
      `mean` and `ci95` of each metric, `ratio` to the baseline and `ratio_ci95`. An interval is
      given as half its width, None for a single seed.
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

"""Reads the validation metrics of a run from its log, for `result.json`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from snm.config.resolved import ResolvedConfig
from snm.runs.events import COUNTS
from snm.runs.folder import RunFolder
from snm.runs.log.entries import read_entries
from snm.runs.members import train_phase

__all__ = ["validation_metrics"]


def validation_metrics(folder: RunFolder, config: ResolvedConfig) -> dict[str, Any]:
    """The metrics of each member on the validation points at its best evaluation, as means.

    Args:
      folder: the run; its log has the evaluations.
      config: the settings of the run.

    Returns:
      `validation`: the `monitor` that chooses the best evaluation, the `steps` of the members'
      best evaluations, and the means of their `metrics`. Empty if some member has no evaluation.
    """
    evaluations, best = _read_evaluations(folder.log), []
    for member in range(1, config.members + 1):
        by_step = evaluations.get(train_phase(member), {})
        finite = {step: metrics for step, metrics in by_step.items() if _is_finite(metrics, config)}
        if not finite:
            return {}
        step = max(finite, key=lambda step: finite[step][config.monitor])  # the first of equal ones
        best.append((step, finite[step]))
    first = best[0][1]
    names = [name for name in first if all(metrics.get(name) is not None for _, metrics in best)]
    means = {name: float(np.mean([metrics[name] for _, metrics in best])) for name in names}
    for name in COUNTS:
        means[name] = int(means[name])
    steps = [step for step, _ in best]
    return {"validation": {"monitor": config.monitor, "steps": steps, "metrics": means}}


def _is_finite(metrics: dict[str, Any], config: ResolvedConfig) -> bool:
    score = metrics.get(config.monitor)  # null in the log if it was not finite
    return score is not None and math.isfinite(score)


def _read_evaluations(log: Path) -> dict[str, dict[int, dict[str, Any]]]:
    """The metrics of all evaluations: phase -> step -> metrics."""
    evaluations: dict[str, dict[int, dict[str, Any]]] = {}
    for entry in read_entries(log, "evaluated"):
        evaluations.setdefault(entry["phase"], {})[entry["step"]] = entry["metrics"]
    return evaluations

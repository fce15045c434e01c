"""What a run's log says of the held-out points, for its result."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from snm.config.resolved import ResolvedConfig
from snm.runs.events import COUNTS
from snm.runs.folder import RunFolder
from snm.runs.log.entries import read_entries
from snm.runs.members import phase_names

__all__ = ["scores_held_out"]


def scores_held_out(folder: RunFolder, config: ResolvedConfig) -> dict[str, Any]:
    """The metrics of the held-out points, each member alone, at the best of its evaluations.

    Args:
      folder: of the run, whose log has the evaluations.
      config: its settings.

    Returns:
      `validation`, with the `monitor` that says which is best, the `steps` of the members, and the
      means of their `metrics`; nothing where no member was evaluated.
    """
    found, best = _evaluations(folder.log), []
    for number in range(1, config.members + 1):
        of_member = found.get(phase_names(number)[0], {})
        told = {step: scores for step, scores in of_member.items() if _is_number(scores, config)}
        if not told:
            return {}
        step = max(told, key=lambda step: told[step][config.monitor])  # the first of equal ones
        best.append((step, told[step]))
    first = best[0][1]
    names = [name for name in first if all(scores.get(name) is not None for _, scores in best)]
    means = {name: float(np.mean([scores[name] for _, scores in best])) for name in names}
    for name in COUNTS:
        means[name] = int(means[name])
    steps = [step for step, _ in best]
    return {"validation": {"monitor": config.monitor, "steps": steps, "metrics": means}}


def _is_number(scores: dict[str, Any], config: ResolvedConfig) -> bool:
    score = scores.get(config.monitor)  # the log has null where there is no number
    return score is not None and math.isfinite(score)


def _evaluations(log: Path) -> dict[str, dict[int, dict[str, Any]]]:
    """By phase and step, the metrics."""
    found: dict[str, dict[int, dict[str, Any]]] = {}
    for entry in read_entries(log, "evaluated"):
        found.setdefault(entry["phase"], {})[entry["step"]] = entry["metrics"]
    return found

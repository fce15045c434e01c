"""Reads series of numbers from the results of an arm: over training, over seeds, at the end."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

__all__ = [
    "Points",
    "Record",
    "good_seeds",
    "last_probes",
    "over_probes",
    "over_seeds",
    "probe_value",
]

Record = dict[str, Any]
Points = list[tuple[float, float, float, float]]
"""Tuples of x, and of the mean, minimum and maximum of y over seeds."""


def good_seeds(arm: Record) -> list[Record]:
    """The seeds of an arm that did not fail."""
    return [seed for seed in arm["seeds"] if "failed" not in seed]


def last_probes(arm: Record) -> list[Record]:
    """The last probe entry of each seed."""
    return [seed["probes"][-1] for seed in good_seeds(arm) if seed.get("probes")]


def probe_value(entry: Record, part: str, name: str) -> Any:
    """A value of a probe entry; None if the arm has none."""
    return entry.get(part, {}).get(name)


def _spread(x: float, values: Sequence[float]) -> tuple[float, float, float, float]:
    return x, float(np.mean(values)), min(values), max(values)


def over_probes(
    arm: Record, value: Callable[[Record], Any], by: str = "step", scale: float = 1.0
) -> Points:
    """A value of each probe entry during training, against `by` (step or seconds)."""
    entries: dict[int, list[tuple[float, float]]] = {}
    for seed in good_seeds(arm):
        for entry in seed.get("probes", ()):
            y = value(entry)
            if y is not None and math.isfinite(y):
                entries.setdefault(entry["step"], []).append((entry[by], scale * y))
    return [
        _spread(float(np.mean([x for x, _ in entries[step]])), [y for _, y in entries[step]])
        for step in sorted(entries)
    ]


def over_seeds(x: Iterable[float], seeds: Sequence[Sequence[float]], scale: float = 1.0) -> Points:
    """Values at the positions `x`, from one list per seed."""
    return [
        _spread(position, [scale * y for y in values])
        for position, values in zip(x, zip(*seeds, strict=True), strict=False)
    ]

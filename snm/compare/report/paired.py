"""Compares the arms of one table, paired by seed: the leader, and differences to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from snm.compare.report.series import Record, good_seeds
from snm.compare.report.summary import interval

__all__ = ["RANKING", "RETRIEVAL", "baseline_of", "best_arm", "difference", "other_loss"]

RETRIEVAL = ("R@1", "R@3", "R@5", "P@1", "P@3", "P@5")
RANKING = ("nDCG@1", "nDCG@3", "nDCG@5", "PSP@1", "PSP@3", "PSP@5")


def best_arm(arms: Sequence[Record]) -> tuple[Record, dict[str, str]] | None:
    """The arm that leads in most metrics, and the leader in each metric; None without runs."""
    scored = [arm for arm in arms if "R@1" in arm["mean"]]
    if not scored:
        return None
    # nDCG@1 equals P@1, and would count twice.
    names = [name for name in (*RETRIEVAL, *RANKING)
             if name != "nDCG@1" and all(name in arm["mean"] for arm in scored)]  # fmt: skip
    # With equal means the first arm leads: a baseline is not beaten by a tie.
    leaders = {name: max(scored, key=lambda arm: arm["mean"][name])["name"] for name in names}
    counts = Counter(leaders.values())
    return max(scored, key=lambda arm: (counts[arm["name"]], arm["mean"]["R@1"])), leaders


def baseline_of(arm: Record, arms: Sequence[Record]) -> Record:
    """The arm among `arms` that an arm is divided by."""
    return next(other for other in arms if other["name"] == arm["baseline"])


def other_loss(arms: Sequence[Record]) -> list[str]:
    """The arms without a ratio because their baseline has another loss."""
    loss_of = {arm["name"]: arm["loss"] for arm in arms}
    return [
        arm["name"]
        for arm in arms
        if loss_of.get(arm["baseline"], arm["loss"]) != arm["loss"]
        and all(ratio is None for ratio in arm["ratio"].values())
    ]


def difference(arm: Record, other: Record, name: str) -> tuple[float, float | None] | None:
    """The mean difference in a metric of two arms over common seeds, and half its 95% interval.

    Effects of the seed on both arms, such as the order of the points, cancel. So this is more
    precise than comparing the intervals of two arms, and needs no common baseline.
    """
    values, other_values = (
        {seed["seed"]: seed["metrics"][name] for seed in good_seeds(record)
         if name in seed["metrics"]} for record in (arm, other)
    )  # fmt: skip
    seeds = sorted(values.keys() & other_values.keys())
    differences = [values[seed] - other_values[seed] for seed in seeds]
    if not differences:
        return None
    return float(np.mean(differences)), interval(differences)

"""Compares arms of one table seed by seed: who leads, and by how much."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from snm.compare.report.series import Record, good_seeds
from snm.compare.report.summary import Spread, spread_of

__all__ = ["RANKING", "RETRIEVAL", "best_of", "difference"]

RETRIEVAL = ("R@1", "R@3", "R@5", "P@1", "P@3", "P@5")
RANKING = ("nDCG@1", "nDCG@3", "nDCG@5", "PSP@1", "PSP@3", "PSP@5")


def best_of(arms: Sequence[Record]) -> tuple[Record, dict[str, str]] | None:
    """The arm that leads in most metrics, and the name of the leader in each; None of no runs."""
    scored = [arm for arm in arms if "R@1" in arm["mean"]]
    if not scored:
        return None
    # At 1, nDCG is P: it would count twice.
    names = [name for name in (*RETRIEVAL, *RANKING)
             if name != "nDCG@1" and all(name in arm["mean"] for arm in scored)]  # fmt: skip
    # Of equal means, the earlier arm: a baseline is not beaten by a tie.
    first = {name: max(scored, key=lambda arm: arm["mean"][name])["name"] for name in names}
    counts = Counter(first.values())
    return max(scored, key=lambda arm: (counts[arm["name"]], arm["mean"]["R@1"])), first


def difference(arm: Record, other: Record, name: str) -> tuple[float, Spread | None] | None:
    """Mean and spread of a metric of an arm less that of another one, over the seeds of both.

    What a seed does to both, such as the order of the points, is not in it: it says more than
    whether the intervals of two arms overlap, and needs no common baseline.
    """
    mine, others = (
        {seed["seed"]: seed["metrics"][name] for seed in good_seeds(each)
         if name in seed["metrics"]} for each in (arm, other)
    )  # fmt: skip
    values = [mine[seed] - others[seed] for seed in sorted(mine.keys() & others.keys())]
    return (float(np.mean(values)), spread_of(values)) if values else None

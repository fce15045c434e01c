"""The parts of a comparison, and their names in tables, plots and sentences."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["PARTS", "Part", "count_failed"]


class Part(NamedTuple):
    """A part of a comparison, in which every arm has a run for each seed.

    Attributes:
      name: its name in `results.csv` and in the columns of tables.
      title: its name in the headings of plots.
      opening: the first words of a sentence on it.
    """

    name: str
    title: str
    opening: str


PARTS = {
    "arms": Part("equal steps", "equal steps", "At equal steps"),
    "tuned": Part("tuned", "each at its best", "With each arm at its best settings"),
    "equal_seconds": Part("equal seconds", "equal seconds", "In equal seconds"),
}
"""Keys of `results.json` with runs -> the names of the part."""


def count_failed(results: dict[str, Any]) -> tuple[int, int]:
    """The number of runs that failed, and of all runs.

    Args:
      results: the content of `results.json`, as far as it is known.
    """
    runs = [seed for part in PARTS for arm in results.get(part, ()) for seed in arm["seeds"]]
    return sum("failed" in seed for seed in runs), len(runs)

"""How answers are written for people and programs."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["rounded"]


def rounded(values: Iterable[float]) -> list[float]:
    """Scores or probabilities of float32, with six decimals.

    Example:
      >>> rounded([43.53745651245117, 0.25])
      [43.537457, 0.25]
    """
    return [round(value, 6) for value in values]

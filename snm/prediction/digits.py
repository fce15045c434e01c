"""The number of decimals of scores and probabilities in the output."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["round_values"]


def round_values(values: Iterable[float]) -> list[float]:
    """Rounds float32 scores or probabilities to six decimals.

    Example:
      >>> round_values([43.53745651245117, 0.25])
      [43.537457, 0.25]
    """
    return [round(value, 6) for value in values]

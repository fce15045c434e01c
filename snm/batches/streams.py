"""Random numbers of the training points: one stream for each use of a seed."""

from __future__ import annotations

import enum

import numpy as np

__all__ = ["Stream"]


class Stream(enum.IntEnum):
    """What random numbers are drawn for.

    A use without a number of its own would share the stream of another: NumPy takes the words
    (seed, n) and (seed, n, 0) for the same.
    """

    ORDER = 1
    POSITIVES = 2
    SPLITS = 3
    DROPOUT = 4

    def of(self, seed: int, number: int) -> np.random.SeedSequence:
        """The sequence of a run's seed and a number, for example of the epoch."""
        return np.random.SeedSequence([seed, self, number])

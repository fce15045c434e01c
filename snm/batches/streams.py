"""Random number streams: one for each use of the seed of a run."""

from __future__ import annotations

import enum

import numpy as np

__all__ = ["Stream"]


class Stream(enum.IntEnum):
    """The use of random numbers.

    Each use needs a number: NumPy treats the entropy (seed, n) and (seed, n, 0) as equal.
    """

    ORDER = 1
    POSITIVES = 2
    SPLITS = 3
    DROPOUT = 4

    def seed_sequence(self, seed: int, number: int) -> np.random.SeedSequence:
        """The seed sequence for a run's seed and a number, such as the epoch."""
        return np.random.SeedSequence([seed, self, number])

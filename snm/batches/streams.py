"""The random number streams of batches: one for each of their uses of a member's seed.

The seed has other uses: samplers have a stream of their own (`snm.sampling.sample.STREAM`), and so
has each use within a step (`snm.model.train_step.StepStream`). Initial parameters
(`snm.model.model.init_state`) and the points that are held out (`Dataset.rows_of_split`) are drawn
from the bare seed.
"""

from __future__ import annotations

import enum

import numpy as np

__all__ = ["Stream"]


class Stream(enum.IntEnum):
    """A use of random numbers.

    Each use needs a number: NumPy treats the entropy (seed, n) and (seed, n, 0) as equal.
    """

    ORDER = 1
    POSITIVES = 2
    SPLITS = 3
    DROPOUT = 4

    def seed_sequence(self, seed: int, number: int) -> np.random.SeedSequence:
        """The seed sequence for the seed of a member and a number, such as the epoch."""
        return np.random.SeedSequence([seed, self, number])

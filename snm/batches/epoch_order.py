"""The order of the points in each epoch, the same on any number of machines.

The points are cut into strips: equal ranges of consecutive points. Each batch has equally many
points of each strip, at positions that belong to the strip, in a random order within the strip. A
process that makes some positions of every batch therefore reads only the points of some strips. The
number of strips depends only on the batch size.
"""

from __future__ import annotations

import dataclasses
import math
import threading

import numpy as np
from numpy.typing import NDArray

from snm.batches.streams import Stream

__all__ = ["Order"]

_MAX_STRIPS = 64
"""The number of strips if it divides the batch size. With more, two points of one strip would be
in one batch less often."""

_AHEAD = 2  # epochs that the loader's thread may be ahead of the training thread


@dataclasses.dataclass(frozen=True, eq=False)
class Order:
    """The positions of points in batches, a function of the seed and the epoch.

    Attributes:
      num_points: N.
      batch_size: places of a batch.
      seed: seeds the permutations and the draws of positives.
    """

    num_points: int
    batch_size: int
    seed: int
    _lock: threading.Lock = dataclasses.field(init=False, default_factory=threading.Lock)
    _epochs: dict[int, tuple[NDArray, NDArray]] = dataclasses.field(
        init=False, default_factory=dict
    )

    @classmethod
    def of(cls, num_points: int, batch_size: int, seed: int, data_parts: int = 1) -> Order:
        """An order whose batches have no more places than the points fill, rounded up.

        Args:
          num_points: N.
          batch_size: places of a batch, at most.
          seed: see the attribute.
          data_parts: divides `batch_size` and the places.
        """
        return cls(num_points, min(batch_size, -(-num_points // data_parts) * data_parts), seed)

    @property
    def strips(self) -> int:
        """The number of strips.

        Example:
          >>> [Order(1000, size, 0).strips for size in (256, 1024, 100, 33)]
          [64, 64, 4, 1]
        """
        return math.gcd(self.batch_size, _MAX_STRIPS)

    @property
    def steps(self) -> int:
        """Steps of an epoch; if the batch size does not divide N, the last has empty places."""
        return -(-self.num_points // self.batch_size)

    def points_at_positions(self, first: int, last: int) -> range:
        """The points that can be at positions first .. last - 1 of a batch: whole strips.

        Example:
          >>> order = Order(num_points=1000, batch_size=128, seed=0)
          >>> order.points_at_positions(0, 64), order.points_at_positions(64, 128)
          (range(0, 500), range(500, 1000))
        """
        width = self.batch_size // self.strips
        return range(self._bound(first // width), self._bound(-(-last // width)))

    def _bound(self, strip: int) -> int:
        return strip * self.num_points // self.strips

    def num_points_of_step(self, step: int) -> int:
        """Number of points of a step; steps are counted from the start of the run."""
        begin = step % self.steps * self.batch_size
        return min(begin + self.batch_size, self.num_points) - begin

    def epoch(self, number: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The order of an epoch and a uniform draw for each point, which picks its positive.

        Returns:
          int64 [steps, batch_size], points, -1 in empty places; float64 [N] in [0, 1).
        """
        with self._lock:
            if number not in self._epochs:
                for old in [other for other in self._epochs if abs(other - number) > _AHEAD]:
                    del self._epochs[old]
                self._epochs[number] = self._new_epoch(number)
            return self._epochs[number]

    def rows_of_step(self, step: int) -> NDArray[np.int64]:
        """The points of a step, as rows of the source: int64 [batch_size], -1 in empty places.

        Args:
          step: counted from the start of the run.
        """
        return self.epoch(step // self.steps)[0][step % self.steps]

    def _new_epoch(self, number: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        rng = np.random.default_rng(Stream.ORDER.seed_sequence(self.seed, number))
        # The sizes of strips differ by at most one point, so that the longest ends in the last
        # step.
        places = np.full((self.strips, self.steps * (self.batch_size // self.strips)), -1, np.int64)
        for strip in range(self.strips):
            first, last = self._bound(strip), self._bound(strip + 1)
            places[strip, : last - first] = first + rng.permutation(last - first)
        steps = places.reshape(self.strips, self.steps, -1).swapaxes(0, 1)
        draws = np.random.default_rng(Stream.POSITIVES.seed_sequence(self.seed, number))
        return steps.reshape(self.steps, self.batch_size), draws.random(self.num_points)

"""How many entries the batches of an epoch need room for."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from snm.batches.csr_blocks import likely_most, rounded_up
from snm.batches.dropout import entries_left, keys_of_points
from snm.batches.epoch_order import Order
from snm.batches.sources.counts import PointCounts

__all__ = ["Entries", "EpochSizes"]


class Entries(NamedTuple):
    """Entries that hold any part of a batch of an epoch, rounded up.

    Attributes:
      features: after dropout on the host.
      labels: of all labels of the points.
      all_features: before dropout.
    """

    features: int
    labels: int
    all_features: int


@dataclasses.dataclass(frozen=True, eq=False)
class EpochSizes:
    """The entries of each epoch's batches, counted once an epoch.

    As a rule they are those of other epochs too, so that the program of the step is the same.

    Attributes:
      order: of the points.
      counts: of all points.
      data_parts: parts that a batch is cut into.
      dropout: share of the features that the host leaves out of a batch.
    """

    order: Order
    counts: PointCounts
    data_parts: int = 1
    dropout: float = 0.0
    _found: dict[int, Entries] = dataclasses.field(default_factory=dict, init=False)

    @property
    def width(self) -> int:
        """Points of a part of a batch."""
        return self.order.batch_size // self.data_parts

    def of(self, epoch: int) -> Entries:
        """The entries of an epoch, counted from 0."""
        if epoch not in self._found:
            left = whole = self._rounded(epoch, self.counts.features)
            if self.dropout:
                left = self._left(epoch)
            self._found[epoch] = Entries(left, self._rounded(epoch, self.counts.labels), whole)
        return self._found[epoch]

    def _left(self, epoch: int) -> int:
        every = self.counts.features
        keys = keys_of_points(self.order.seed, epoch, np.arange(self.order.num_points))
        likely = likely_most(every, self.width, 1 - self.dropout)
        return self._rounded(epoch, entries_left(keys, every, self.dropout), likely)

    def _rounded(self, epoch: int, counts: np.ndarray, likely: int | None = None) -> int:
        order = self.order.epoch(epoch)[0].reshape(-1, self.width)
        most = int(np.append(counts, 0)[order].sum(axis=1).max())
        return rounded_up(max(most, likely_most(counts, self.width) if likely is None else likely))

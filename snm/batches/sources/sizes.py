"""The numbers of entries of the batches of an epoch, for padding."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from snm.batches.csr_blocks import likely_max_entries, round_up_entries
from snm.batches.dropout import count_kept, dropout_keys
from snm.batches.epoch_order import Order
from snm.batches.sources.counts import PointCounts

__all__ = ["EpochSizes"]


class Entries(NamedTuple):
    """Numbers of entries that are enough for every batch of an epoch, rounded up.

    Attributes:
      features: features after dropout on the host.
      labels: all labels of the points.
      all_features: features before dropout.
    """

    features: int
    labels: int
    all_features: int


@dataclasses.dataclass(frozen=True, eq=False)
class EpochSizes:
    """The numbers of entries of the batches of each epoch, counted once per epoch.

    Usually they are the same for all epochs, so that these share the program of the step.

    Attributes:
      order: the order of the points.
      counts: counts of all points.
      data_parts: number of parts of a batch.
      dropout: dropout rate of the host.
    """

    order: Order
    counts: PointCounts
    data_parts: int = 1
    dropout: float = 0.0
    _cache: dict[int, Entries] = dataclasses.field(default_factory=dict, init=False)

    @property
    def width(self) -> int:
        """Points of a part of a batch."""
        return self.order.batch_size // self.data_parts

    def entries(self, epoch: int) -> Entries:
        """The entries of an epoch, counted from 0."""
        if epoch not in self._cache:
            all_features = self._max_entries(epoch, self.counts.features)
            features = self._max_kept(epoch) if self.dropout else all_features
            labels = self._max_entries(epoch, self.counts.labels)
            self._cache[epoch] = Entries(features, labels, all_features)
        return self._cache[epoch]

    def _max_kept(self, epoch: int) -> int:
        counts = self.counts.features
        keys = dropout_keys(self.order.seed, epoch, np.arange(self.order.num_points))
        likely = likely_max_entries(counts, self.width, 1 - self.dropout)
        return self._max_entries(epoch, count_kept(keys, counts, self.dropout), likely)

    def _max_entries(self, epoch: int, counts: np.ndarray, likely: int | None = None) -> int:
        order = self.order.epoch(epoch)[0].reshape(-1, self.width)
        largest = int(np.append(counts, 0)[order].sum(axis=1).max())
        if likely is None:
            likely = likely_max_entries(counts, self.width)
        return round_up_entries(max(largest, likely))

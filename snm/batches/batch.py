"""The input of a training step, and the data that the host sends for it."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from snm.batches.schedule import Rates
from snm.head.state import HeadBatch
from snm.sampling.sample import Array, Sample
from snm.tables.columns import Columns
from snm.tables.table import SparseRows

__all__ = ["POINT_FIELDS", "Batch", "DeviceItem", "own_part"]

Scalar = jax.Array | np.generic
"""A scalar on the host or inside the step."""

POINT_FIELDS = ("features", "terms", "known", "seen", "points", "positives", "dropout")
"""The fields with an axis of points, which a mesh shards over `data`."""


class Batch(NamedTuple):
    """The input of a training step.

    Attributes:
      features: [n, d] block, after dropout.
      terms: [n, K] block of the positives; the values are the weights of the terms.
      known: [n, K] block of all known labels, or None if the head does not need them.
      sample: the labels drawn, or None if all labels are negatives.
      step: int32 scalar, counted from 0 over the whole run.
      key: uint32 [2], key data of the run's seed; an input, so that all seeds share a program.
      columns: the entries of `features` by feature, or None if the device does not use them.
      seen: [n, K] block of all features as labels that are not negatives, or None; for data whose
        features and labels are the same items.
      rates: the learning rates of the step.
      taken: bool scalar, False for padding steps at the end of a dispatch, which change nothing;
        None means True.
    """

    features: SparseRows
    terms: SparseRows
    known: SparseRows | None
    sample: Sample | None
    step: jax.Array
    key: jax.Array
    rates: Rates
    columns: Columns | None = None
    seen: SparseRows | None = None
    taken: jax.Array | None = None

    @property
    def head_batch(self) -> HeadBatch:
        """The part for the head: the labels, without the features."""
        return HeadBatch(self.terms, self.sample, self.known, self.seen)


class DeviceItem(NamedTuple):
    """The data that the host sends for a step if the points are on the device.

    Attributes:
      points: int32 [n], rows of the resident arrays; -1 is padding.
      positives: int32 [n], which of its labels each point draws.
      dropout: uint32 [n], the keys from `snm.batches.dropout`, or None.
      sample: as in `Batch`, or None if the device draws.
      step: as in `Batch`.
      key: as in `Batch`.
      rates: as in `Batch`.
      taken: as in `Batch`.
    """

    points: Array
    positives: Array
    dropout: Array | None
    sample: Sample | None
    step: Scalar
    key: Array
    rates: Rates
    taken: Scalar


def own_part(item: Any) -> Any:
    """A device's part of a sharded `Batch` or `DeviceItem`.

    Removes the leading axis, of length 1, of the fields with points.
    """
    cut = {name: getattr(item, name) for name in POINT_FIELDS if hasattr(item, name)}
    return item._replace(**jax.tree.map(lambda x: x[0], cut))

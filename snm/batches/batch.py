"""What a step trains on, and what the host sends for it."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from snm.batches.schedule import Rates
from snm.head.state import HeadBatch
from snm.sampling.sample import Array, Sample
from snm.tables.by_row import Columns
from snm.tables.table import SparseRows

__all__ = ["OF_POINTS", "Batch", "PointNumbers", "own_part"]

Scalar = jax.Array | np.generic
"""A scalar as the host sends it, or as the step has it."""

OF_POINTS = ("features", "terms", "known", "seen", "points", "positives", "dropout")
"""The fields of what the host sends that belong to points: a mesh cuts them over `data`."""


class Batch(NamedTuple):
    """What a step trains on.

    Attributes:
      features: [n, d] block, after dropout.
      terms: [n, K] block of the positives; values are the weights of the terms.
      known: [n, K] block of all known labels, or None if the head does not need them.
      sample: the labels drawn, or None if all labels are negatives.
      step: int32 scalar, counted from 0 over the whole run.
      key: uint32 [2], key data of the run's seed; as data, so that other seeds share the program.
      columns: the entries of `features` by feature, or None if the device does not use them.
      seen: [n, K] block of all features, as labels to leave out, or None. Features and labels
        number the same items.
      rates: the learning rates of the step.
      taken: bool scalar, whether the step is taken; None: it is. Steps that fill up a dispatch are
        not, and change nothing.
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
    def of_head(self) -> HeadBatch:
        """What the head takes of it: the labels, without the features."""
        return HeadBatch(self.terms, self.sample, self.known, self.seen)


class PointNumbers(NamedTuple):
    """What the host sends for a step where the device has the points.

    Attributes:
      points: int32 [n], rows of the resident arrays; -1 pads.
      positives: int32 [n], which of its labels each point draws.
      dropout: uint32 [n], the keys of `snm.batches.dropout`, or None.
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
    """What a device has of a `Batch` or `PointNumbers` that is cut into parts.

    The leading axis of what belongs to points has length 1, and goes.
    """
    cut = {name: getattr(item, name) for name in OF_POINTS if hasattr(item, name)}
    return item._replace(**jax.tree.map(lambda x: x[0], cut))

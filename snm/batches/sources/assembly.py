"""How a step makes its batch from what the host sent.

What is here is static and hashable, and has no arrays and no seed: programs are kept by it, so that
members and repeated fits share them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from snm.batches.batch import Batch, own_part
from snm.batches.csr_blocks import repeat, take
from snm.batches.dropout import zero_dropped
from snm.sampling.sample import Sample
from snm.tables.table import SparseRows

__all__ = ["Assembly", "DeviceAssembly", "Terms", "take_batch", "take_own_part"]


@dataclasses.dataclass(frozen=True)
class Terms:
    """The (point, positive) terms of a batch and their weights, in NumPy or JAX.

    Attributes:
      num_labels: K.
      one_positive: whether a point has one term, of the label that it draws; else it has all.
      positive_weights: sum or mean over the terms of a point.
      divisor: what the weights are divided by.
    """

    num_labels: int
    one_positive: bool
    positive_weights: str
    divisor: int

    def make(self, known: SparseRows, points: Any, positives: Any) -> SparseRows:
        """The terms of points, and their weights.

        Args:
          known: [n, K] block of the points' labels; the values are the weights of the points.
          points: int [n], of which only -1, an empty place, matters.
          positives: int [n], which of its labels each point draws.
        """
        xp, real = points.__array_namespace__(), points >= 0
        divisor = np.float32(self.divisor)
        if self.one_positive:
            place = xp.where(real, known.starts[:-1] + positives, 0)
            weights = xp.where(real, known.values[place] / divisor, np.float32(0.0))
            return SparseRows(known.ids[place], weights, xp.arange(len(real) + 1, dtype=np.int32))
        weights = known.values / divisor
        if self.positive_weights == "mean":
            counts = xp.diff(known.starts)
            of_point = xp.maximum(counts, 1).astype(np.float32)
            weights = weights / repeat(of_point, counts, known.ids.shape[0])
        return SparseRows(known.ids, weights, known.starts)

    def positives(self, terms: SparseRows) -> Any:
        """The labels of the terms, int32 [T], NumPy or JAX; K where a term has no weight."""
        xp: Any = terms.ids.__array_namespace__()
        return xp.where(terms.values != 0, terms.ids, self.num_labels)


Assembly = Callable[[Any, Any, tuple[int, int]], Batch]
"""Makes the batch of a step inside the compiled program, as `Source.materialize`.

It is hashable, and equal by value.
"""


def take_batch(resident: Any, item: Any, shape: tuple[int, int]) -> Batch:
    """The `Assembly` of a `HostSource`: the batch as the host sent it."""
    return item


def take_own_part(resident: Any, item: Any, shape: tuple[int, int]) -> Batch:
    """That of a `HostSource` with several parts: this device's part of the batch."""
    return own_part(item)


@dataclasses.dataclass(frozen=True)
class DeviceAssembly:
    """That of a `DeviceSource`: takes the rows of the points, drops features out and draws.

    Attributes:
      terms: makes the terms.
      data_parts: as those of a source.
      input_dropout: share of the features that a visit leaves out.
      excludes_known: whether batches have all known labels.
      drop_seen: whether batches have all features of a point too, as labels to leave out.
      draw: `Sampler.on_device`; None where the host sends the sample, or nobody draws.
      reads_positives: whether it reads the positives of the batch.
    """

    terms: Terms
    data_parts: int
    input_dropout: float
    excludes_known: bool
    drop_seen: bool
    draw: Callable[[Any, Any, Any], Sample] | None
    reads_positives: bool

    def __call__(self, resident: Any, item: Any, shape: tuple[int, int]) -> Batch:
        """The batch of the points whose numbers the host sent, or this device's part of it."""
        if self.data_parts > 1:
            resident = jax.tree.map(lambda x: x[0], resident)
            item = own_part(item)
        features, labels = resident
        points, sample = jnp.asarray(item.points), item.sample
        block = take(features, points, shape[0])
        known = take(labels, points, shape[1])
        terms = self.terms.make(known, points, item.positives)
        if self.draw is not None:
            positives = self.terms.positives(terms) if self.reads_positives else None
            sample = self.draw(item.step, positives, item.key[1])
        seen = block if self.drop_seen else None
        if self.input_dropout:
            block = zero_dropped(block, jnp.asarray(item.dropout), self.input_dropout)
        return Batch(
            features=block,
            terms=terms,
            known=known if self.excludes_known else None,
            sample=sample,
            step=item.step,
            key=item.key,
            rates=item.rates,
            seen=seen,
            taken=item.taken,
        )

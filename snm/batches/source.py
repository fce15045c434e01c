"""Batches of the training set, from the host or from the device, behind one interface.

A run is cut into dispatches of several steps. `source.stack(first, count)` is what the host sends
for one of them, with one entry a step. `source.materialize(resident, item, shape)` turns an entry
into a `Batch` inside the compiled step. A streaming source sends the batch itself; a resident one
keeps the training set on the device and sends row numbers.

The order of the points (`snm.batches.epoch_order`), the positives drawn and the sampled labels are
functions of (seed, step) alone, so a checkpoint holds nothing of them. A source makes whole batches
or, on a mesh, only the parts of them that this process's devices need, and reads only the points
that may stand in those.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.sparse import csr_matrix

from snm.batches.batch import OF_POINTS, Batch, Rows
from snm.batches.csr_blocks import Csr, csr_of, likely_most, padded, repeat, slice_of, take
from snm.batches.dropout import (
    entries_left,
    keys_of_points,
    with_dropout,
    without_dropped,
)
from snm.batches.epoch_order import Order
from snm.batches.schedule import CONSTANT, Schedule
from snm.head.spec import HeadSpec
from snm.sampling.protocol import Sampler
from snm.sampling.sample import Sample, check_sample
from snm.tables.by_row import columns_of
from snm.tables.table import SparseRows

__all__ = ["Source"]


@dataclasses.dataclass(frozen=True, eq=False)
class Source:
    """The training points, cut into steps.

    Attributes:
      spec: the head.
      order: of the points with labels, all N of them.
      features: float32 CSR [m, d], weighted: points first .. first + m - 1, those that the parts
        in `own` may have.
      labels: float32 CSR [m, K] of the same points; the values are the weights of the points,
        which are above 0, times those of the labels.
      first: the number of the first of them.
      feature_counts: int [N], features of each point.
      label_counts: int [N], labels of each point.
      weight_of_term: sum or mean over the positives of a point.
      divisor: what the weights of terms are divided by; None is the places of a batch.
      room: points, and entries of their features and labels, that the arrays on a device have room
        for; None is those that there are. A member that trains on some of the points, with room for
        all, has the program of the others as a rule.
      resident: keep the points on the device.
      sampler: draws the negatives; None if all labels are negatives.
      num_frequent: features that a batch takes together (`columns`); None sorts no entries.
      data_parts: parts that the points of a batch are cut into, in order; from 2 on, what belongs
        to points has a leading axis of parts.
      own: the parts that this process makes, None for all; the batches are the same for any.
      labels_of_all: CSR [N, K], the labels of all points; None unless the sampler needs the
        positives of whole batches.
      input_dropout: share of a point's features that a visit leaves out, in [0, 1).
      drop_seen: whether batches have `seen`.
      schedule: of the learning rates.
      sampler_of: builds the sampler of a head; None where no step has another B.
    """

    spec: HeadSpec
    order: Order
    features: csr_matrix
    labels: csr_matrix
    first: int
    feature_counts: np.ndarray
    label_counts: np.ndarray
    weight_of_term: str
    resident: bool
    sampler: Sampler | None = None
    num_frequent: int | None = None
    data_parts: int = 1
    own: range | None = None
    labels_of_all: csr_matrix | None = None
    input_dropout: float = 0.0
    drop_seen: bool = False
    schedule: Schedule = CONSTANT
    sampler_of: Callable[[HeadSpec], Sampler | None] | None = None
    divisor: int | None = None
    room: tuple[int, int, int] | None = None
    _sizes: dict[int, tuple[int, int, int]] = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def _key(self) -> Any:
        return np.array([0, self.seed % 2**32], np.uint32)  # as `jax.random.key`, uncompiled

    def whole(self) -> Source:
        """A source of the same batches, not cut into parts."""
        return dataclasses.replace(self, data_parts=1, own=None, _sizes={})

    def for_centroids(self) -> Source:
        """A source of the same points with all features and labels, each as heavy as its point.

        Nothing is drawn for its batches.
        """
        spec = dataclasses.replace(self.spec, positives="all")
        return dataclasses.replace(
            self,
            spec=spec,
            sampler=None,
            input_dropout=0.0,
            weight_of_term="sum",
            divisor=1,
            _sizes={},
        )

    def with_head(self, head: HeadSpec) -> Source:
        """A source of the same batches for a head that differs in B, k' or scale alone."""
        if head == self.spec:
            return self
        sampler = self.sampler
        if head.sampled != self.spec.sampled:
            assert self.sampler_of is not None
            sampler = self.sampler_of(head)
        return dataclasses.replace(self, spec=head, sampler=sampler)

    @property
    def num_points(self) -> int:
        """Points with at least one label, those of other processes included."""
        return self.order.num_points

    @property
    def batch_size(self) -> int:
        """Points a step."""
        return self.order.batch_size

    @property
    def seed(self) -> int:
        """The seed of order, positives and samples."""
        return self.order.seed

    @property
    def steps_per_epoch(self) -> int:
        """Steps of one pass; the last is shorter if the batch size does not divide N."""
        return self.order.steps

    def shape(self, epoch: int) -> tuple[int, int]:
        """Entries of features and of labels that hold any batch of an epoch, rounded up."""
        return self._sizes_of(epoch)[:2]

    def _sizes_of(self, epoch: int) -> tuple[int, int, int]:
        """`shape`, and the entries of features before dropout."""
        if epoch not in self._sizes:
            left = whole = self._padded(epoch, self.feature_counts)
            if self.input_dropout and not self.resident:
                keys = keys_of_points(self.seed, epoch, np.arange(self.num_points))
                counts = entries_left(keys, self.feature_counts, self.input_dropout)
                likely = likely_most(self.feature_counts, self._width, 1 - self.input_dropout)
                left = self._padded(epoch, counts, likely)
            self._sizes[epoch] = left, self._padded(epoch, self.label_counts), whole
        return self._sizes[epoch]

    @property
    def _width(self) -> int:
        """Points of a part of a batch."""
        return self.batch_size // self.data_parts

    def _padded(self, epoch: int, counts: np.ndarray, likely: int | None = None) -> int:
        """Entries that hold any part of a batch of an epoch, as a rule also of other epochs."""
        order = self.order.epoch(epoch)[0].reshape(-1, self._width)
        most = int(np.append(counts, 0)[order].sum(axis=1).max())
        return padded(max(most, likely_most(counts, self._width) if likely is None else likely))

    def shape_of_step(self, step: int) -> tuple[int, int]:
        """`shape` of the epoch that a step belongs to."""
        return self.shape(step // self.steps_per_epoch)

    def points_of_part(self, part: int) -> range:
        """The points that a part of any batch may have."""
        return self.order.points_at(part * self._width, (part + 1) * self._width)

    def resident_arrays(self) -> Any:
        """What stays on the device: the training set, or nothing.

        From two data parts on, each has its own points, in arrays that are padded to one length
        and stacked.
        """
        if not self.resident:
            return ()
        matrices = (self.features, self.labels)
        if self.data_parts == 1:
            rows, *sizes = self._room
            sized = zip(matrices, sizes, strict=True)
            whole = tuple(slice_of(m, 0, m.shape[0], rows, size) for m, size in sized)
            return jax.tree.map(jax.device_put, whole)
        ranges = [self.points_of_part(part) for part in range(self.data_parts)]
        points = max(len(part) for part in ranges)
        found = []
        for matrix, counts in zip(matrices, (self.feature_counts, self.label_counts), strict=True):
            entries = max(int(counts[part.start : part.stop].sum()) for part in ranges)
            own = ranges if self.own is None else ranges[self.own.start : self.own.stop]
            slices = [
                slice_of(matrix, part.start - self.first, part.stop - self.first, points, entries)
                for part in own
            ]
            found.append(jax.tree.map(lambda *leaves: np.stack(leaves), *slices))
        return tuple(found)

    def resident_shapes(self) -> Any:
        """The shapes of `resident_arrays`, of which nothing is made where there is one part."""
        if not self.resident or self.data_parts > 1:
            return jax.eval_shape(self.resident_arrays)
        points, *entries = self._room
        shape = jax.ShapeDtypeStruct
        return tuple(
            Csr(shape((points + 1,), np.int32), shape((n,), np.int32), shape((n,), np.float32))
            for n in entries
        )

    @property
    def _room(self) -> tuple[int, int, int]:
        return self.room or (len(self.label_counts), self.features.nnz, self.labels.nnz)

    def stack(self, first: int, count: int, length: int = 0) -> Any:
        """What the host sends for steps first .. first + count - 1 of one epoch, stacked.

        Where the device has the points, steps that are not taken fill the stack up to `length`.
        """
        epoch = first // self.steps_per_epoch
        items = [self._item(epoch, step) for step in range(first, first + count)]
        if self.resident:
            items += [items[-1]._replace(taken=np.False_)] * (length - count)
        return jax.tree.map(lambda *leaves: np.stack(leaves), *items)

    def _item(self, epoch: int, step: int) -> Any:
        order, draw = self.order.epoch(epoch)
        points = order[step % self.steps_per_epoch]
        real = points >= 0
        common: dict[str, Any] = {
            "step": np.asarray(step, np.int32), "key": self._key, "decay": self.schedule(step),
        }  # fmt: skip
        counts = self.label_counts[points]
        positives = np.where(real, (draw[points] * counts).astype(np.int64), 0)
        shape = self.shape(epoch)
        if self.resident:
            rows = self._numbers_on_device(points), self._owned(positives).astype(np.int32)
            keys = keys_of_points(self.seed, epoch, points) if self.input_dropout else None
            sample = self._host_sample(step, points, positives, shape[1])
            dropout = None if keys is None else self._owned(keys)
            return Rows(*rows, dropout, sample, **common, taken=np.True_)
        if self.data_parts == 1:
            features, terms, known, seen = self._blocks(epoch, points, positives, shape)
            sample = self._host_sample(step, points, positives, shape[1], terms)
            columns = None if self.num_frequent is None else columns_of(features, self.num_frequent)
            return Batch(features, terms, known, sample, columns=columns, seen=seen, **common)
        cut = zip(self._owned(points), self._owned(positives), strict=True)
        parts = [self._blocks(epoch, *part, shape) for part in cut]
        features, terms, known, seen = jax.tree.map(lambda *leaves: np.stack(leaves), *parts)
        sample = self._host_sample(step, points, positives, shape[1])
        return Batch(features, terms, known, sample, seen=seen, **common)

    def _owned(self, of_points: np.ndarray) -> np.ndarray:
        """The part of an array of a batch's points that this process makes, by data parts."""
        if self.data_parts == 1:
            return of_points
        cut = of_points.reshape(self.data_parts, -1)
        return cut if self.own is None else cut[self.own.start : self.own.stop]

    def _numbers_on_device(self, points: np.ndarray) -> np.ndarray:
        """Numbers of points as `resident_arrays` has them: each part counts its own from 0."""
        if self.data_parts == 1:
            return points.astype(np.int32)
        begin = np.array([self.points_of_part(part).start for part in range(self.data_parts)])
        every = points.reshape(self.data_parts, -1)
        return self._owned(np.where(every >= 0, every - begin[:, None], -1)).astype(np.int32)

    def _blocks(
        self, epoch: int, points: np.ndarray, positives: np.ndarray, shape: tuple[int, int]
    ) -> tuple[SparseRows, SparseRows, SparseRows | None, SparseRows | None]:
        """Features, terms and, where they are needed, known labels and all features of points."""
        here = np.where(points >= 0, points - self.first, -1)
        features = seen = take(csr_of(self.features), here, self._sizes_of(epoch)[2])
        if self.input_dropout:
            keys = keys_of_points(self.seed, epoch, points)
            features = without_dropped(seen, keys, self.input_dropout, shape[0])
        known = take(csr_of(self.labels), here, shape[1])
        terms = self._terms(known, points, positives)
        known_or_none = known if self.spec.exclude == "all" else None
        return features, terms, known_or_none, seen if self.drop_seen else None

    def _terms(self, known: SparseRows, points: Any, positives: Any) -> SparseRows:
        """The (point, positive) terms of a batch and their weights, in NumPy or JAX.

        Args:
          known: [n, K] block of the points' labels; the values are the weights of the points.
          points: int [n], of which only -1, an empty place, matters.
          positives: int [n], which of its labels each point draws.
        """
        xp, real = points.__array_namespace__(), points >= 0
        divisor = np.float32(self.divisor or self.batch_size)
        if self.spec.positives == "one":
            place = xp.where(real, known.starts[:-1] + positives, 0)
            weights = xp.where(real, known.values[place] / divisor, np.float32(0.0))
            return SparseRows(known.ids[place], weights, xp.arange(len(real) + 1, dtype=np.int32))
        weights = known.values / divisor
        if self.weight_of_term == "mean":
            counts = xp.diff(known.starts)
            of_point = xp.maximum(counts, 1).astype(np.float32)
            weights = weights / repeat(of_point, counts, known.ids.shape[0])
        return SparseRows(known.ids, weights, known.starts)

    @property
    def _device_draw(self) -> Callable[[Any, Any, Any], Sample] | None:
        """The sampler's draw on the device; None if the host sends the sample, or nobody draws."""
        sampler = self.sampler
        if sampler is None or not self.resident:
            return None
        if sampler.needs_batch_positives and self.data_parts > 1:
            return None  # a device has the positives of its own part alone
        return sampler.on_device

    def _host_sample(
        self,
        step: int,
        points: np.ndarray,
        positives: np.ndarray,
        entries: int,
        terms: SparseRows | None = None,
    ) -> Sample | None:
        """The host's draw; None if the device draws, or nobody does.

        Args:
          step: of the run.
          points: int [batch_size], the whole batch.
          positives: int [batch_size], which of its labels each point draws.
          entries: labels that a part of a batch has at most.
          terms: those of the whole batch, if it is made here anyway.
        """
        sampler = self.sampler
        if sampler is None or self._device_draw is not None:
            return None
        labels = None
        if sampler.needs_batch_positives:
            if terms is None:  # points of other processes may be in the batch
                assert self.labels_of_all is not None
                known = take(csr_of(self.labels_of_all), points, self.data_parts * entries)
                terms = self._terms(known, points, positives)
            labels = self._positives_of(terms)
        sample = sampler.on_host(step, labels)
        check_sample(sample, self.spec.num_labels)
        return sample

    def _positives_of(self, terms: SparseRows) -> Any:
        """The labels of the terms, int32 [T], NumPy or JAX; K where a term has no weight."""
        xp: Any = terms.ids.__array_namespace__()
        return xp.where(terms.values != 0, terms.ids, self.spec.num_labels)

    def materialize(self, resident: Any, item: Any, shape: tuple[int, int]) -> Batch:
        """The batch of one step, from what the host sent; runs inside the compiled step.

        Args:
          resident: `resident_arrays()`.
          item: one entry of `stack(...)`.
          shape: entries of features and labels, static: `shape(epoch)`.
        """
        if self.data_parts > 1:
            # A device has one part: the leading axis has length 1.
            resident = jax.tree.map(lambda x: x[0], resident)
            item = item._replace(
                **{name: jax.tree.map(lambda x: x[0], getattr(item, name)) for name in OF_POINTS
                   if hasattr(item, name)}
            )  # fmt: skip
        if not self.resident:
            return item
        features, labels = resident
        points, sample, draw = jnp.asarray(item.points), item.sample, self._device_draw
        block = take(features, points, shape[0])
        known = take(labels, points, shape[1])
        terms = self._terms(known, points, item.positives)
        if self.sampler is not None and draw is not None:
            reads = self.sampler.needs_batch_positives
            sample = draw(item.step, self._positives_of(terms) if reads else None, item.key[1])
        known_or_none = known if self.spec.exclude == "all" else None
        seen = block if self.drop_seen else None
        if self.input_dropout:
            block = with_dropout(block, jnp.asarray(item.dropout), self.input_dropout)
        common = item.step, item.key, item.decay
        return Batch(block, terms, known_or_none, sample, *common, None, seen, item.taken)

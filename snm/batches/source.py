"""Rows of the training set -> padded batches, from the host or on the device, one interface.

A source cuts the run into dispatches of several steps. `source.stack(steps)` is what the host
sends for them, with one entry a step; `source.materialize(resident, item)` turns one entry into a
`Batch` inside the compiled step. A streaming source sends the batch itself; a resident one keeps
the training set on the device and sends row numbers.

The order of the points (`snm.batches.epoch_order`), the positives drawn and the sampled labels are
functions of (seed, step) alone, so there is nothing of them to checkpoint. A source makes the
batches of a run, or only some parts of each, and needs no other points than stand in those.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.sparse import csr_matrix

from snm.batches.csr_blocks import Csr, gather, padded, part_of, take
from snm.batches.epoch_order import Order
from snm.head.spec import HeadSpec
from snm.sampling.frequency import FrequencySampler
from snm.sampling.in_batch import in_batch
from snm.sampling.sample import Sample
from snm.sampling.uniform import uniform_device, uniform_host
from snm.tables.by_row import Columns, columns_of
from snm.tables.table import SparseRows

__all__ = ["OF_POINTS", "Batch", "Source"]

OF_POINTS = ("features", "terms", "known", "points", "positives")
"""The fields of what the host sends that belong to points, and are cut into lanes."""


class Batch(NamedTuple):
    """What a step sees.

    Attributes:
      features: [n, d] block.
      terms: [n, K] block of the positives; values are the weights of the terms.
      known: [n, K] block of all known labels, or None where they are not asked for.
      sample: the labels drawn, or None where all labels are negatives.
      step: int32 scalar, counted from 0 over the whole run.
      key: uint32 [2], key data of the run's seed; as data, so that other seeds share the program.
      columns: the entries of `features` by feature, or None where the device has no use for them.
    """

    features: SparseRows
    terms: SparseRows
    known: SparseRows | None
    sample: Sample | None
    step: jax.Array
    key: jax.Array
    columns: Columns | None = None


class _Rows(NamedTuple):
    """One step as a resident source sends it: point numbers (-1 pads), places of positives."""

    points: Any
    positives: Any
    sample: Any
    step: Any
    key: Any


@dataclasses.dataclass(frozen=True, eq=False)
class Source:
    """The training points, cut into steps.

    Attributes:
      spec: the head, which says what is drawn.
      order: of the points with labels, all N of them.
      features: float32 CSR [m, d], weighted: points first .. first + m - 1, all that `own` has.
      labels: CSR [m, K] of the same.
      first: the number of the first of these.
      feature_counts: int [N], features of each point.
      label_counts: int [N], its labels.
      weight_of_term: sum or mean over the positives of a point.
      resident: keep the points on the device.
      sampler: uniform, frequency or in-batch.
      frequency: set up where sampler is frequency.
      in_batch_weights: float32 [K], set up where sampler is in-batch.
      num_frequent: features that a batch takes together (`columns`); None sorts no entries.
      lanes: parts that the points of a batch are cut into, one behind the other; from 2 on, what
        belongs to points has a leading axis of lanes.
      own: the lanes that this process makes, None for all; the batches are the same whatever it is.
      candidates: CSR [N, K], the labels of all points, where the sampler is in-batch.
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
    sampler: str = "uniform"
    frequency: FrequencySampler | None = None
    in_batch_weights: np.ndarray | None = None
    num_frequent: int | None = None
    lanes: int = 1
    own: range | None = None
    candidates: csr_matrix | None = None
    _shapes: dict[int, tuple[int, int]] = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def _key(self) -> Any:
        return np.asarray(jax.random.key_data(jax.random.key(self.seed)))

    def whole(self) -> Source:
        """The same batches in one piece."""
        return dataclasses.replace(self, lanes=1, own=None, _shapes={})

    @property
    def num_points(self) -> int:
        """Points with at least one label, those of other processes too."""
        return self.order.num_points

    @property
    def batch_size(self) -> int:
        """Points a step."""
        return self.order.batch_size

    @property
    def seed(self) -> int:
        """Of order, positives and samples."""
        return self.order.seed

    @property
    def steps_per_epoch(self) -> int:
        """Steps of one pass; the last is shorter where the batch size does not divide."""
        return self.order.steps

    def shape(self, number: int) -> tuple[int, int]:
        """Entries of features and of labels that hold any batch of an epoch, rounded up."""
        if number not in self._shapes:
            order = self.order.epoch(number)[0].reshape(-1, self.batch_size // self.lanes)
            self._shapes[number] = (
                padded(self.feature_counts, order),
                padded(self.label_counts, order),
            )
        return self._shapes[number]

    def shape_of_step(self, step: int) -> tuple[int, int]:
        """`shape` of the epoch that a step belongs to."""
        return self.shape(step // self.steps_per_epoch)

    def points_of_lane(self, lane: int) -> range:
        """The points that a lane of any batch may have."""
        width = self.batch_size // self.lanes
        return self.order.points_at(lane * width, (lane + 1) * width)

    def resident_arrays(self) -> Any:
        """What stays on the device: the training set, or nothing.

        From two lanes on each has its own points, in arrays that are stacked and equally long.
        """
        if not self.resident:
            return ()
        matrices = (self.features, self.labels)
        if self.lanes == 1:
            return tuple(
                Csr(
                    jnp.asarray(matrix.indptr, jnp.int32),
                    jnp.asarray(matrix.indices, jnp.int32),
                    jnp.asarray(matrix.data, jnp.float32),
                )
                for matrix in matrices
            )
        ranges = [self.points_of_lane(lane) for lane in range(self.lanes)]
        points = max(len(lane) for lane in ranges)
        found = []
        for matrix, counts in zip(matrices, (self.feature_counts, self.label_counts), strict=True):
            entries = max(int(counts[lane.start : lane.stop].sum()) for lane in ranges)
            own = ranges if self.own is None else ranges[self.own.start : self.own.stop]
            parts = [
                part_of(matrix, lane.start - self.first, lane.stop - self.first, points, entries)
                for lane in own
            ]
            found.append(jax.tree.map(lambda *leaves: np.stack(leaves), *parts))
        return tuple(found)

    def stack(self, first: int, count: int) -> Any:
        """What the host sends for steps first .. first + count - 1 of one epoch, stacked."""
        number = first // self.steps_per_epoch
        items = [self._item(number, step) for step in range(first, first + count)]
        return jax.tree.map(lambda *leaves: np.stack(leaves), *items)

    def _item(self, number: int, step: int) -> Any:
        order, draw = self.order.epoch(number)
        points = order[step % self.steps_per_epoch]
        real = points >= 0
        counter: Any = np.asarray(step, np.int32)
        counts = self.label_counts[points]
        positives = np.where(real, (draw[points] * counts).astype(np.int64), 0)
        if self.resident:
            sample = self._sample(step, None)
            rows = self._numbers_on_device(points), self._owned(positives).astype(np.int32)
            return _Rows(*rows, sample, counter, self._key)
        shape = self.shape(number)
        if self.lanes == 1:
            features, terms, known = self._blocks(points, positives, shape)
            sample = self._sample(step, terms)
            columns = None if self.num_frequent is None else columns_of(features, self.num_frequent)
            return Batch(features, terms, known, sample, counter, self._key, columns)
        cut = zip(self._owned(points), self._owned(positives), strict=True)
        lanes = [self._blocks(*lane, shape) for lane in cut]
        features, terms, known = jax.tree.map(lambda *leaves: np.stack(leaves), *lanes)
        sample = self._sample(step, self._candidates(points, positives, shape[1]))
        return Batch(features, terms, known, sample, counter, self._key)

    def _owned(self, of_points: np.ndarray) -> np.ndarray:
        if self.lanes == 1:
            return of_points
        cut = of_points.reshape(self.lanes, -1)
        return cut if self.own is None else cut[self.own.start : self.own.stop]

    def _numbers_on_device(self, points: np.ndarray) -> np.ndarray:
        """Numbers of points as `resident_arrays` has them: each lane counts its own."""
        if self.lanes == 1:
            return points.astype(np.int32)
        begin = np.array([self.points_of_lane(lane).start for lane in range(self.lanes)])
        every = points.reshape(self.lanes, -1)
        return self._owned(np.where(every >= 0, every - begin[:, None], -1)).astype(np.int32)

    def _candidates(
        self, points: np.ndarray, positives: np.ndarray, entries: int
    ) -> SparseRows | None:
        """The positives of a whole batch, which all processes need where they are the sample."""
        if self.candidates is None:
            return None
        known = take(self.candidates, points, self.lanes * entries)
        return self._terms(known, positives, points >= 0)

    def _blocks(
        self, points: np.ndarray, positives: np.ndarray, shape: tuple[int, int]
    ) -> tuple[SparseRows, SparseRows, SparseRows | None]:
        """Features, terms and, where they are needed, known labels of some points."""
        here = np.where(points >= 0, points - self.first, -1)
        features = take(self.features, here, shape[0])
        known = take(self.labels, here, shape[1])
        terms = self._terms(known, positives, points >= 0)
        return features, terms, known if self.spec.exclude == "all" else None

    def _terms(self, known: SparseRows, positives: np.ndarray, real: np.ndarray) -> SparseRows:
        ids, values, starts = (np.asarray(part) for part in known)
        if self.spec.positives == "one":
            place = np.where(real, starts[:-1] + positives, 0)
            weights = np.where(real, 1.0 / self.batch_size, 0.0).astype(np.float32)
            every = np.arange(len(real) + 1, dtype=np.int32)
            return _on_host(ids[place], weights, every)
        weights = (values / np.float32(self.batch_size)).astype(np.float32)
        if self.weight_of_term == "mean":
            counts = np.diff(starts)
            of_entry = np.repeat(np.maximum(counts, 1), counts)
            weights[: len(of_entry)] /= of_entry
        return _on_host(ids, weights, starts)

    def _sample(self, step: int, terms: SparseRows | None) -> Sample | None:
        spec = self.spec
        if self.sampler == "in-batch":
            if terms is None:
                return None  # drawn on the device, from the batch
            return _in_batch_host(terms, self.in_batch_size(terms.ids.shape[0]), spec.num_labels,
                                  self.in_batch_weights)  # fmt: skip
        if spec.samples_all or (self.resident and self.sampler == "uniform"):
            return None
        size = spec.sampled + 1
        if self.sampler == "frequency":
            assert self.frequency is not None
            return self.frequency.draw(self.seed, step, size)
        return uniform_host(self.seed, step, spec.num_labels, size)

    def in_batch_size(self, terms: int) -> int:
        """Slots that hold the distinct positives of any batch."""
        return min(terms, self.spec.num_labels)

    def materialize(self, resident: Any, item: Any, shape: tuple[int, int]) -> Batch:
        """The batch of one step, from what the host sent; runs inside the compiled step.

        Args:
          resident: `resident_arrays()`.
          item: one entry of `stack(...)`.
          shape: entries of features and labels, static: `shape(epoch)`.
        """
        if self.lanes > 1:
            # On its device a lane is alone.
            resident = jax.tree.map(lambda x: x[0], resident)
            item = item._replace(
                **{name: jax.tree.map(lambda x: x[0], getattr(item, name)) for name in OF_POINTS
                   if hasattr(item, name)}
            )  # fmt: skip
        if not self.resident:
            return item
        features, labels = resident
        block = gather(features, item.points, shape[0])
        known = gather(labels, item.points, shape[1])
        terms = self._device_terms(known, item)
        spec = self.spec
        sample = item.sample
        if self.sampler == "in-batch":
            weights = self.in_batch_weights
            ids = jnp.where(terms.values != 0, terms.ids, spec.num_labels)
            sample = in_batch(
                ids, self.in_batch_size(ids.shape[0]), spec.num_labels, label_log_weights=weights
            )
        elif sample is None and not spec.samples_all:
            sample = uniform_device(self.seed, item.step, spec.num_labels, spec.sampled + 1)
        known_or_none = known if spec.exclude == "all" else None
        return Batch(block, terms, known_or_none, sample, item.step, item.key)

    def _device_terms(self, known: SparseRows, item: _Rows) -> SparseRows:
        real = item.points >= 0
        if self.spec.positives == "one":
            place = jnp.where(real, known.starts[:-1] + item.positives, 0)
            weights = jnp.where(real, jnp.float32(1.0 / self.batch_size), 0)
            return SparseRows(known.ids[place], weights, jnp.arange(len(real) + 1))
        weights = known.values / np.float32(self.batch_size)
        if self.weight_of_term == "mean":
            counts = jnp.diff(known.starts)
            of_entry = jnp.repeat(
                jnp.maximum(counts, 1), counts, total_repeat_length=known.ids.shape[0]
            )
            weights = weights / of_entry
        return SparseRows(known.ids, weights, known.starts)


def _on_host(ids: Any, values: Any, starts: Any) -> SparseRows:
    """A block of NumPy arrays, which turn into jax's where it enters a compiled step."""
    return SparseRows(ids, values, starts)


def _in_batch_host(
    terms: SparseRows, size: int, num_labels: int, log_weights: np.ndarray | None
) -> Sample:
    labels = np.where(np.asarray(terms.values) != 0, np.asarray(terms.ids), num_labels)
    distinct = np.unique(labels)
    distinct = distinct[distinct < num_labels]
    ids = np.full(size, num_labels, np.int32)
    ids[: len(distinct)] = distinct
    weights = np.full(size, -np.inf, np.float32)
    weights[: len(distinct)] = 0 if log_weights is None else log_weights[distinct]
    return Sample(ids, np.asarray(size, np.int32), weights)

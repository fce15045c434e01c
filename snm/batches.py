"""Rows of the training set -> padded batches, from the host or on the device, one interface.

A source cuts the run into dispatches of several steps. `source.stack(steps)` is what the host
sends for them, with one entry a step; `source.materialize(resident, item)` turns one entry into a
`Batch` inside the compiled step. A streaming source sends the batch itself; a resident one keeps
the training set on the device and sends row numbers.

The order of the points, the positives drawn and the sampled labels are functions of (seed, step)
alone, so there is nothing of them to checkpoint.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.sparse import csr_matrix

from snm import sampling
from snm.columns import Columns, columns_of, count_frequent
from snm.rows import SparseRows
from snm.sampling import Sample
from snm.spec import HeadSpec

__all__ = ["OF_POINTS", "Batch", "Source", "block_of", "make_source"]

OF_POINTS = ("features", "terms", "known", "points", "positives")
"""The fields of what the host sends that belong to points, and are cut into lanes."""

_STREAM_ORDER = 1
_STREAM_POSITIVES = 2


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


class _Csr(NamedTuple):
    """A sparse matrix as three arrays, on the host or on the device."""

    starts: Any
    ids: Any
    values: Any


@dataclasses.dataclass(frozen=True, eq=False)
class Source:
    """The training points, cut into steps.

    Attributes:
      spec: the head, which says what is drawn.
      features: float32 CSR [N, d], weighted; rows without labels are already left out.
      labels: CSR [N, K].
      batch_size: points a step.
      seed: of order, positives and samples.
      weight_of_term: sum or mean over the positives of a point.
      resident: keep the points on the device.
      sampler: uniform, frequency or in-batch.
      frequency: set up where sampler is frequency.
      in_batch_weights: float32 [K], set up where sampler is in-batch.
      num_frequent: features that a batch takes together (`columns`); None sorts no entries.
      lanes: parts that the points of a batch are cut into, one behind the other; from 2 on, what
        belongs to points has a leading axis of lanes.
      own: the lanes that this process makes, None for all; the batches are the same whatever it is.
    """

    spec: HeadSpec
    features: csr_matrix
    labels: csr_matrix
    batch_size: int
    seed: int
    weight_of_term: str
    resident: bool
    sampler: str = "uniform"
    frequency: sampling.FrequencySampler | None = None
    in_batch_weights: np.ndarray | None = None
    num_frequent: int | None = None
    lanes: int = 1
    own: range | None = None
    _lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)
    _epochs: dict[int, tuple[np.ndarray, np.ndarray]] = dataclasses.field(default_factory=dict)
    _shapes: dict[int, tuple[int, int]] = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def _key(self) -> Any:
        return np.asarray(jax.random.key_data(jax.random.key(self.seed)))

    def whole(self) -> Source:
        """The same batches in one piece."""
        return dataclasses.replace(self, lanes=1, own=None, _shapes={})

    @property
    def num_points(self) -> int:
        """Points with at least one label."""
        return self.features.shape[0]

    @property
    def steps_per_epoch(self) -> int:
        """Steps of one pass; the last is shorter where the batch size does not divide."""
        return -(-self.num_points // self.batch_size)

    def epoch(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """The order of an epoch, int [steps, batch_size] (-1 pads), and a draw for each point."""
        with self._lock:
            if number not in self._epochs:
                # The loader's thread is ahead of the one that trains, by two epochs at most.
                for old in [other for other in self._epochs if abs(other - number) > 2]:
                    del self._epochs[old]
                self._epochs[number] = self._new_epoch(number)
            return self._epochs[number]

    def _new_epoch(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        order = np.full(self.steps_per_epoch * self.batch_size, -1, np.int64)
        order[: self.num_points] = self._rng(_STREAM_ORDER, number).permutation(self.num_points)
        draw = self._rng(_STREAM_POSITIVES, number).random(self.num_points)
        return order.reshape(-1, self.batch_size), draw

    def _rng(self, stream: int, number: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence([self.seed, stream, number]))

    def shape(self, number: int) -> tuple[int, int]:
        """Entries of features and of labels that hold any batch of an epoch, rounded up."""
        if number not in self._shapes:
            order = self.epoch(number)[0].reshape(-1, self.batch_size // self.lanes)
            self._shapes[number] = _padded(self.features, order), _padded(self.labels, order)
        return self._shapes[number]

    def shape_of_step(self, step: int) -> tuple[int, int]:
        """`shape` of the epoch that a step belongs to."""
        return self.shape(step // self.steps_per_epoch)

    def points_of(self, first: int, count: int) -> int:
        """Points in steps first .. first + count - 1 of one epoch."""
        begin = first % self.steps_per_epoch * self.batch_size
        return min(begin + count * self.batch_size, self.num_points) - begin

    def resident_arrays(self) -> Any:
        """What stays on the device: the training set, or nothing."""
        if not self.resident:
            return ()
        features, labels = (
            _Csr(
                jnp.asarray(matrix.indptr, jnp.int32),
                jnp.asarray(matrix.indices, jnp.int32),
                jnp.asarray(matrix.data, jnp.float32),
            )
            for matrix in (self.features, self.labels)
        )
        return features, labels

    def stack(self, first: int, count: int) -> Any:
        """What the host sends for steps first .. first + count - 1 of one epoch, stacked."""
        number = first // self.steps_per_epoch
        items = [self._item(number, step) for step in range(first, first + count)]
        return jax.tree.map(lambda *leaves: np.stack(leaves), *items)

    def _item(self, number: int, step: int) -> Any:
        order, draw = self.epoch(number)
        points = order[step % self.steps_per_epoch]
        counts = np.diff(self.labels.indptr)
        real = points >= 0
        counter: Any = np.asarray(step, np.int32)
        positives = np.where(real, (draw[points] * counts[points]).astype(np.int64), 0)
        if self.resident:
            sample = self._sample(step, None)
            points, drawn = self._owned(points), self._owned(positives)
            rows = points.astype(np.int32), drawn.astype(np.int32)
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

    def _candidates(
        self, points: np.ndarray, positives: np.ndarray, entries: int
    ) -> SparseRows | None:
        """The positives of a whole batch, which all processes need where they are the sample."""
        if self.sampler != "in-batch":
            return None
        known = _take(self.labels, points, self.lanes * entries)
        return self._terms(known, positives, points >= 0)

    def _blocks(
        self, points: np.ndarray, positives: np.ndarray, shape: tuple[int, int]
    ) -> tuple[SparseRows, SparseRows, SparseRows | None]:
        """Features, terms and, where they are needed, known labels of some points."""
        features = _take(self.features, points, shape[0])
        known = _take(self.labels, points, shape[1])
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
        return sampling.uniform_host(self.seed, step, spec.num_labels, size)

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
            item = item._replace(
                **{name: jax.tree.map(lambda x: x[0], getattr(item, name)) for name in OF_POINTS
                   if hasattr(item, name)}
            )  # fmt: skip
        if not self.resident:
            return item
        features, labels = resident
        block = _gather(features, item.points, shape[0])
        known = _gather(labels, item.points, shape[1])
        terms = self._device_terms(known, item)
        spec = self.spec
        sample = item.sample
        if self.sampler == "in-batch":
            weights = self.in_batch_weights
            ids = jnp.where(terms.values != 0, terms.ids, spec.num_labels)
            sample = sampling.in_batch(
                ids, self.in_batch_size(ids.shape[0]), spec.num_labels, label_log_weights=weights
            )
        elif sample is None and not spec.samples_all:
            sample = sampling.uniform_device(
                self.seed, item.step, spec.num_labels, spec.sampled + 1
            )
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


def make_source(
    spec: HeadSpec,
    features: csr_matrix,
    labels: csr_matrix,
    *,
    batch_size: int,
    seed: int,
    weight_of_term: str,
    resident: bool,
    sampler: str,
    frequency_power: float,
    lanes: int | None = None,
    own: range | None = None,
) -> Source:
    """The training points with at least one label, ready to be cut into steps.

    Args:
      spec: the head.
      features: float32 CSR [N, d], weighted.
      labels: CSR [N, K].
      batch_size: points a step; at most all of them.
      seed: of order, positives and samples.
      weight_of_term: sum or mean.
      resident: keep the points on the device.
      sampler: uniform, frequency or in-batch.
      frequency_power: of the frequency sampler.
      lanes: parts that a batch is cut into on a mesh; a divisor of `batch_size`.
      own: those that this process makes; None for all.
    """
    labelled = np.flatnonzero(np.diff(labels.indptr))
    if len(labelled) < labels.shape[0]:
        features, labels = features[labelled], labels[labelled]
    frequency = np.bincount(labels.indices, minlength=spec.num_labels)
    parts = lanes or 1
    batch_size = min(batch_size, -(-labels.shape[0] // parts) * parts)
    num_frequent = None
    on_cpu = lanes is None and not resident and jax.default_backend() == "cpu"
    if on_cpu and spec.row_optimizer == "sgd":
        counts = np.bincount(features.indices, minlength=features.shape[1])
        num_frequent = count_frequent(counts, features.shape[0])
    return Source(
        spec=spec,
        features=features,
        labels=labels,
        batch_size=batch_size,
        seed=seed,
        weight_of_term=weight_of_term,
        resident=resident,
        sampler=sampler,
        frequency=(
            sampling.FrequencySampler(frequency, frequency_power)
            if sampler == "frequency"
            else None
        ),
        in_batch_weights=(
            sampling.in_batch_log_weights(frequency, labels.shape[0], batch_size)
            if sampler == "in-batch"
            else None
        ),
        num_frequent=num_frequent,
        lanes=parts,
        own=own,
    )


def _padded(matrix: csr_matrix, order: np.ndarray) -> int:
    """The most entries that a batch has, rounded up by at most an eighth, so that epochs share."""
    counts = np.append(np.diff(matrix.indptr), 0)  # -1, the padding, counts 0
    most = max(int(counts[order].sum(axis=1).max()), 8)
    unit = 1 << max(most.bit_length() - 4, 3)
    return -(-most // unit) * unit


def _take(matrix: csr_matrix, points: np.ndarray, entries: int) -> SparseRows:
    """Rows of a matrix as a padded block; -1 gives an empty row."""
    begin = matrix.indptr[points]
    counts = np.where(points >= 0, matrix.indptr[points + 1] - begin, 0)
    starts = np.zeros(len(points) + 1, np.int32)
    np.cumsum(counts, out=starts[1:])
    total = int(starts[-1])
    place = np.arange(total) + np.repeat(begin - starts[:-1], counts)
    ids, values = np.zeros(entries, np.int32), np.zeros(entries, np.float32)
    ids[:total], values[:total] = matrix.indices[place], matrix.data[place]
    return _on_host(ids, values, starts)


def _on_host(ids: Any, values: Any, starts: Any) -> SparseRows:
    """A block of NumPy arrays, which turn into jax's where it enters a compiled step."""
    return SparseRows(ids, values, starts)


def block_of(matrix: csr_matrix, points: np.ndarray, at_least: int = 8) -> SparseRows:
    """Rows of a matrix as a block, padded to a power of two entries; -1 gives an empty row."""
    counts = np.append(np.diff(matrix.indptr), 0)[points]
    return _take(matrix, points, 1 << max(int(counts.sum()), at_least).bit_length())


def _gather(matrix: _Csr, points: jax.Array, entries: int) -> SparseRows:
    """`_take` on the device."""
    begin = matrix.starts[points]
    counts = jnp.where(points >= 0, matrix.starts[points + 1] - begin, 0)
    starts = jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.cumsum(counts, dtype=jnp.int32)])
    shift = jnp.repeat(begin - starts[:-1], counts, total_repeat_length=entries)
    entry = jnp.arange(entries, dtype=jnp.int32)
    real = entry < starts[-1]
    place = jnp.where(real, entry + shift, 0)
    return SparseRows(
        jnp.where(real, matrix.ids[place], 0), jnp.where(real, matrix.values[place], 0), starts
    )


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

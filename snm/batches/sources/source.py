"""Batches of the training set, from the host or from the device, behind one interface.

A run is cut into dispatches of several steps. `source.stack(first, count)` is the data that the
host sends for one of them, with one entry per step. `source.materialize(resident, item, shape)`
turns an entry into a `Batch` inside the compiled step. A `HostSource` sends the batch itself; a
`DeviceSource` keeps the training set on the device and sends the numbers of points.

The order of the points (`snm.batches.epoch_order`), the positives drawn and the sampled labels are
functions of (seed, step), so a checkpoint does not contain them. A source makes whole batches
or, on a mesh, only the parts of them that this process's devices need, and reads only the points
that may stand in those.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Self

import jax
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.batches.batch import Batch
from snm.batches.csr_blocks import as_sparse_rows, take
from snm.batches.epoch_order import Order
from snm.batches.schedule import CONSTANT, Schedule
from snm.batches.sources.assembly import Assembly, Terms
from snm.batches.sources.counts import PointCounts
from snm.batches.sources.sizes import EpochSizes
from snm.head.spec import HeadSpec
from snm.sampling.protocol import Sampler
from snm.sampling.sample import Sample, check_sample
from snm.tables.table import SparseRows

__all__ = ["BatchSettings", "Source"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchSettings:
    """Settings of the batches.

    Attributes:
      positive_weights: sum or mean over the positives of a point.
      input_dropout: fraction of a point's features that are dropped, in [0, 1).
      drop_seen: whether batches contain all features of a point, as labels that are not negatives.
    """

    positive_weights: str = "mean"
    input_dropout: float = 0.0
    drop_seen: bool = False


@dataclasses.dataclass(frozen=True, eq=False)
class Source(abc.ABC):
    """The training points, cut into steps.

    Attributes:
      spec: the head; one that differs only in B, k' or scale has the same points.
      settings: settings of the batches.
      sizes: sizes of the batches of each epoch, and the order of the N points with labels.
      features: float32 CSR [m, d], weighted: points counts.first .. counts.first + m - 1, those
        that the parts in `own` may have.
      labels: float32 CSR [m, K] of the same points; the values are the weights of the points over
        their mean, which are above 0, times those of the labels.
      sampler_of: builds the sampler of a head; returns None if all labels are negatives.
      own: the parts that this process makes, None for all; the batches are the same for any.
      schedule: the schedule of the learning rates.
      divisor: divisor of the weights of terms; None is the batch size.
    """

    spec: HeadSpec
    settings: BatchSettings
    sizes: EpochSizes
    features: csr_matrix
    labels: csr_matrix
    sampler_of: Callable[[HeadSpec], Sampler | None]
    own: range | None = None
    schedule: Schedule = CONSTANT
    divisor: int | None = None

    @functools.cached_property
    def sampler(self) -> Sampler | None:
        """Draws the negatives; None if all labels are negatives."""
        return self.sampler_of(self.spec)

    @property
    def terms(self) -> Terms:
        """Makes the terms of a batch."""
        return Terms(
            num_labels=self.spec.num_labels,
            one_positive=self.spec.one_positive,
            positive_weights=self.settings.positive_weights,
            divisor=self.divisor or self.batch_size,
        )

    @property
    @abc.abstractmethod
    def assembly(self) -> Assembly:
        """The static part of `materialize`, by which programs are kept."""

    @functools.cached_property
    def _key(self) -> NDArray[np.uint32]:
        return np.array([0, self.order.seed % 2**32], np.uint32)  # as `jax.random.key`, uncompiled

    def whole(self) -> Self:
        """A source of the same batches, not cut into parts."""
        sizes = dataclasses.replace(self.sizes, data_parts=1)
        return dataclasses.replace(self, sizes=sizes, own=None)

    def for_centroids(self) -> Self:
        """A source of the same points with all features and labels, weighted like the point.

        Its batches need no random draws.
        """
        return dataclasses.replace(
            self,
            spec=dataclasses.replace(self.spec, positives="all"),
            settings=dataclasses.replace(self.settings, input_dropout=0.0, positive_weights="sum"),
            sizes=dataclasses.replace(self.sizes, dropout=0.0),
            sampler_of=lambda spec: None,
            divisor=1,
        )

    @property
    def order(self) -> Order:
        """The order of the points with labels, all N of them."""
        return self.sizes.order

    @property
    def counts(self) -> PointCounts:
        """Counts of all N points."""
        return self.sizes.counts

    @property
    def data_parts(self) -> int:
        """Parts that the points of a batch are cut into, in order.

        From 2 on, what belongs to points has a leading axis of parts.
        """
        return self.sizes.data_parts

    @property
    def num_points(self) -> int:
        """Points with at least one label, those of other processes included."""
        return self.order.num_points

    @property
    def batch_size(self) -> int:
        """Points per step."""
        return self.order.batch_size

    @property
    def steps_per_epoch(self) -> int:
        """Steps of one pass; the last is shorter if the batch size does not divide N."""
        return self.order.steps

    def shape(self, step: int) -> tuple[int, int]:
        """Entries of features and of labels that hold any batch of the step's epoch, rounded up."""
        return self.sizes.entries(step // self.steps_per_epoch)[:2]

    def points_of_part(self, part: int) -> range:
        """The points that a part of any batch may have."""
        width = self.sizes.width
        return self.order.points_at_positions(part * width, (part + 1) * width)

    @abc.abstractmethod
    def resident_arrays(self) -> Any:
        """The arrays that stay on the device: the training set, or nothing."""

    def resident_shapes(self) -> Any:
        """The shapes of `resident_arrays`."""
        return jax.eval_shape(self.resident_arrays)

    def stack(self, first: int, count: int, length: int = 0) -> Any:
        """The data of steps first .. first + count - 1 of one epoch, stacked.

        If the points are on the device, padding steps fill the stack up to `length`.
        """
        items = self._items(range(first, first + count), length)
        return jax.tree.map(lambda *leaves: np.stack(leaves), *items)

    @abc.abstractmethod
    def _items(self, steps: range, length: int) -> list[Any]:
        """The data of some steps, and of padding steps up to `length`."""

    def _draw_points(self, step: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The points of a step, -1 where a place is empty, and which of its labels each draws."""
        epoch, place = divmod(step, self.steps_per_epoch)
        rows, draw = self.order.epoch(epoch)
        points = rows[place]
        counts = self.counts.labels[points]
        return points, np.where(points >= 0, (draw[points] * counts).astype(np.int64), 0)

    def _scalars(self, step: int) -> dict[str, Any]:
        """What `Batch` and `DeviceItem` have in common, of NumPy."""
        return {"step": np.int32(step), "key": self._key, "rates": self.schedule(step)}

    def _owned(self, of_points: np.ndarray) -> np.ndarray:
        """The part of an array of a batch's points that this process makes, by data parts."""
        if self.data_parts == 1:
            return of_points
        cut = of_points.reshape(self.data_parts, -1)
        return cut if self.own is None else cut[self.own.start : self.own.stop]

    def _host_sample(
        self,
        step: int,
        points: np.ndarray,
        positives: np.ndarray,
        terms: SparseRows | None = None,
    ) -> Sample | None:
        """The sample that the host draws; None if all labels are negatives.

        Args:
          step: of the run.
          points: int [batch_size], the whole batch.
          positives: int [batch_size], which of its labels each point draws.
          terms: the terms of the whole batch, if this process makes them.
        """
        sampler = self.sampler
        if sampler is None:
            return None
        labels = None
        if sampler.needs_batch_positives:
            if terms is None:  # points of other processes may be in the batch
                assert self.counts.labels_of_all is not None
                entries = self.data_parts * self.shape(step)[1]
                known = take(as_sparse_rows(self.counts.labels_of_all), points, entries)
                terms = self.terms.make(known, points, positives)
            labels = self.terms.positives(terms)
        sample = sampler.on_host(step, labels)
        self._check_sample(sampler, sample, f"step {step}")
        return sample

    def _check_sample(self, sampler: Sampler, sample: Sample, which: str) -> None:
        """Raises `InputError` if a sampler drew what it may not (`check_sample`)."""
        where = f"sampler {type(sampler).__name__}, {which}"
        slots = None if sampler.needs_batch_positives else self.spec.num_slots
        ranks = self.spec.head_loss.has_rank_weights
        check_sample(sample, where, self.spec.num_labels, slots=slots, ranks=ranks)

    def check_device_draw(self) -> None:  # noqa: B027 (the host checks every draw of its own)
        """Checks one draw of a sampler of your own that draws inside the compiled step.

        Within the step nothing can be checked.

        Raises:
          InputError: the sampler drew what it may not (`check_sample`).
        """

    def materialize(self, resident: Any, item: Any, shape: tuple[int, int]) -> Batch:
        """The batch of one step, from what the host sent; runs inside the compiled step.

        Args:
          resident: `resident_arrays()`.
          item: one entry of `stack(...)`.
          shape: entries of features and labels, static: `shape(step)`.
        """
        return self.assembly(resident, item, shape)

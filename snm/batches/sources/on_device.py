"""A source with the points on the device; the host sends the numbers of the points."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import numpy as np

from snm.batches.batch import DeviceItem
from snm.batches.csr_blocks import as_sparse_rows, padded_slice, take
from snm.batches.dropout import dropout_keys
from snm.batches.sources.assembly import DeviceAssembly
from snm.batches.sources.source import Source
from snm.sampling.samplers import TESTED
from snm.tables.table import SparseRows

__all__ = ["Capacity", "DeviceSource"]


class Capacity(NamedTuple):
    """What the arrays of a training set on the device can hold.

    Attributes:
      points: the number of points.
      feature_entries: non-zero features of all points.
      label_entries: labels of all points.
    """

    points: int
    feature_entries: int
    label_entries: int


@functools.partial(jax.jit, static_argnums=0)
def _drawn_alone(draw: Any, step: Any, positives: Any, seed: Any) -> Any:
    """A draw outside of the step, with its numbers."""
    return draw(step, positives, seed)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class DeviceSource(Source):
    """A source with the training points on the device, which makes batches inside the step.

    Attributes:
      capacity: of the arrays on the device; None for the actual numbers. With capacity for all
        points, a member that trains on some of them usually shares the program of the others.
    """

    capacity: Capacity | None = None

    def resident_arrays(self) -> Any:
        """The training set: features and labels.

        From two data parts on, each has its own points, in arrays that are padded to one length
        and stacked.
        """
        matrices = (self.features, self.labels)
        if self.data_parts == 1:
            rows, *sizes = self._capacity
            sized = zip(matrices, sizes, strict=True)
            whole = tuple(padded_slice(m, 0, m.shape[0], rows, size) for m, size in sized)
            return jax.tree.map(jax.device_put, whole)
        ranges = [self.points_of_part(part) for part in range(self.data_parts)]
        points = max(len(part) for part in ranges)
        own = ranges if self.own is None else ranges[self.own.start : self.own.stop]
        first, found = self.counts.first, []
        for matrix, counts in zip(
            matrices, (self.counts.features, self.counts.labels), strict=True
        ):
            entries = max(int(counts[part.start : part.stop].sum()) for part in ranges)
            slices = [
                padded_slice(matrix, part.start - first, part.stop - first, points, entries)
                for part in own
            ]
            found.append(jax.tree.map(lambda *leaves: np.stack(leaves), *slices))
        return tuple(found)

    def resident_shapes(self) -> Any:
        """The shapes of `resident_arrays`, of which nothing is made where there is one part."""
        if self.data_parts > 1:
            return super().resident_shapes()
        points, *entries = self._capacity
        shape = jax.ShapeDtypeStruct
        return tuple(
            SparseRows(
                ids=shape((n,), np.int32),
                values=shape((n,), np.float32),
                starts=shape((points + 1,), np.int32),
            )
            for n in entries
        )

    @property
    def _capacity(self) -> Capacity:
        if self.capacity is not None:
            return self.capacity
        return Capacity(len(self.counts.labels), self.features.nnz, self.labels.nnz)

    def _items(self, steps: range, length: int) -> list[DeviceItem]:
        items = [self._item(step) for step in steps]
        return items + [items[-1]._replace(taken=np.False_)] * (length - len(items))

    def _item(self, step: int) -> DeviceItem:
        points, positives = self._draw_points(step)
        keys = None
        if self.settings.input_dropout:
            epoch = step // self.steps_per_epoch
            keys = self._owned(dropout_keys(self.order.seed, epoch, points))
        draws = self.assembly.draw is not None
        return DeviceItem(
            points=self._numbers(points),
            positives=self._owned(positives).astype(np.int32),
            dropout=keys,
            sample=None if draws else self._host_sample(step, points, positives),
            taken=np.True_,
            **self._scalars(step),
        )

    def _numbers(self, points: np.ndarray) -> np.ndarray:
        """Numbers of points as `resident_arrays` has them: each part counts its own from 0."""
        if self.data_parts == 1:
            return points.astype(np.int32)
        begin = np.array([self.points_of_part(part).start for part in range(self.data_parts)])
        every = points.reshape(self.data_parts, -1)
        return self._owned(np.where(every >= 0, every - begin[:, None], -1)).astype(np.int32)

    def check_device_draw(self) -> None:
        """As of `Source`: of a sampler that is not of this package, whose draws have tests."""
        draw, sampler, positives = self.assembly.draw, self.sampler, None
        if draw is None or sampler is None or type(sampler) in TESTED:  # compiling it takes seconds
            return
        if self.assembly.reads_positives:  # of the first batch, which is whole here
            points, drawn = self._draw_points(0)
            labels = take(as_sparse_rows(self.labels), points, self.shape(0)[1])
            positives = self.terms.positives(self.terms.make(labels, points, drawn))
        sample = _drawn_alone(draw, np.int32(0), positives, self._key[1])
        self._check_sample(sampler, sample, "on_device at step 0")

    @functools.cached_property
    def assembly(self) -> DeviceAssembly:
        """Takes the rows of the points, drops features out and draws, on the device."""
        sampler, draw, reads = self.sampler, None, False
        if sampler is not None:
            reads = sampler.needs_batch_positives
            # A device of a mesh has the positives of its own part alone.
            draw = None if reads and self.data_parts > 1 else sampler.on_device
        return DeviceAssembly(
            terms=self.terms,
            data_parts=self.data_parts,
            input_dropout=self.settings.input_dropout,
            excludes_known=self.spec.excludes_known,
            drop_seen=self.settings.drop_seen,
            draw=draw,
            reads_positives=reads,
        )

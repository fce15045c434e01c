"""A source whose points stay on the device: the host sends their numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from snm.batches.batch import Batch, PointNumbers, own_part
from snm.batches.csr_blocks import slice_of, take
from snm.batches.dropout import keys_of_points, with_dropout
from snm.batches.sources.source import Source
from snm.sampling.sample import Sample
from snm.tables.table import SparseRows

__all__ = ["DeviceSource"]


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class DeviceSource(Source):
    """The training points on the device, which takes the rows of a batch inside the step.

    Attributes:
      room: points, and entries of their features and labels, that the arrays on a device have room
        for; None is those that there are. A member that trains on some of the points, with room for
        all, has the program of the others as a rule.
    """

    resident = True

    room: tuple[int, int, int] | None = None

    def resident_arrays(self) -> Any:
        """The training set: features and labels.

        From two data parts on, each has its own points, in arrays that are padded to one length
        and stacked.
        """
        matrices = (self.features, self.labels)
        if self.data_parts == 1:
            rows, *sizes = self._room
            sized = zip(matrices, sizes, strict=True)
            whole = tuple(slice_of(m, 0, m.shape[0], rows, size) for m, size in sized)
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
                slice_of(matrix, part.start - first, part.stop - first, points, entries)
                for part in own
            ]
            found.append(jax.tree.map(lambda *leaves: np.stack(leaves), *slices))
        return tuple(found)

    def resident_shapes(self) -> Any:
        """The shapes of `resident_arrays`, of which nothing is made where there is one part."""
        if self.data_parts > 1:
            return jax.eval_shape(self.resident_arrays)
        points, *entries = self._room
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
    def _room(self) -> tuple[int, int, int]:
        return self.room or (len(self.counts.labels), self.features.nnz, self.labels.nnz)

    def _items(self, steps: range, length: int) -> list[PointNumbers]:
        items = [self._item(step) for step in steps]
        return items + [items[-1]._replace(taken=np.False_)] * (length - len(items))

    def _item(self, step: int) -> PointNumbers:
        drawn = self._drawn(step)
        keys = None
        if self.settings.input_dropout:
            epoch = step // self.steps_per_epoch
            keys = self._owned(keys_of_points(self.order.seed, epoch, drawn.points))
        draws = self._device_draw is not None
        return PointNumbers(
            points=self._numbers(drawn.points),
            positives=self._owned(drawn.positives).astype(np.int32),
            dropout=keys,
            sample=None if draws else self._host_sample(step, drawn.points, drawn.positives),
            step=drawn.step,
            key=drawn.key,
            rates=drawn.rates,
            taken=np.True_,
        )

    def _numbers(self, points: np.ndarray) -> np.ndarray:
        """Numbers of points as `resident_arrays` has them: each part counts its own from 0."""
        if self.data_parts == 1:
            return points.astype(np.int32)
        begin = np.array([self.points_of_part(part).start for part in range(self.data_parts)])
        every = points.reshape(self.data_parts, -1)
        return self._owned(np.where(every >= 0, every - begin[:, None], -1)).astype(np.int32)

    @property
    def _device_draw(self) -> Callable[[Any, Any, Any], Sample] | None:
        """The sampler's draw on the device; None if the host sends the sample, or nobody draws."""
        sampler = self.sampler
        if sampler is None:
            return None
        if sampler.needs_batch_positives and self.data_parts > 1:
            return None  # a device has the positives of its own part alone
        return sampler.on_device

    def materialize(self, resident: Any, item: Any, shape: tuple[int, int]) -> Batch:
        """Takes the rows of the points, drops features out and draws, on the device."""
        if self.data_parts > 1:
            resident = jax.tree.map(lambda x: x[0], resident)
            item = own_part(item)
        features, labels = resident
        points, sample, draw = jnp.asarray(item.points), item.sample, self._device_draw
        block = take(features, points, shape[0])
        known = take(labels, points, shape[1])
        terms = self._terms(known, points, item.positives)
        if self.sampler is not None and draw is not None:
            reads = self.sampler.needs_batch_positives
            sample = draw(item.step, self._positives_of(terms) if reads else None, item.key[1])
        seen = block if self.settings.drop_seen else None
        if self.settings.input_dropout:
            block = with_dropout(block, jnp.asarray(item.dropout), self.settings.input_dropout)
        return Batch(
            features=block,
            terms=terms,
            known=known if self.spec.excludes_known else None,
            sample=sample,
            step=item.step,
            key=item.key,
            rates=item.rates,
            seen=seen,
            taken=item.taken,
        )

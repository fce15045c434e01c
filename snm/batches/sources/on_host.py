"""A source whose points stay on the host, which sends whole batches."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

from snm.batches.batch import Batch
from snm.batches.csr_blocks import csr_of, take
from snm.batches.dropout import keys_of_points, without_dropped
from snm.batches.sources.assembly import AsSent
from snm.batches.sources.source import Source
from snm.tables.by_row import columns_of
from snm.tables.table import SparseRows

__all__ = ["HostSource"]


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class HostSource(Source):
    """The training points on the host, which takes the rows of a batch and leaves features out.

    Attributes:
      num_frequent: features that a batch takes together (`columns`); None sorts no entries.
    """

    resident = False

    num_frequent: int | None = None

    def resident_arrays(self) -> Any:
        """Nothing stays on the device."""
        return ()

    def resident_shapes(self) -> Any:
        """Nothing stays on the device."""
        return ()

    @property
    def assembly(self) -> AsSent:
        """The batch that the host sent."""
        return AsSent(self.data_parts)

    def _items(self, steps: range, length: int) -> list[Batch]:
        return [self._batch(step) for step in steps]

    def _batch(self, step: int) -> Batch:
        drawn = self._drawn(step)
        points, positives = drawn.points, drawn.positives
        epoch, columns = step // self.steps_per_epoch, None
        if self.data_parts == 1:
            features, terms, known, seen = self._blocks(epoch, points, positives)
            sample = self._host_sample(step, points, positives, terms)
            if self.num_frequent is not None:
                columns = columns_of(features, self.num_frequent)
        else:
            cut = zip(self._owned(points), self._owned(positives), strict=True)
            parts = [self._blocks(epoch, *part) for part in cut]
            features, terms, known, seen = jax.tree.map(lambda *leaves: np.stack(leaves), *parts)
            sample = self._host_sample(step, points, positives)
        of_step: Any = drawn  # of NumPy; a `Batch` is typed as what it is inside the step
        return Batch(
            features=features,
            terms=terms,
            known=known,
            sample=sample,
            step=of_step.step,
            key=of_step.key,
            rates=of_step.rates,
            columns=columns,
            seen=seen,
        )

    def _blocks(
        self, epoch: int, points: np.ndarray, positives: np.ndarray
    ) -> tuple[SparseRows, SparseRows, SparseRows | None, SparseRows | None]:
        """Features, terms and, where they are needed, known labels and all features of points."""
        sizes, share = self.sizes.of(epoch), self.settings.input_dropout
        here = np.where(points >= 0, points - self.counts.first, -1)
        features = seen = take(csr_of(self.features), here, sizes.all_features)
        if share:
            keys = keys_of_points(self.order.seed, epoch, points)
            features = without_dropped(seen, keys, share, sizes.features)
        known = take(csr_of(self.labels), here, sizes.labels)
        terms = self.terms.of(known, points, positives)
        known_or_none = known if self.spec.excludes_known else None
        return features, terms, known_or_none, seen if self.settings.drop_seen else None

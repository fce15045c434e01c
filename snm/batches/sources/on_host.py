"""A source with the points on the host, which sends whole batches."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

from snm.batches.batch import Batch
from snm.batches.csr_blocks import as_sparse_rows, take
from snm.batches.dropout import drop_entries, dropout_keys
from snm.batches.sources.assembly import Assembly, take_batch, take_own_part
from snm.batches.sources.source import Source
from snm.tables.columns import make_columns
from snm.tables.table import SparseRows

__all__ = ["HostSource"]


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class HostSource(Source):
    """A source with the training points on the host, which makes batches and applies dropout.

    Attributes:
      num_frequent: number of frequent features of `Batch.columns`; None for no columns.
    """

    num_frequent: int | None = None

    def resident_arrays(self) -> Any:
        """Nothing stays on the device."""
        return ()

    @property
    def assembly(self) -> Assembly:
        """The batch that the host sent."""
        return take_own_part if self.data_parts > 1 else take_batch

    def _items(self, steps: range, length: int) -> list[Batch]:
        return [self._batch(step) for step in steps]

    def _batch(self, step: int) -> Batch:
        points, positives = self._draw_points(step)
        epoch, columns = step // self.steps_per_epoch, None
        if self.data_parts == 1:
            features, terms, known, seen = self._blocks(epoch, points, positives)
            sample = self._host_sample(step, points, positives, terms)
            if self.num_frequent is not None:
                columns = make_columns(features, self.num_frequent)
        else:
            cut = zip(self._owned(points), self._owned(positives), strict=True)
            parts = [self._blocks(epoch, *part) for part in cut]
            features, terms, known, seen = jax.tree.map(lambda *leaves: np.stack(leaves), *parts)
            sample = self._host_sample(step, points, positives)
        return Batch(
            features=features,
            terms=terms,
            known=known,
            sample=sample,
            columns=columns,
            seen=seen,
            **self._scalars(step),
        )

    def _blocks(
        self, epoch: int, points: np.ndarray, positives: np.ndarray
    ) -> tuple[SparseRows, SparseRows, SparseRows | None, SparseRows | None]:
        """Features, terms and, if needed, known labels and all features of points."""
        sizes, rate = self.sizes.entries(epoch), self.settings.input_dropout
        rows = np.where(points >= 0, points - self.counts.first, -1)
        features = seen = take(as_sparse_rows(self.features), rows, sizes.all_features)
        if rate:
            keys = dropout_keys(self.order.seed, epoch, points)
            features = drop_entries(seen, keys, rate, sizes.features)
        known = take(as_sparse_rows(self.labels), rows, sizes.labels)
        terms = self.terms.make(known, points, positives)
        known_or_none = known if self.spec.excludes_known else None
        return features, terms, known_or_none, seen if self.settings.drop_seen else None

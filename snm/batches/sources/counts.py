"""What a process knows of all points of a run, those that it does not read included."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.data.mapped import select_rows
from snm.distributed.dataset import column_counts, label_draws
from snm.sampling.protocol import Sampler

__all__ = ["PointCounts"]


@dataclasses.dataclass(frozen=True, eq=False)
class PointCounts:
    """What a process needs to know of all N points, those that it does not read included.

    Attributes:
      first: the number of the first point that the process itself makes batches of.
      features: int [N], features of each point.
      labels: int [N], labels of each point, at least 1.
      label_frequency: int [K], points of each label; None unless the sampler needs it.
      label_draws: float64 [2, K], as in `SamplerInputs`; None unless the sampler needs it.
      labels_of_all: CSR [N, K]; None unless the sampler needs the positives of whole batches.
    """

    first: int
    features: np.ndarray
    labels: np.ndarray
    label_frequency: np.ndarray | None
    label_draws: np.ndarray | None
    labels_of_all: csr_matrix | None

    @classmethod
    def of(
        cls,
        features: NDArray[np.integer],
        labels: csr_matrix,
        rows: NDArray[np.int64],
        first: int,
        sampler: type[Sampler] | None,
        *,
        one_positive: bool,
    ) -> PointCounts:
        """Counts some rows of a data set, which become points 0 .. N - 1.

        Args:
          features: int [n], of each point, weighted.
          labels: CSR [n, K].
          rows: int64 [N], those with a label.
          first: from 0 to N - 1.
          sampler: its class, which says what it needs; None if all labels are negatives.
          one_positive: a visit draws one of a point's labels; otherwise it takes all.
        """
        frequency = sampler is not None and sampler.needs_label_frequency
        positives = sampler is not None and sampler.needs_batch_positives
        return cls(
            first=first,
            features=features[rows],
            labels=np.diff(labels.indptr)[rows],
            label_frequency=column_counts(labels, rows) if frequency else None,
            label_draws=label_draws(labels, rows, one=one_positive) if positives else None,
            labels_of_all=select_rows(labels, rows) if positives else None,
        )

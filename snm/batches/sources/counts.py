"""Counts of all points of a run, including those that other processes read."""

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
    """Counts of all N points, including those that other processes read.

    Attributes:
      first: the number of the first point of this process.
      features: int [N], number of features of each point.
      labels: int [N], number of labels of each point, at least 1.
      label_frequency: int [K], number of points of each label; None unless the sampler needs it.
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
        """Counts the rows of a data set that become points 0 .. N - 1.

        Args:
          features: int [n], number of features of each point, after weighting.
          labels: CSR [n, K].
          rows: int64 [N], the rows with labels.
          first: from 0 to N - 1.
          sampler: the class of the sampler; None if all labels are negatives.
          one_positive: whether a visit uses one random label of a point, and not all.
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

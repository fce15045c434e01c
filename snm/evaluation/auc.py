"""Accumulates the area under the ROC curve (AUC), averaged over test points.

The AUC of a point is the fraction of its (relevant, irrelevant) label pairs in which the relevant
label scores higher; a tie counts one half (Agarwal et al., Generalization Bounds for the Area Under
the ROC Curve, 2005, equation 1, with labels as instances). It measures the whole ranking, whereas
P@k measures only the top.

`snm.prediction.concordant_pairs` counts the correctly ordered pairs. It scores the labels in
blocks, so that the K scores of a point are never in memory at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from snm.evaluation.filters import canonical

__all__ = ["Areas"]

NDArray = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Areas:
    """Counts over the points so far; `update` returns new counts.

    The counts are integers, grouped by the numbers of relevant and irrelevant labels, so the result
    does not depend on the batch size, to the last bit.

    Attributes:
      counts: (relevant, irrelevant) -> (points, twice their number of correctly ordered pairs).
    """

    counts: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)

    def update(
        self,
        doubled_counts: NDArray,
        labels: Any,
        filtered: NDArray,
        *,
        leave_out: NDArray | None = None,
    ) -> Areas:
        """Adds a batch of points.

        Args:
          doubled_counts: int [entries], from `count_concordant_pairs`: for each entry of `labels`,
            twice the number of irrelevant labels that score lower, plus the number of ties.
          labels: CSR [n, K], the relevant labels, canonical.
          filtered: int [n], the number of labels of each point that are neither relevant nor
            irrelevant.
          leave_out: bool [n] or None, points to ignore.

        Returns:
          Counts that include the batch. Points without a pair to compare are ignored.
        """
        labels = canonical(labels)
        relevant = np.diff(labels.indptr)
        irrelevant = labels.shape[1] - relevant - filtered
        point = np.repeat(np.arange(len(relevant)), relevant)
        point_counts = np.zeros(len(relevant), np.int64)
        np.add.at(point_counts, point, np.asarray(doubled_counts, np.int64)[: len(point)])
        counts = dict(self.counts)
        keep = (relevant > 0) & (irrelevant > 0)
        if leave_out is not None:
            keep &= ~np.asarray(leave_out, bool)
        for i in np.flatnonzero(keep):
            key = int(relevant[i]), int(irrelevant[i])
            points, total = counts.get(key, (0, 0))
            counts[key] = points + 1, total + int(point_counts[i])
        return Areas(counts)

    def result(self) -> dict[str, float]:
        """`AUC` in percent, the mean over points; empty if there are no points."""
        points = sum(points for points, _ in self.counts.values())
        if not points:
            return {}
        areas = [doubled / (2 * m * n) for (m, n), (_, doubled) in sorted(self.counts.items())]
        return {"AUC": 100.0 * sum(areas) / points}

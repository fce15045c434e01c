"""The area under the ROC curve of each point: its relevant labels against all irrelevant ones.

A relevant and an irrelevant label of a point are in order where the relevant one scores higher; a
tie counts half. The share of such pairs is the point's AUC (Agarwal et al., 2005, equation 1, with
labels as instances), and the metric is its mean over points. It is about the whole ranking, where
P@k sees its head.

All K scores of a point are compared, and are never there at once: blocks of labels are scored
twice, first for the relevant labels' own scores, then to compare. That the bits are the same both
times is what makes ties exact.
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
    """Counts over the points seen so far; `update` returns the next.

    They are integers by the numbers of relevant and irrelevant labels, so cutting the test set into
    batches changes nothing, to the last bit.

    Attributes:
      counts: (relevant, irrelevant) -> points, and twice their pairs in order.
    """

    counts: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)

    def update(
        self, twice: NDArray, labels: Any, filtered: NDArray, *, leave_out: NDArray | None = None
    ) -> Areas:
        """Adds a batch of points.

        Args:
          twice: int [entries], of `pairs_in_order`, for the entries of `labels`.
          labels: CSR [n, K], the relevant labels, canonical.
          filtered: int [n], labels of each point that are neither.
          leave_out: bool [n] or None, points that do not count.

        Returns:
          The counts with the batch. Points without a pair to compare are left out.
        """
        labels = canonical(labels)
        relevant = np.diff(labels.indptr)
        irrelevant = labels.shape[1] - relevant - filtered
        point = np.repeat(np.arange(len(relevant)), relevant)
        of_point = np.zeros(len(relevant), np.int64)
        np.add.at(of_point, point, np.asarray(twice, np.int64)[: len(point)])
        counts = dict(self.counts)
        keep = (relevant > 0) & (irrelevant > 0)
        if leave_out is not None:
            keep &= ~np.asarray(leave_out, bool)
        for i in np.flatnonzero(keep):
            key = int(relevant[i]), int(irrelevant[i])
            points, total = counts.get(key, (0, 0))
            counts[key] = points + 1, total + int(of_point[i])
        return Areas(counts)

    def result(self) -> dict[str, float]:
        """`AUC` in percent, the mean over points; nothing where there are none."""
        points = sum(points for points, _ in self.counts.values())
        if not points:
            return {}
        each = [twice / (2 * m * n) for (m, n), (_, twice) in sorted(self.counts.items())]
        return {"AUC": 100.0 * sum(each) / points}

"""Excluded labels: prediction finds as many more labels, and then drops these.

So a label keeps its rank among all labels, and with it its probability, whatever is excluded.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.batches.csr_blocks import power_of_two
from snm.data.csr import are_entries
from snm.errors import InputError
from snm.losses.reductions import MASKED
from snm.prediction.candidates.parse import IdsOf, parse_candidates

__all__ = ["Excluded", "parse_excluded"]


class Excluded(NamedTuple):
    """Labels to exclude from the answers.

    Attributes:
      labels: int32 [S], ascending, for all points; or CSR [n, K] with sorted ids for each of n.
      max_per_point: the largest number of excluded labels of a point, at least 1.
    """

    labels: NDArray[np.int32] | csr_matrix
    max_per_point: int

    @property
    def shared(self) -> NDArray[np.int32] | None:
        """The labels excluded for all points, or None if each point has its own."""
        return self.labels if isinstance(self.labels, np.ndarray) else None

    def to_find(self, k: int, num_labels: int) -> int:
        """The number of labels to find so that k are left, rounded up to share programs."""
        return min(power_of_two(k + self.max_per_point, 1), num_labels)

    def kept(self, labels: NDArray[np.int32], k: int, first: int = 0) -> NDArray[np.bool_]:
        """Which labels are among the k best of a point that are not excluded.

        Args:
          labels: int32 [m, found], of points `first` to first + m - 1, best first; -1 is none.
          k: the most answers of a point.
          first: the index of the first of these points.

        Returns:
          bool [m, found].
        """
        if isinstance(self.labels, np.ndarray):
            is_excluded = np.isin(labels, self.labels)
        else:
            is_excluded = are_entries(labels, self.labels[first : first + len(labels)])
        allowed = (labels >= 0) & ~is_excluded
        return allowed & (np.cumsum(allowed, axis=1) <= k)

    def drop(
        self, labels: NDArray[np.int32], k: int, first: int, *values: NDArray[np.float32]
    ) -> tuple[NDArray, ...]:
        """The k best labels of each point that are not excluded, and their values.

        Args:
          labels: as in `kept`.
          k: at most as many as were found.
          first: as in `kept`.
          values: float32 [m, found], of the labels, such as scores.

        Returns:
          int32 [m, k], padded with -1, and each of `values` as float32 [m, k], padded with MASKED.
        """
        kept = self.kept(labels, k, first)
        order = np.argsort(~kept, axis=1, kind="stable")[:, :k]
        is_label = np.take_along_axis(kept, order, axis=1)
        labels = np.where(is_label, np.take_along_axis(labels, order, axis=1), -1)
        taken = [np.take_along_axis(array, order, axis=1) for array in values]
        return labels, *(np.where(is_label, array, MASKED) for array in taken)


def parse_excluded(
    exclude: Any, num_points: int, num_labels: int, ids_of: IdsOf | None = None
) -> Excluded | None:
    """Checks the labels that a caller excludes; None if there are none.

    Args:
      exclude: ids of labels for all points; or for each of n points a sequence of ids, or CSR
        [n, K], whose non-zero entries are the labels; or None.
      num_points: n.
      num_labels: K.
      ids_of: as in `parse_candidates`.

    Raises:
      InputError: values that are not ids from 0 to K - 1 or what `ids_of` takes, or ids for another
        number of points or labels.
    """
    if exclude is None:
        return None
    try:
        labels = parse_candidates(exclude, num_points, num_labels, empty=True, ids_of=ids_of)
    except InputError as error:
        raise InputError("exclude", error.found, error.expected) from error
    if isinstance(labels, np.ndarray):
        max_per_point = len(labels)
    else:
        max_per_point = int(np.diff(labels.indptr).max(initial=0))
    return Excluded(labels, max_per_point) if max_per_point else None

"""Labels that are no answers: so many more are found, and these are dropped.

A probability depends on the rank of its label among all. Found so, a label has the same one,
whatever others are left out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.batches.csr_blocks import power_of_two
from snm.errors import InputError
from snm.losses.reductions import MASKED
from snm.prediction.candidates import IdsOf, candidates_of

__all__ = ["Excluded", "excluded_of"]


class Excluded(NamedTuple):
    """Labels that are no answers.

    Attributes:
      labels: int32 [S], ascending, of all points; or CSR [n, K] with sorted ids of each of n.
      most: the largest number of them of a point, at least 1.
    """

    labels: NDArray[np.int32] | csr_matrix
    most: int

    @property
    def shared(self) -> NDArray[np.int32] | None:
        """Those of all points, or None where each point has its own."""
        return self.labels if isinstance(self.labels, np.ndarray) else None

    def to_find(self, k: int, num_labels: int) -> int:
        """How many of K labels to find so that k are left; few numbers, as each is a program."""
        return min(power_of_two(k + self.most, 1), num_labels)

    def left(self, labels: NDArray[np.int32], k: int, first: int = 0) -> NDArray[np.bool_]:
        """Which labels are answers.

        Args:
          labels: int32 [m, found], those of points `first` to first + m - 1, best first; -1 is
            none.
          k: the most answers of a point.
          first: the number of the first of these points.

        Returns:
          bool [m, found].
        """
        if isinstance(self.labels, np.ndarray):
            gone = np.isin(labels, self.labels)
        else:
            own = self.labels[first : first + len(labels)]
            width = own.shape[1] + 1  # so that -1 is no label of the row before
            rows = np.arange(len(labels), dtype=np.int64) * width
            pairs = np.repeat(rows, np.diff(own.indptr)) + own.indices
            gone = np.isin(rows[:, None] + labels, pairs)
        allowed = (labels >= 0) & ~gone
        return allowed & (np.cumsum(allowed, axis=1) <= k)

    def dropped(
        self, labels: NDArray[np.int32], k: int, first: int, *values: NDArray[np.float32]
    ) -> tuple[NDArray, ...]:
        """The k best labels that are left of each point, and their values.

        Args:
          labels: as in `left`.
          k: at most as many as were found.
          first: as in `left`.
          values: float32 [m, found], of the labels, such as scores.

        Returns:
          int32 [m, k], -1 where fewer are left, and each of `values` as float32 [m, k]; MASKED
          where fewer are left.
        """
        left = self.left(labels, k, first)
        place = np.argsort(~left, axis=1, kind="stable")[:, :k]
        there = np.take_along_axis(left, place, axis=1)
        found = [np.take_along_axis(each, place, axis=1) for each in (labels, *values)]
        return np.where(there, found[0], -1), *(np.where(there, x, MASKED) for x in found[1:])


def excluded_of(
    exclude: Any, num_points: int, num_labels: int, ids_of: IdsOf | None = None
) -> Excluded | None:
    """The labels that a caller does not want as answers; None if there are none.

    Args:
      exclude: ids of labels for all points; or for each of n points a sequence of ids, or CSR
        [n, K], whose non-zero entries they are; or None.
      num_points: n.
      num_labels: K.
      ids_of: as in `candidates_of`.

    Raises:
      InputError: an id that is not from 0 to K - 1, what is no ids, ids for another number of
        points or labels, or as `ids_of`.
    """
    if exclude is None:
        return None
    try:
        labels = candidates_of(exclude, num_points, num_labels, empty=True, ids_of=ids_of)
    except InputError as error:
        raise InputError("exclude", error.found, error.expected) from error
    if isinstance(labels, np.ndarray):
        most = len(labels)
    else:
        most = int(np.diff(labels.indptr).max(initial=0))
    return Excluded(labels, most) if most else None

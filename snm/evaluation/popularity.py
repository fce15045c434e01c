"""A baseline: the labels of most training points, for every point the same.

A model whose metrics are not above these has learned no more than how frequent labels are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Popularity"]


class Popularity(NamedTuple):
    """The labels by the number of their training points.

    Attributes:
      labels: int64 [K], those of most training points first; ties go to the lowest label.
      place: int64 [K], the index of each label in `labels`.
    """

    labels: NDArray[np.int64]
    place: NDArray[np.int64]

    @classmethod
    def of(cls, label_frequency: NDArray[np.integer]) -> Popularity:
        """The order of labels of int [K] training points each."""
        labels = np.argsort(-label_frequency, kind="stable")
        place = np.empty_like(labels)
        place[labels] = np.arange(len(labels))
        return cls(labels, place)

    def best(self, num_points: int, k: int, dropped: NDArray[np.int64]) -> NDArray[np.int64]:
        """The first k labels of each point, without those that are no answers to it.

        Takes time by the number of points times k and by that of the pairs, not by K.

        Args:
          num_points: n.
          k: how many labels, at most K.
          dropped: int64 [p, 2], pairs (point, label) that are no answers, in any order; a pair may
            come again.

        Returns:
          int64 [n, k], -1 where a point is left fewer labels.

        Example:
          >>> Popularity.of(np.array([2, 9, 5, 5])).best(2, 2, np.array([[1, 1], [1, 3]]))
          array([[1, 2],
                 [2, 0]])
        """
        num_labels = len(self.labels)
        pairs = np.unique(dropped[:, 0] * num_labels + self.place[dropped[:, 1]])
        rows, places = np.divmod(pairs, num_labels)
        # The j-th dropped place p of a point, from 0, has p - j places before it that stay: it
        # moves the answers from number p - j on by one place.
        starts = np.searchsorted(rows, np.arange(num_points))
        moved = places - (np.arange(len(pairs)) - starts[rows])
        near = moved < k
        moves = np.bincount(rows[near] * k + moved[near], minlength=num_points * k)
        found = np.arange(k) + np.cumsum(moves.reshape(num_points, k), axis=1)
        return np.where(found < num_labels, self.labels[np.minimum(found, num_labels - 1)], -1)

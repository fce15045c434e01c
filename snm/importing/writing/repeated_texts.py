"""Counts points that repeat the text of another.

Those with another label come of one row per label, those with the same labels of a file that holds
rows twice.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np

from snm.data.formats.foreign import Row

__all__ = ["RepeatedTexts"]

_MOST = 1 << 20  # points that are looked at; 24 bytes each


class RepeatedTexts:
    """Compares the texts and labels of points.

    Attributes:
      points: number of points that were looked at, those with other numbers of labels included.

    Example:
      >>> repeated = RepeatedTexts()
      >>> pairs = [("a saw", "tool"), ("a saw", "steel"), ("a saw", "tool"), ("a pie", "food")]
      >>> repeated.add([Row("1", text, None, (label,)) for text, label in pairs])
      >>> repeated.count(), repeated.count_equal()
      (3, 2)
    """

    def __init__(self) -> None:
        self.points = 0
        self._points = array("q")  # hashes of text and labels
        self._texts, self._pairs = array("q"), array("q")  # of points of one label: text, and both

    def add(self, rows: Sequence[Row]) -> None:
        """Looks at more points, up to a limit."""
        rows = rows[: _MOST - self.points]
        self.points += len(rows)
        for row in rows:
            if row.text:
                point = hash((row.text, frozenset(row.labels)))
                self._points.append(point)
                if len(row.labels) == 1:
                    self._texts.append(hash(row.text))
                    self._pairs.append(point)

    def count(self) -> int:
        """The number of points of one label whose text another has with another one."""
        texts, pairs = (np.array(hashes, np.int64) for hashes in (self._texts, self._pairs))
        _, first = np.unique(pairs, return_index=True)
        distinct, labels = np.unique(texts[first], return_counts=True)
        return int(np.isin(texts, distinct[labels > 1]).sum())

    def count_equal(self) -> int:
        """The number of points whose text another point has with the same labels."""
        _, sizes = np.unique(np.array(self._points, np.int64), return_counts=True)
        return int(sizes[sizes > 1].sum())

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
        self._texts, self._labels = array("q"), array("q")  # hashes, of one label
        self._rows = array("q")  # hashes of text and all labels

    def add(self, rows: Sequence[Row]) -> None:
        """Looks at more points, up to a limit."""
        rows = rows[: _MOST - self.points]
        self.points += len(rows)
        rows = [row for row in rows if row.text]
        self._rows.extend(hash((row.text, frozenset(row.labels))) for row in rows)
        chosen = [row for row in rows if len(row.labels) == 1]
        self._texts.extend(hash(row.text) for row in chosen)
        self._labels.extend(hash(row.labels[0]) for row in chosen)

    def count(self) -> int:
        """The number of points of one label whose text another has with another one."""
        if not self._texts:
            return 0
        hashes = np.frombuffer(self._texts, np.int64), np.frombuffer(self._labels, np.int64)
        order = np.lexsort(hashes[::-1])
        texts, labels = (values[order] for values in hashes)
        new_text = np.append(True, texts[1:] != texts[:-1])
        starts = np.flatnonzero(new_text)
        new_pair = new_text | np.append(True, labels[1:] != labels[:-1])
        distinct = np.add.reduceat(new_pair, starts, dtype=np.int64)
        sizes = np.diff(np.append(starts, len(texts)))
        return int(sizes[distinct > 1].sum())

    def count_equal(self) -> int:
        """The number of points whose text another point has with the same labels."""
        sizes = np.unique(np.frombuffer(self._rows, np.int64), return_counts=True)[1]
        return int(sizes[sizes > 1].sum())

"""The ids of labels while rows are read: names that are known first, then others as they come."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Literal

import numpy as np
from scipy.sparse import csr_matrix

from snm.data.formats.foreign import SEPARATORS, Row
from snm.data.names import respelled

__all__ = ["LabelIds"]


class LabelIds:
    """Numbers the labels of rows.

    Args:
      known: different names, in the order of their ids.
      new: whether other names are appended in order of first occurrence, or dropped from their
        points.

    Example:
      >>> from snm.data.formats.foreign import Row
      >>> ids = LabelIds(["rome"], "append")
      >>> rows = [Row("1", "", None, ("paris", "rome")), Row("2", "", None, ())]
      >>> ids.matrix(rows).toarray()
      array([[1., 1.],
             [0., 0.]], dtype=float32)
      >>> ids.names, ids.new
      (('rome', 'paris'), ('paris',))
    """

    def __init__(self, known: Sequence[str], new: Literal["append", "drop"]):
        self._num_known, self._appending = len(known), new == "append"
        self._ids = {name: label for label, name in enumerate(known)}
        self._dropped = dict[str, None]()  # a set in order
        self._spelled = respelled(known)

    def as_known(self, rows: list[Row]) -> list[Row]:
        """The rows, with labels spelled as the known names are."""
        if not self._spelled:
            return rows
        spell = self._spelled.get
        return [
            row._replace(labels=tuple(spell(name, name) for name in row.labels)) for row in rows
        ]

    def matrix(self, rows: Sequence[Row]) -> csr_matrix:
        """Numbers new labels, and returns all that have ids: float32 CSR [rows, labels so far].

        Args:
          rows: of `as_known`.
        """
        for name in itertools.chain.from_iterable(row.labels for row in rows):
            if self._appending:
                self._ids.setdefault(name, len(self._ids))
            elif name not in self._ids:
                self._dropped[name] = None
        found = [
            sorted(self._ids[name] for name in row.labels if name in self._ids) for row in rows
        ]
        starts = np.concatenate([[0], np.cumsum([len(row) for row in found])]).astype(np.int64)
        indices = np.fromiter(itertools.chain.from_iterable(found), np.int32, count=int(starts[-1]))
        ones = np.ones(len(indices), np.float32)
        return csr_matrix((ones, indices, starts), shape=(len(rows), max(1, len(self._ids))))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the labels, in the order of their ids."""
        return tuple(self._ids)

    @property
    def new(self) -> tuple[str, ...]:
        """Names that were not known, appended or dropped, in order of first occurrence."""
        return self.names[self._num_known :] if self._appending else tuple(self._dropped)

    @property
    def joined_by(self) -> str | None:
        """The usual separator that more than half of the names hold, if there is one."""
        holding = ((mark, sum(mark in name for name in self._ids)) for mark in SEPARATORS)
        return next((mark for mark, count in holding if 2 * count > len(self._ids)), None)

    @property
    def are_numbers(self) -> bool:
        """Whether all names are whole numbers."""
        return all(name.isascii() and name.isdecimal() for name in self._ids)

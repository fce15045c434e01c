"""Assigns ids to labels while rows are read: first to known names, then to new ones in order."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Literal

import numpy as np
from scipy.sparse import csr_matrix

from snm.data.csr import csr_of_ones, row_starts
from snm.data.formats.foreign import Row
from snm.data.formats.record_fields import SEPARATORS
from snm.data.names import case_variants, original_spellings

__all__ = ["LabelIds"]

# Of lists of texts, also as NumPy writes them, and of numbers.
_LIST_PIECE = re.compile(
    r"""(?:array\(|frozenset\()?[\[({](?:['"]|np\.)"""
    r"""|\[(?:[0-9. ]+|nan|None)\]?$|.*(?:['"],?\)?|nan|None)[\])}]$"""
)


class LabelIds:
    """Assigns ids to the labels of rows.

    Args:
      known: distinct names, in the order of their ids.
      new: whether new names are appended in order of first occurrence, or dropped from their
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
        self._spellings = original_spellings(known)

    def respell(self, rows: list[Row]) -> list[Row]:
        """The rows, with labels spelled like the known names."""
        if not self._spellings:
            return rows
        spelling = self._spellings.get
        return [
            row._replace(labels=tuple(spelling(name, name) for name in row.labels)) for row in rows
        ]

    def matrix(self, rows: Sequence[Row]) -> csr_matrix:
        """Assigns ids to new labels; returns the labels as float32 CSR [rows, labels so far].

        Args:
          rows: from `respell`.
        """
        for name in itertools.chain.from_iterable(row.labels for row in rows):
            if self._appending:
                self._ids.setdefault(name, len(self._ids))
            elif name not in self._ids:
                self._dropped[name] = None
        ids = [sorted(self._ids[name] for name in row.labels if name in self._ids) for row in rows]
        starts = row_starts([len(row) for row in ids])
        indices = np.fromiter(itertools.chain.from_iterable(ids), np.int32, count=int(starts[-1]))
        return csr_of_ones(indices, starts, (len(rows), max(1, len(self._ids))))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the labels, in the order of their ids."""
        return tuple(self._ids)

    @property
    def new(self) -> tuple[str, ...]:
        """The appended or dropped names, in order of first occurrence; none if none was known."""
        if not self._num_known:
            return ()
        return self.names[self._num_known :] if self._appending else tuple(self._dropped)

    @property
    def common_separator(self) -> str | None:
        """A usual separator that more than half of the names contain, or None.

        If there are known names and new ones, it is a separator of the new ones.
        """
        names = self.new or self.names
        counts = ((mark, sum(mark in name for name in names)) for mark in SEPARATORS)
        return next((mark for mark, count in counts if 2 * count > len(names)), None)

    @property
    def list_piece(self) -> str | None:
        """The first name like a list or its end, if more than half of the names are, or None."""
        pieces = [name for name in self._ids if _LIST_PIECE.match(name)]
        return pieces[0] if 2 * len(pieces) > len(self._ids) else None

    @property
    def are_numbers(self) -> bool:
        """Whether all names are integers."""
        return all(name.isascii() and name.isdecimal() for name in self._ids)

    @property
    def case_variants(self) -> str | None:
        """Says which names differ only in case; None if none do, or if there are known names."""
        return None if self._num_known or self.are_numbers else case_variants(self.names)

"""A table of a comparison."""

from __future__ import annotations

import dataclasses

__all__ = ["Sheet"]


@dataclasses.dataclass(frozen=True)
class Sheet:
    """A table with a title and a note.

    Attributes:
      title: a short title.
      note: how to read the table.
      columns: names of the columns; the first column names the rows.
      rows: the cells as text.
      late: whether the page shows it after the plots.
    """

    title: str
    note: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    late: bool = False

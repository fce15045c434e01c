"""Lays out the tables of a comparison to fit the width of a terminal."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from snm.compare.report.tables import Sheet

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["layout_tables"]

_MAX_CELL_WIDTH = 24  # a column with longer cells is printed as lines below the table
_GAP = 2  # between columns


def layout_tables(sheet: Sheet, width: int) -> Iterator[RenderableType]:
    """A table and its note; split into several with the same first column if it is too wide.

    Ratios are below their means, intervals below either, long texts below the table.

    Args:
      sheet: the table.
      width: columns of the terminal.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    cells = [[_split_lines(cell) for cell in column] for column in zip(*sheet.rows, strict=True)]
    long = [n for n, column in enumerate(cells) if n and _width(column) > _MAX_CELL_WIDTH]
    shown = [n for n in range(len(sheet.columns)) if n not in long]
    widths = {n: max(_width(cells[n]), _width(sheet.columns[n].split())) + _GAP for n in shown}
    for number, columns in enumerate(_blocks(shown, widths, width)):
        title = f"{sheet.title}, continued" if number else sheet.title
        table = Table(title=Text(title), title_justify="left", box=SIMPLE_HEAD,
                      padding=(0, 1, 0, 0))  # fmt: skip
        for n in columns:
            heading = "\n".join(textwrap.wrap(sheet.columns[n], widths[n] - _GAP))
            table.add_column(Text(heading), justify="right" if n else "left", overflow="fold")
        for row in zip(*(cells[n] for n in columns), strict=True):
            table.add_row(*map(Text, row))
        yield table
    for n in long:
        for row in sheet.rows:
            yield Text(f"{row[0]}, {sheet.columns[n]}: {row[n]}")
    yield Text(sheet.note, style="italic")


def _split_lines(cell: str) -> str:
    """Splits a mean and a ratio with their intervals, `7.06 ± 0.23 (1.14 ± 0.05x)`, into lines."""
    return re.sub(r" \(([\d.]+)(.*)x\)$", r"\n\1x\2", cell).replace(" ± ", "\n±")


def _width(cells: Sequence[str]) -> int:
    from rich.cells import cell_len

    return max((cell_len(line) for cell in cells for line in cell.split("\n")), default=0)


def _blocks(columns: list[int], widths: dict[int, int], width: int) -> list[list[int]]:
    """Columns in blocks that fit; each has the first column, and at least one other."""
    first, *others = columns
    blocks = [[first]]
    for n in others:
        block = blocks[-1]
        # The box has a space at the left, too.
        if len(block) > 1 and sum(widths[m] for m in [*block, n]) + 1 > width:
            blocks.append([first])
        blocks[-1].append(n)
    return blocks

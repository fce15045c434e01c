"""Reads cells of labels that are lists, as JSON or Python write them: `["a", "b"]`, `{'a', 'b'}`.

pandas writes a column of lists so. Nothing is evaluated: items are quoted texts or whole numbers.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Sequence
from pathlib import Path

from snm.data.formats.records import csv_rows, numbered_lines

__all__ = ["first_label_lists", "parse_list"]

_ITEM = re.compile(
    r"""\s*('[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*"|[+-]?[0-9]+)\s*(,\s*|$)""", re.DOTALL
)
_PYTHON_ESCAPES = re.compile(
    r"""[^\\]*(?:\\(?:[\\'"nrt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})[^\\]*)*""", re.DOTALL
)
_BRACKETS = ("[]", "()", "{}")


def parse_list(cell: str) -> list[str] | None:
    """The items of a JSON array, or a Python list, tuple or set, of texts and whole numbers.

    Args:
      cell: the text.

    Returns:
      the items as texts; None for any other text, such as `['a' 'b']`, which NumPy writes, and
      `(a)`, which is no tuple.

    Example:
      >>> parse_list('["a", "b, c"]'), parse_list("{'a', 7}"), parse_list("['a' 'b']")
      (['a', 'b, c'], ['a', '7'], None)
    """
    cell = cell.strip()
    if cell in ("[]", "()", "set()"):
        return []
    if cell[:1] + cell[-1:] not in _BRACKETS:
        return None
    inside, items, end, mark = cell[1:-1], [], 0, ","
    while end < len(inside):
        match = _ITEM.match(inside, end)
        if match is None:
            return None
        item = _unquoted(match[1])
        if item is None:
            return None
        items.append(item)
        end, mark = match.end(), match[2]
    # One item in round brackets is a tuple only if a comma follows it.
    return items if items and (cell[0] != "(" or len(items) > 1 or mark) else None


def _unquoted(item: str) -> str | None:
    """A number as it is, or the text between quotes; None if it is not one."""
    if item[0] not in "'\"":
        return item
    if "\\" not in item:
        return item[1:-1]
    try:
        if item[0] == '"':
            text = str(json.loads(item))
            text.encode()  # half of a surrogate pair cannot be written
            return text
    except ValueError:
        pass
    if not _PYTHON_ESCAPES.fullmatch(item):
        return None
    try:
        text = str(ast.literal_eval(item))
        text.encode()
    except (SyntaxError, ValueError):
        return None
    return text


def first_label_lists(
    paths: Sequence[Path], texts: Sequence[str], fields: Sequence[str]
) -> dict[str, str]:
    """The first cell that is not empty of those CSV columns in which it is a list, by column.

    Args:
      paths: the files, which are read as one.
      texts: the names of the columns of the text, by which the delimiter is found.
      fields: the names of the columns; those that a file lacks are left out.

    Raises:
      InputError: a file that cannot be read, up to the last of these cells.
    """
    first: dict[str, str] = {}
    for path in paths:
        rows = csv_rows(path, numbered_lines(path), [(*texts, *fields)])
        _, header = next(rows)
        places = {name: header.index(name) for name in fields if name in header}
        while (sought := places.keys() - first.keys()) and (row := next(rows, None)) is not None:
            cells = {field: row[1][places[field]].strip() for field in sought}
            first |= {field: cell for field, cell in cells.items() if cell}
    return {field: first[field] for field in fields if parse_list(first.get(field, "")) is not None}

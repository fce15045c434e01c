"""Reads lines, JSON objects and rows of CSV from a file or from standard input, one at a time.

This module imports no NumPy, as the command line lists the formats that build on it.
"""

from __future__ import annotations

import csv
import itertools
import json
import math
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from snm.data.formats.gzipped import (
    BYTE_ORDER_MARK,
    LONGEST_LINE,
    UNREADABLE,
    open_bytes,
    unreadable,
)
from snm.data.formats.not_text import ZIP, refuse_packed, undecoded
from snm.errors import InputError, counted
from snm.system.repeated_keys import repeated_key

__all__ = [
    "NUMBER",
    "STDIN",
    "csv_rows",
    "delimiter_of",
    "json_objects",
    "missing",
    "named",
    "number_of",
    "numbered_lines",
    "place_of",
    "text_of",
    "value_of",
]

STDIN = Path("-")
"""Stands for standard input."""

_LARGEST_CSV_FIELD = 1 << 28  # characters
_OF_RETURNS = r"`tr '\r' '\n'` makes of lines that end in carriage returns"


NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
"""A finite decimal number. Python's `float` also reads `1_000`."""


def number_of(text: str) -> float:
    """A finite decimal number, perhaps between spaces; NaN for anything else.

    Example:
      >>> number_of("1e3"), number_of("1_000"), number_of("1e999")
      (1000.0, nan, nan)
    """
    text = text.strip(" \t\r")  # not all that Unicode calls space
    number = float(text) if re.fullmatch(NUMBER, text) else math.nan
    return number if math.isfinite(number) else math.nan


def named(path: Path) -> str:
    """What messages call a file."""
    return "standard input" if path == STDIN else str(path)


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yields (number from 1, line without its end) of a UTF-8 file; `.gz` is unpacked.

    Raises:
      InputError: a file that cannot be read, a line of over 16 MiB, a NUL byte, or bytes that are
        not UTF-8.
    """
    if path == STDIN and sys.stdin is None:
        raise InputError(named(path), "closed", "points to label")
    try:
        with sys.stdin.buffer if path == STDIN else open_bytes(path) as stream:
            lines = iter(lambda: stream.readline(LONGEST_LINE + 1), b"")
            for number, line in enumerate(lines, 1):
                if len(line) > LONGEST_LINE:
                    found = f"a line of over {LONGEST_LINE} bytes"
                    expected = "text in lines" + (f", as {_OF_RETURNS}" if b"\r" in line else "")
                    raise InputError(f"{named(path)}:{number}", found, expected)
                if number == 1:
                    # Numbers before the names in an archive may hold the byte of a newline.
                    more = stream.read(512) if line.startswith(ZIP) else b""
                    refuse_packed(named(path), line + more)
                    line = line.removeprefix(BYTE_ORDER_MARK)
                try:
                    text = line.decode("utf-8").rstrip("\r\n")
                except UnicodeDecodeError as error:
                    where = f"{named(path)}:{number}"
                    raise undecoded(where, line, error.start, first=number == 1) from error
                if "\0" in text:
                    raise InputError(f"{named(path)}:{number}", "a NUL byte", "text in UTF-8")
                yield number, text
    except UNREADABLE as error:
        raise unreadable(named(path), error) from error


class _FaultError(ValueError):
    """What a JSON object may be, and a record may not."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if (twice := repeated_key(pairs)) is not None:
        raise _FaultError(f"field {twice!r} twice")
    return dict(pairs)


_JSON = json.JSONDecoder(object_pairs_hook=_once)
_OF_ARRAY = "one JSON object a line, as `jq -c '.[]'` makes of an array"


def json_objects(
    path: Path, lines: Iterable[tuple[int, str]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields (file and line, object) of JSON lines; empty lines are left out.

    Args:
      path: the file, for messages.
      lines: as `numbered_lines` yields them.

    Raises:
      InputError: a line that holds no JSON object, or one with a field twice.
    """
    for number, line in lines:
        if not line.strip():
            continue
        where = f"{named(path)}:{number}"
        try:
            found = _JSON.decode(line)
        except _FaultError as error:
            raise InputError(where, str(error), "each field once") from error
        except (ValueError, RecursionError) as error:
            begun = line.strip()
            if begun[:1] == "[":
                raise InputError(where, "the start of a JSON array", _OF_ARRAY) from error
            expected = "one JSON object a line"
            if begun == "{":
                expected += ", as `jq -c .` makes of objects of several lines"
            raise InputError(where, f"no JSON ({error})", expected) from error
        if isinstance(found, list):
            raise InputError(where, "a JSON array", _OF_ARRAY)
        if not isinstance(found, dict):
            raise InputError(where, f"a {type(found).__name__}", "an object")
        if "\\ud" in line.lower():  # perhaps half of a surrogate pair, which no file can hold
            try:
                json.dumps(found, ensure_ascii=False).encode()
            except (UnicodeEncodeError, RecursionError) as error:
                raise InputError(where, "half of a surrogate pair", "whole characters") from error
        yield where, found


def missing(found: dict[str, Any], field: str) -> str:
    """Says that an object lacks a field, and which it has."""
    return f"no {field!r} among {', '.join(map(repr, list(found)[:8]))}"


def value_of(where: str, found: dict[str, Any], field: str, empty: Any, expected: str) -> Any:
    """A field of an object that is of the type of `empty`, for which `null` stands.

    Raises:
      InputError: the field is missing, or of another type.
    """
    value = found.get(field)
    if value is None and field in found:
        return empty
    if not isinstance(value, type(empty)):
        wrong = f"{field}: {value!r}" if field in found else missing(found, field)
        raise InputError(where, wrong[:200], expected)
    return value


def text_of(
    where: str, found: dict[str, Any], field: str, item_separator: str | None, expected: str
) -> str:
    """The text of a field of an object; or its list, where texts are lists of items.

    Args:
      where: file and line, for messages.
      found: the object.
      field: its field.
      item_separator: the character between the items of a text; None where texts are no lists.
      expected: what messages call for.

    Raises:
      InputError: the field is missing or of another type, or holds an item with the separator.
    """
    value = found.get(field)
    if item_separator is None or not isinstance(value, list):
        return str(value_of(where, found, field, "", expected))
    for item in value:
        if type(item) not in (str, int) or item_separator in str(item):
            expected = f"names or numbers without {item_separator!r}, which separates them"
            raise InputError(where, f"{field}: {item!r}"[:200], expected)
    return item_separator.join(map(str, value))


def csv_rows(path: Path, lines: Iterable[tuple[int, str]]) -> Iterator[tuple[str, list[str]]]:
    """Yields (file and first line, cells), first of the header, then of rows that are as wide.

    Args:
      path: the file, for messages; tabs part the cells of a `.tsv`, and of others what
        `delimiter_of` says.
      lines: as `numbered_lines` yields them.

    Raises:
      InputError: no header, faulty CSV, or a row of another width than the header.
    """
    csv.field_size_limit(_LARGEST_CSV_FIELD)
    name = named(path)
    lines = iter(lines)
    first = next(lines, None)
    mark = "," if first is None else delimiter_of(path, first[1])
    lines = itertools.chain([] if first is None else [first], lines)
    rows = csv.reader((line + "\n" for _, line in lines), delimiter=mark, strict=True)
    begun = 1  # line of the row that is read; it may end in a later one
    try:
        header = next(rows, None)
        if not header:
            where, found = (name, "an empty file") if header is None else (f"{name}:1", "no header")
            raise InputError(where, found, "the names of columns, and rows below")
        yield f"{name}:1", header
        begun = rows.line_num + 1
        for row in rows:
            where = f"{name}:{begun}"
            if row and len(row) != len(header):
                found = counted(len(row), "field")
                raise InputError(where, found, f"{len(header)}, as in the header")
            if row:
                yield where, row
            begun = rows.line_num + 1
    except csv.Error as error:
        if "unexpected end of data" in str(error):
            found, expected = "a quote that is not closed", 'a " at the end of the cell'
            raise InputError(f"{name}:{begun}", found, expected) from error
        if "expected after" in str(error):
            found, expected = (
                "text after a closed quote",
                'a new cell, or "" for a quote inside one',
            )
            raise InputError(f"{name}:{rows.line_num}", found, expected) from error
        if "new-line character" in str(error):
            found, expected = "a carriage return in a cell", "quotes around the cell"
            if rows.line_num == 1:  # as old programs of the Mac end lines
                found, expected = "a carriage return in the header", f"newlines, as {_OF_RETURNS}"
            raise InputError(f"{name}:{rows.line_num}", found, expected) from error
        raise InputError(f"{name}:{rows.line_num}", str(error), "CSV") from error


def place_of(path: Path, field: str, header: Sequence[str], expected: str) -> int:
    """The column of a name.

    Args:
      path: the file, for messages.
      field: the name.
      header: the names of all columns.
      expected: what a header without it lacks.

    Raises:
      InputError: no column has the name, or two have.
    """
    if field not in header:
        raise _no_column(path, field, header, expected)
    if header.count(field) > 1:
        expected = "a name of its own for each column"
        raise InputError(f"{named(path)}:1", f"column {field!r} twice", expected)
    return header.index(field)


def _no_column(path: Path, field: str, header: Sequence[str], expected: str) -> InputError:
    """Says that a header lacks a column; and what parts columns, where it seems to part none."""
    found = f"no column {field!r} among {', '.join(header[:8])}"
    if near := [name for name in header if name.strip().lower() == field.lower()]:
        expected += f": names must agree in case and spaces, as {near[0]!r} does not"
    elif len(header) == 1 and any(mark in header[0] for mark in ",;|"):
        by = "tabs" if _is_tsv(path) else "commas, semicolons or tabs"
        expected = f"columns separated by {by}: this header has one column"
    return InputError(f"{named(path)}:1", found, expected)


def delimiter_of(path: Path, header: str) -> str:
    r"""What parts the cells of a file: a tab in `.tsv`, else a comma.

    Where the header has no comma outside quotes it is a semicolon or a tab, as spreadsheets write
    them, if the header has one.

    Example:
      >>> [delimiter_of(Path("a.csv"), header) for header in ("id;text", "text", '"id, old";text')]
      [';', ',', ';']
    """
    if _is_tsv(path):
        return "\t"
    outside = re.sub('"[^"]*"?', "", header)
    return next((mark for mark in ",;\t" if mark in outside), ",")


def _is_tsv(path: Path) -> bool:
    return path.name.removesuffix(".gz").lower().endswith(".tsv")

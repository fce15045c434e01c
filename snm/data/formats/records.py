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
from collections import Counter
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
from snm.errors import InputError
from snm.text import counted

__all__ = [
    "MAX_IDS",
    "NUMBER",
    "STDIN",
    "column_index",
    "csv_rows",
    "detect_delimiter",
    "display_name",
    "find_column",
    "get_field",
    "get_text",
    "json_name",
    "json_objects",
    "missing",
    "numbered_lines",
    "parse_number",
    "repeated_key",
]

STDIN = Path("-")
"""Stands for standard input."""

_LARGEST_CSV_FIELD = 1 << 28  # characters
_OF_RETURNS = r"`tr '\r' '\n'` makes of lines that end in carriage returns"


MAX_IDS = 2**31 - 1
"""The largest number of features or labels: ids are int32."""

NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
"""A finite decimal number. Python's `float` also reads `1_000`."""


def parse_number(text: str) -> float:
    """Parses a finite decimal number, with optional spaces around it; NaN for anything else.

    Example:
      >>> parse_number("1e3"), parse_number("1_000"), parse_number("1e999")
      (1000.0, nan, nan)
    """
    text = text.strip(" \t\r")  # but not other white space of Unicode
    number = float(text) if re.fullmatch(NUMBER, text) else math.nan
    return number if math.isfinite(number) else math.nan


def display_name(path: Path) -> str:
    """The name of a file in messages."""
    return "standard input" if path == STDIN else str(path)


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yields (number from 1, line without its end) of a UTF-8 file; `.gz` is unpacked.

    Raises:
      InputError: a file that cannot be read, a line of over 16 MiB, a NUL byte, or bytes that are
        not UTF-8.
    """
    if path == STDIN and sys.stdin is None:
        raise InputError(display_name(path), "closed", "points to label")
    try:
        with sys.stdin.buffer if path == STDIN else open_bytes(path) as stream:
            lines = iter(lambda: stream.readline(LONGEST_LINE + 1), b"")
            for number, line in enumerate(lines, 1):
                if len(line) > LONGEST_LINE:
                    found = f"a line of over {LONGEST_LINE} bytes"
                    expected = "text in lines" + (f", as {_OF_RETURNS}" if b"\r" in line else "")
                    raise InputError(f"{display_name(path)}:{number}", found, expected)
                if number == 1:
                    # The header of a zip archive may contain the byte of a newline before the file
                    # names.
                    more = stream.read(512) if line.startswith(ZIP) else b""
                    refuse_packed(display_name(path), line + more)
                    line = line.removeprefix(BYTE_ORDER_MARK)
                try:
                    text = line.decode("utf-8").rstrip("\r\n")
                except UnicodeDecodeError as error:
                    where = f"{display_name(path)}:{number}"
                    raise undecoded(where, line, error.start, first=number == 1) from error
                if "\0" in text:
                    raise InputError(
                        f"{display_name(path)}:{number}", "a NUL byte", "text in UTF-8"
                    )
                yield number, text
    except UNREADABLE as error:
        raise unreadable(display_name(path), error) from error


class _RecordError(ValueError):
    """Valid JSON that is not a valid record."""


def repeated_key(pairs: Sequence[tuple[str, Any]]) -> str | None:
    """The most frequent key of an object, if a key is repeated; else None.

    Python's reader silently keeps the last value.

    Args:
      pairs: the argument of `object_pairs_hook`.

    Example:
      >>> repeated_key([("a", 1), ("b", 2), ("b", 3)]), repeated_key([("a", 1)])
      ('b', None)
    """
    counts = Counter(name for name, _ in pairs)
    if len(counts) == len(pairs):
        return None
    return max(counts, key=lambda name: counts[name])


def _reject_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if (twice := repeated_key(pairs)) is not None:
        raise _RecordError(f"field {twice!r} twice")
    return dict(pairs)


_JSON = json.JSONDecoder(object_pairs_hook=_reject_repeated_keys)
_OF_ARRAY = "one JSON object a line, as `jq -c '.[]'` makes of an array"


def json_objects(
    path: Path, lines: Iterable[tuple[int, str]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields (file and line, object) of JSON lines; empty lines are skipped.

    Args:
      path: the file, for messages.
      lines: as `numbered_lines` yields them.

    Raises:
      InputError: a line that holds no JSON object, or one with a field twice.
    """
    for number, line in lines:
        if not line.strip():
            continue
        where = f"{display_name(path)}:{number}"
        try:
            record = _JSON.decode(line)
        except _RecordError as error:
            raise InputError(where, str(error), "each field once") from error
        except (ValueError, RecursionError) as error:
            content = line.strip()
            if content[:1] == "[":
                raise InputError(where, "the start of a JSON array", _OF_ARRAY) from error
            expected = "one JSON object a line"
            if content == "{":
                expected += ", as `jq -c .` makes of objects of several lines"
            raise InputError(where, f"no JSON ({error})", expected) from error
        if isinstance(record, list):
            raise InputError(where, "a JSON array", _OF_ARRAY)
        if not isinstance(record, dict):
            raise InputError(where, f"a {type(record).__name__}", "an object")
        if "\\ud" in line.lower():  # perhaps half of a surrogate pair, which no file can hold
            try:
                json.dumps(record, ensure_ascii=False).encode()
            except (UnicodeEncodeError, RecursionError) as error:
                raise InputError(where, "half of a surrogate pair", "whole characters") from error
        yield where, record


def missing(record: dict[str, Any], field: str) -> str:
    """The message that an object lacks a field, with the fields that it has."""
    return f"no {field!r} among {', '.join(map(repr, list(record)[:8]))}"


def get_field(where: str, record: dict[str, Any], field: str, expected: str) -> str:
    """A field of an object, which must be a text; an empty one if it is `null`.

    Raises:
      InputError: the field is missing, or of another type.
    """
    value = record.get(field)
    if value is None and field in record:
        return ""
    if not isinstance(value, str):
        wrong = f"{field}: {value!r}" if field in record else missing(record, field)
        raise InputError(where, wrong[:200], expected)
    return value


def json_name(value: object) -> str | None:
    """The name of an item or a user as JSON has it, a text or a number; None for anything else.

    A whole number is one name, however it is written: programs write 3.0 for 3 where a column has
    gaps.

    Example:
      >>> [json_name(value) for value in ("a 3.0", 3, 3.0, 2.5, True)]
      ['a 3.0', '3', '3', '2.5', None]
    """
    if isinstance(value, float) and math.isfinite(value):
        return str(int(value) if value.is_integer() else value)
    return str(value) if type(value) in (str, int) else None


def get_text(
    where: str, record: dict[str, Any], field: str, item_separator: str | None, expected: str
) -> str:
    """The text of a field of an object; a list is joined if texts are lists of items.

    Args:
      where: file and line, for messages.
      record: the object.
      field: the name of the field.
      item_separator: the character between the items of a text; None if texts are not lists.
      expected: the expected value, for messages.

    Raises:
      InputError: the field is missing or of another type, or holds an item with the separator.
    """
    value = record.get(field)
    if item_separator is None or not isinstance(value, list):
        return get_field(where, record, field, expected)
    names = []
    for item in value:
        name = json_name(item)
        if name is None or item_separator in name:
            expected = f"names or numbers without {item_separator!r}, which separates them"
            raise InputError(where, f"{field}: {item!r}"[:200], expected)
        names.append(name)
    return item_separator.join(names)


def csv_rows(
    path: Path, lines: Iterable[tuple[int, str]], wanted: Sequence[Sequence[str]]
) -> Iterator[tuple[str, list[str]]]:
    """Yields (file and first line, cells) of the header and of each row.

    Args:
      path: the file, for messages and `detect_delimiter`.
      lines: as `numbered_lines` yields them.
      wanted: for `detect_delimiter`.

    Raises:
      InputError: no header, faulty CSV, or a row of another width than the header.
    """
    csv.field_size_limit(_LARGEST_CSV_FIELD)
    name = display_name(path)
    lines = iter(lines)
    first = next(lines, None)
    delimiter = "," if first is None else detect_delimiter(path, first[1], wanted)
    lines = itertools.chain([] if first is None else [first], lines)
    rows = csv.reader((line + "\n" for _, line in lines), delimiter=delimiter, strict=True)
    first_line = 1  # of the current row, which may span several lines
    try:
        header = next(rows, None)
        if not header:
            where, found = (name, "an empty file") if header is None else (f"{name}:1", "no header")
            raise InputError(where, found, "the names of columns, and rows below")
        yield f"{name}:1", header
        first_line = rows.line_num + 1
        for row in rows:
            where = f"{name}:{first_line}"
            if row and len(row) != len(header):
                found = counted(len(row), "field")
                raise InputError(where, found, f"{len(header)}, as in the header")
            if row:
                yield where, row
            first_line = rows.line_num + 1
    except csv.Error as error:
        if "unexpected end of data" in str(error):
            found, expected = "a quote that is not closed", 'a " at the end of the cell'
            raise InputError(f"{name}:{first_line}", found, expected) from error
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


def column_index(path: Path, field: str, header: Sequence[str], expected: str) -> int:
    """The index of the column of CSV with a name.

    Args:
      path: the file, for messages.
      field: the name.
      header: the names of all columns.
      expected: the expected header, for messages.

    Raises:
      InputError: no column has the name, or two have.
    """
    if len(header) == 1 and any(mark in header[0] for mark in ",;|"):
        delimiters = "tabs" if _is_tsv(path) else "commas, semicolons or tabs"
        expected = f"columns separated by {delimiters}: this header has one column"
    return find_column(f"{display_name(path)}:1", field, header, expected)


def find_column(where: str, field: str, names: Sequence[str], expected: str) -> int:
    """The index of the column with a name.

    Args:
      where: the file and perhaps its line, for messages.
      field: the name.
      names: those of all columns.
      expected: what is expected if the column is missing, for messages.

    Raises:
      InputError: no column has the name, or two have.
    """
    if field not in names:
        if similar := [name for name in names if name.strip().lower() == field.lower()]:
            expected += f": names must agree in case and spaces, as {similar[0]!r} does not"
        found = f"no column {field!r} among {', '.join(names[:8])}"
        raise InputError(where, found, expected)
    if names.count(field) > 1:
        expected = "a name of its own for each column"
        raise InputError(where, f"column {field!r} twice", expected)
    return names.index(field)


def detect_delimiter(path: Path, header: str, wanted: Sequence[Sequence[str]]) -> str:
    r"""The delimiter of a CSV file: a tab in `.tsv`, otherwise a comma.

    If the header has no comma outside quotes, it is a semicolon or a tab, as spreadsheet programs
    write them, if the header contains one. If the header has several of these, and only one makes
    wanted columns of it, it is this one.

    Args:
      path: the file, for its suffix.
      header: the first line.
      wanted: sets of columns, of which one is expected.

    Example:
      >>> headers = ("id;text", "text", '"id, old";text')
      >>> [detect_delimiter(Path("a.csv"), header, []) for header in headers]
      [';', ',', ';']
      >>> detect_delimiter(Path("a.csv"), "text;labels;price, EUR", [["text", "labels"]])
      ';'
    """
    if _is_tsv(path):
        return "\t"
    unquoted = re.sub('"[^"]*"?', "", header)
    marks = [mark for mark in ",;\t" if mark in unquoted] or [","]
    fitting = (mark for mark in marks if any(map(_names(header, mark).issuperset, wanted)))
    return next(fitting, marks[0])


def _names(header: str, delimiter: str) -> set[str]:
    """The columns of a header; none if it is faulty, which the reader of rows reports."""
    try:
        return set(next(csv.reader([header], delimiter=delimiter), []))
    except csv.Error:
        return set()


def _is_tsv(path: Path) -> bool:
    return path.name.removesuffix(".gz").lower().endswith(".tsv")

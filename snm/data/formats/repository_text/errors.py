"""Finds the first fault of a text file and reports it: the slow pass behind `reader`.

It checks line by line and token by token, and runs only on blocks that `parser` refused.
"""

from __future__ import annotations

import math
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np

from snm.data.formats.gzipped import BYTE_ORDER_MARK
from snm.data.formats.records import MAX_IDS, NUMBER
from snm.errors import InputError

__all__ = [
    "FEATURES",
    "LABELS",
    "ONE_FILE",
    "Form",
    "Header",
    "explain",
    "import_command",
    "read_header",
    "shown",
]

_INDEX = re.compile(rb"[0-9]{1,16}")
_SIZE = re.compile(rb"[0-9]{1,40}")  # of the header; one that is too large is named whole
_MAX_POINTS = 10**16 - 1  # more than any file has; fits into int64
_NEGATIVE = re.compile(rb"-[0-9]+")
_NUMBER = re.compile(NUMBER.encode())
_NOT_FINITE = re.compile(rb"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_POINT = re.compile(rb"\S*[ \t]+[0-9]+:\S")


@dataclass(frozen=True)
class Form:
    """One of the three text forms.

    Attributes:
      name: name of the form.
      header: columns of the header.
      labels_first: whether lines start with a list of labels.
      entry: what the id of an `id:value` pair is, "feature" or "label".
    """

    name: str
    header: tuple[str, ...]
    labels_first: bool
    entry: str


ONE_FILE = Form("one-file", ("points", "features", "labels"), True, "feature")
FEATURES = Form("features", ("points", "features"), False, "feature")
LABELS = Form("labels", ("points", "labels"), False, "label")


@dataclass(frozen=True)
class Header:
    """Numbers of the first line; 0 for a column that the form does not have."""

    rows: int
    num_features: int
    num_labels: int


_SHOWN = 40  # bytes


def shown(token: bytes) -> str:
    """The token as quoted printable ASCII, cut to 40 bytes."""
    text = ascii(token[:_SHOWN].decode("utf-8", "backslashreplace"))
    return text + ("..." if len(token) > _SHOWN else "")


def import_command(path: Path, first: bytes) -> str | None:
    """The command that reads a training file whose first line is a point, not a header; or None.

    Not for test points alone: an import gives labels ids of their own.
    """
    if path.name.removesuffix(".gz") != "train.txt" or not _POINT.match(first):
        return None
    words = ["snm", "data", "import", str(path)]
    for test in (path.with_name("test.txt"), path.with_name("test.txt.gz")):
        words += ["--test", str(test)] if test.is_file() else []
    return shlex.join([*words, "--format", "svmlight", "--out", "DATA"])


def read_header(path: Path, start: bytes, forms: tuple[Form, ...]) -> tuple[Form, Header, int]:
    """Reads the first line of a file.

    Args:
      path: the file, named in errors.
      start: the first 4096 bytes of the file, or all of it.
      forms: the accepted forms, of different header lengths.

    Returns:
      the form, the header, and the length of the line in bytes, with a byte order mark before it.

    Raises:
      InputError: an empty file, or a first line that is none of the accepted headers.
    """
    where = f"{path}:1"
    whole, start = start, start.removeprefix(BYTE_ORDER_MARK)
    expected = " or ".join(f"a header `{' '.join(form.header)}`" for form in forms)
    if not start:
        raise InputError(where, "an empty file", expected)
    line, newline, _ = start.partition(b"\n")
    tokens = line.split()
    if len(line) == 4096 or not all(map(_SIZE.fullmatch, tokens)) or not tokens:
        if (command := import_command(path, line)) is not None:
            expected = f"{expected}; `{command}` reads points without one"
        raise InputError(where, shown(line), expected)
    form = next((form for form in forms if len(form.header) == len(tokens)), None)
    if form is None:
        raise InputError(where, f"{len(tokens)} numbers ({shown(line)})", expected)
    numbers = dict(zip(form.header, map(int, tokens), strict=True))
    for column, number in numbers.items():
        if number < 1:
            raise InputError(where, f"{number} {column}", f"at least 1 ({expected})")
        if number > (most := _MAX_POINTS if column == "points" else MAX_IDS):
            raise InputError(where, f"{number} {column}", f"at most {most}")
    header = Header(numbers["points"], numbers.get("features", 0), numbers.get("labels", 0))
    return form, header, len(whole) - len(start) + len(line) + len(newline)


def explain(path: Path, first_line: int, text: bytes, form: Form, header: Header) -> NoReturn:
    """Raises the first fault of a block of lines.

    Args:
      path: the file, named in the error.
      first_line: line number of the first line of the block (the header is line 1).
      text: the unchanged lines of the file.
      form: form of the file.
      header: header of the file.

    Raises:
      InputError: the first fault.
      AssertionError: there is no fault, so `parser` refused good input, which is a bug.
    """
    for number, line in enumerate(text.removesuffix(b"\n").split(b"\n"), first_line):
        where = f"{path}:{number}"
        if number - 1 > header.rows:
            raise InputError(where, f"row {number - 1}", f"{header.rows} rows, as the header says")
        _check_line(where, line.removesuffix(b"\r"), form, header)
    raise AssertionError(f"{path}: lines from {first_line} on were refused, yet nothing is wrong")


def _check_line(where: str, line: bytes, form: Form, header: Header) -> None:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as error:
        bad = line[error.start : error.start + 8]
        raise InputError(where, f"bytes that are not text ({shown(bad)})", "text") from error
    line = line.replace(b"\t", b" ")
    if form.labels_first:
        front, _, line = line.partition(b" ")
        if b":" in front:
            raise InputError(
                where,
                f"{shown(front)} at the start of the line",
                "labels, or a space in a row without labels",
            )
        seen: set[int] = set()
        for token in front.split(b",") if front else []:
            _check_index(where, token, "label", header.num_labels, seen)
    width = header.num_labels if form is LABELS else header.num_features
    seen = set()
    for token in line.split(b" "):
        if not token:
            continue
        index, colon, value = token.partition(b":")
        if not colon:
            raise InputError(where, shown(token), f"a pair {form.entry}:value")
        _check_index(where, index, form.entry, width, seen)
        _check_value(where, value, form)


def _check_index(where: str, token: bytes, noun: str, width: int, seen: set[int]) -> None:
    expected = f"an index from 0 to {width - 1}"
    if _NEGATIVE.fullmatch(token):
        raise InputError(where, f"negative {noun} index {shown(token)[1:-1]}", expected)
    if not _INDEX.fullmatch(token):
        raise InputError(where, f"{noun} index {shown(token)}", expected)
    index = int(token)
    if index >= width:
        raise InputError(where, f"{noun} index {index}", expected)
    if index in seen:
        raise InputError(where, f"{noun} {index} twice", f"each {noun} once in a row")
    seen.add(index)


def _check_value(where: str, token: bytes, form: Form) -> None:
    if _NOT_FINITE.fullmatch(token):
        raise InputError(where, f"value {shown(token)}", "a finite float32 number")
    if not _NUMBER.fullmatch(token):
        raise InputError(where, f"value {shown(token)}", "a number")
    value = float(token)
    with np.errstate(over="ignore"):
        fits = math.isfinite(np.float32(value))
    if not fits:
        raise InputError(where, f"value {shown(token)}", "a finite float32 number")
    if form is LABELS and np.float32(value) != 1:
        raise InputError(where, f"label value {shown(token)}", "1 (a label is there or not)")

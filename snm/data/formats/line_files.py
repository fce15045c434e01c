"""Reads text files with one value a line: label names, weights, label filters.

Any fault of a file raises one `InputError` that names the file and the line.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from snm.data.formats.gzipped import BYTE_ORDER_MARK, UNREADABLE, open_bytes, unreadable
from snm.data.formats.not_text import undecoded
from snm.data.formats.records import parse_number
from snm.data.formats.repository_text.errors import shown
from snm.errors import InputError
from snm.text import counted

__all__ = ["read_filter", "read_lines", "read_names", "read_weights"]


def read_lines(path: Path) -> list[str]:
    """Reads the lines of a UTF-8 text file without their ends; `.gz` is unpacked.

    Raises:
      InputError: a file that cannot be read, or bytes that are not UTF-8.
    """
    try:
        with open_bytes(path) as stream:
            raw = stream.read().removeprefix(BYTE_ORDER_MARK)
        text = raw.decode("utf-8")
    except UNREADABLE as error:
        raise unreadable(path, error) from error
    except UnicodeDecodeError as error:
        number = raw.count(b"\n", 0, error.start) + 1
        begin = raw.rfind(b"\n", 0, error.start) + 1
        line = b"".join(raw[begin:].partition(b"\n")[:2])
        where, start = f"{path}:{number}", error.start - begin
        raise undecoded(where, line, start, first=number == 1) from error
    # Not `splitlines`: a name may hold a Unicode line separator.
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _without_blank_end(lines: list[str], count: int) -> list[str]:
    """The lines without blank ones at the end that are past the first `count`."""
    last = len(lines)
    while last > count and not lines[last - 1]:
        last -= 1
    return lines[:last]


def read_names(path: str | Path, num_labels: int) -> tuple[str, ...]:
    """Reads label names, one a line, in the order of the label ids.

    Raises:
      InputError: not exactly `num_labels` lines (blank ones may follow), or bytes that are not
        UTF-8.
    """
    names = _without_blank_end(read_lines(Path(path)), num_labels)
    if len(names) != num_labels:
        where = f"{path}:{min(len(names), num_labels) + 1}"
        raise InputError(where, counted(len(names), "name"), f"{num_labels}, one a label")
    return tuple(names)


def read_weights(
    path: str | Path, count: int, noun: str = "training point", *, zero: bool = True
) -> NDArray[np.float32]:
    """Reads weights, one a line, in the order of the points (or labels): float32 [n].

    Args:
      path: the file.
      count: n.
      noun: what has the weights.
      zero: whether a weight may be 0.

    Raises:
      InputError: not exactly n lines (blank ones may follow), a line that is no finite float32
        number of at least 0 (or above it), or only zeros.
    """
    lines = _without_blank_end(read_lines(Path(path)), count)
    weights = np.zeros(len(lines), np.float32)
    most = float(np.finfo(np.float32).max)
    for row, line in enumerate(lines):
        weight = parse_number(line)
        weights[row] = weight if 0 <= weight <= most else math.nan
        if not (weights[row] >= 0 if zero else weights[row] > 0):
            expected = f"a finite number {'of at least' if zero else 'above'} 0"
            raise InputError(f"{path}:{row + 1}", shown(line.encode()), expected)
    if len(lines) != count:
        where = f"{path}:{min(len(lines), count) + 1}"
        raise InputError(where, counted(len(lines), "weight"), f"{count}, one a {noun}")
    if not weights.any():
        raise InputError(str(path), "only zeros", "a weight above 0")
    return weights


def read_filter(path: str | Path, num_rows: int, num_labels: int) -> NDArray[np.int64]:
    """Reads a label filter: pairs `row label` that evaluation leaves out.

    Repeated pairs are allowed, and blank lines at the end. An empty file filters nothing.

    Returns:
      int64 [pairs, 2], 0-based, in the order of the file.

    Raises:
      InputError: a line that does not hold two indices in range.
    """
    pairs = []
    for number, line in enumerate(_without_blank_end(read_lines(Path(path)), 0), 1):
        tokens = line.split()
        if len(tokens) != 2 or not all(re.fullmatch("[0-9]{1,16}", token) for token in tokens):
            found = shown(line.encode())
            raise InputError(f"{path}:{number}", found, "two indices, `row label`")
        row, label = map(int, tokens)
        for noun, index, size in (("row", row, num_rows), ("label", label, num_labels)):
            if index >= size:
                found = f"{noun} index {index}"
                raise InputError(f"{path}:{number}", found, f"an index from 0 to {size - 1}")
        pairs.append((row, label))
    return np.array(pairs, np.int64).reshape(-1, 2)

"""Reads and writes the text and binary formats through one set of functions.

Any fault of a file raises one `InputError` that names the file and, in text, the line. Nothing is
repaired silently. The modules `text` and `binary` hold the readers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, vstack

from snm.data.formats.binary import iter_npy, iter_npz, read_npy, read_npz
from snm.data.formats.gzipped import BYTE_ORDER_MARK, UNREADABLE, open_bytes, unreadable
from snm.data.formats.not_text import undecoded
from snm.data.formats.records import parse_number
from snm.data.formats.text import TextReader, read_pair, read_text, to_csr
from snm.data.formats.text_errors import FEATURES, ONE_FILE, shown
from snm.data.formats.text_writer import write_text
from snm.errors import InputError, counted

__all__ = [
    "iter_features",
    "read_filter",
    "read_lines",
    "read_names",
    "read_npy",
    "read_npz",
    "read_pair",
    "read_text",
    "read_weights",
    "write_text",
]


def iter_features(
    path: str | Path, num_features: int, chunk_rows: int = 4096
) -> Iterator[csr_matrix]:
    """Streams the features of a file of any size in bounded memory.

    Args:
      path: one-file text (its labels, if any, are checked and dropped) or `X_Xf` text, plain or
        gzipped; a SciPy `.npz` CSR matrix; a dense `.npy` matrix.
      num_features: required number of features d.
      chunk_rows: rows of each piece; the last one may have fewer.

    Yields:
      float32 CSR [up to chunk_rows, d] with sorted ids and no zeros, in the order of the file.

    Raises:
      InputError: another number of features, or any fault of the file. Pieces before the fault
        may have been yielded.
    """
    path = Path(path)
    if chunk_rows < 1:
        raise InputError("chunk_rows", f"{chunk_rows}", "at least 1")
    if path.suffix.lower() == ".npz":
        yield from iter_npz(path, chunk_rows, width=num_features)
    elif path.suffix.lower() == ".npy":
        yield from iter_npy(path, chunk_rows, width=num_features)
    else:
        yield from _iter_text(path, num_features, chunk_rows)


def _iter_text(path: Path, num_features: int, chunk_rows: int) -> Iterator[csr_matrix]:
    reader = TextReader(path, ONE_FILE, FEATURES)
    if reader.header.num_features != num_features:
        found = f"a header of {counted(reader.header.num_features, 'feature')}"
        raise InputError(f"{path}:1", found, f"{num_features}")
    pending: list[csr_matrix] = []
    num_pending = 0
    for block in reader.blocks():
        rows = to_csr([block.counts], [block.ids], [block.values], num_features)
        first = 0
        while num_pending + block.rows - first >= chunk_rows:
            last = first + chunk_rows - num_pending
            yield vstack([*pending, rows[first:last]], format="csr")
            pending, num_pending, first = [], 0, last
        if first < block.rows:
            pending.append(rows[first:])
            num_pending += block.rows - first
    if pending:
        yield vstack(pending, format="csr")


def read_lines(path: Path) -> list[str]:
    """Reads the lines of a UTF-8 text file without their ends; `.gz` is unpacked.

    Raises:
      InputError: a file that cannot be read, bytes that are not UTF-8, or gzipped data of more
        than 16 MiB and 100 times the file's size.
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

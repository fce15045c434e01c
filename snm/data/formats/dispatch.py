"""Files in and out: the text and binary formats behind one set of functions.

Whatever is wrong with a file is one `InputError` that names it and, in text, the line; nothing is
repaired silently. `text_format` and `binary_format` hold the readers proper.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, vstack

from snm.data.formats.binary import iter_npy, iter_npz, read_npy, read_npz
from snm.data.formats.gzipped import UNREADABLE, unreadable
from snm.data.formats.text import TextReader, read_pair, read_text, to_csr
from snm.data.formats.text_errors import FEATURES, ONE_FILE, shown
from snm.data.formats.text_writer import write_text
from snm.errors import InputError

__all__ = [
    "iter_features",
    "read_filter",
    "read_lines",
    "read_names",
    "read_npy",
    "read_npz",
    "read_pair",
    "read_text",
    "write_text",
]

# What a packed text file may unpack to: text shrinks by ten, zeros by a thousand.
_MOST_TIMES = 100
_LEAST_UNPACKED = 1 << 24


def iter_features(
    path: str | Path, num_features: int, chunk_rows: int = 4096
) -> Iterator[csr_matrix]:
    """Streams the inputs of a file of any size in bounded memory.

    Args:
      path: one-file text (its labels, if any, are checked and dropped), `X_Xf` text, either
        gzipped; a SciPy `.npz` CSR matrix; a dense `.npy` matrix.
      num_features: the width that the file must have.
      chunk_rows: rows of each piece; the last one may have fewer.

    Yields:
      float32 CSR [up to chunk_rows, num_features] with sorted ids, in the file's order.

    Raises:
      InputError: another width, or anything wrong with the file; pieces before the fault may
        have been yielded.
    """
    path = Path(path)
    if chunk_rows < 1:
        raise InputError("chunk_rows", f"{chunk_rows}", "at least 1")
    if path.suffix == ".npz":
        yield from iter_npz(path, chunk_rows, width=num_features)
    elif path.suffix == ".npy":
        yield from iter_npy(path, chunk_rows, width=num_features)
    else:
        yield from _iter_text(path, num_features, chunk_rows)


def _iter_text(path: Path, num_features: int, chunk_rows: int) -> Iterator[csr_matrix]:
    reader = TextReader(path, ONE_FILE, FEATURES)
    if reader.header.num_features != num_features:
        found = f"a header of {reader.header.num_features} features"
        raise InputError(f"{path}:1", found, f"{num_features}")
    waiting: list[csr_matrix] = []
    held = 0
    for block in reader.blocks():
        rows = to_csr([block.counts], [block.ids], [block.values], num_features)
        first = 0
        while held + block.rows - first >= chunk_rows:
            last = first + chunk_rows - held
            yield vstack([*waiting, rows[first:last]], format="csr")
            waiting, held, first = [], 0, last
        if first < block.rows:
            waiting.append(rows[first:])
            held += block.rows - first
    if waiting:
        yield vstack(waiting, format="csr")


def read_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 text file, `.gz` unpacked, without their ends.

    Raises:
      InputError: a file that cannot be read, or bytes that are no UTF-8.
    """
    try:
        raw = path.read_bytes()
        if path.suffix == ".gz":
            limit = max(_LEAST_UNPACKED, _MOST_TIMES * len(raw))
            with gzip.open(path) as packed:
                raw = packed.read(limit + 1)
            if len(raw) > limit:
                found = f"more than {_MOST_TIMES} times its size unpacked"
                raise InputError(str(path), found, "names or pairs of indices")
        text = raw.decode("utf-8")
    except UNREADABLE as error:
        raise unreadable(path, error) from error
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        bad = shown(raw[error.start : error.start + 8])
        raise InputError(f"{path}:{line}", f"bytes that are not text ({bad})", "UTF-8") from error
    # Not `splitlines`: a name may hold what Unicode calls a line end.
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def read_names(path: str | Path, num_labels: int) -> tuple[str, ...]:
    """Reads the labels' names, one a line, in the order of their ids.

    Raises:
      InputError: another number of lines than `num_labels`, or bytes that are no UTF-8.
    """
    names = read_lines(Path(path))
    if len(names) != num_labels:
        where = f"{path}:{min(len(names), num_labels) + 1}"
        raise InputError(where, f"{len(names)} names", f"{num_labels}, one a label")
    return tuple(names)


def read_filter(path: str | Path, num_rows: int, num_labels: int) -> NDArray[np.int64]:
    """Reads a label filter: pairs `row label` that evaluation must leave out.

    A pair that is there twice is harmless, and an empty file filters nothing.

    Returns:
      int64 [pairs, 2], 0-based, in the file's order.

    Raises:
      InputError: a line that is not two indices in range.
    """
    pairs = []
    for number, line in enumerate(read_lines(Path(path)), 1):
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

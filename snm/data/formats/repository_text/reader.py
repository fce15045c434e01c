"""Reads the text formats of the Extreme Classification Repository, a block of bytes at a time.

Three forms share one grammar. Ids are 0-based. A file whose name ends in `.gz` is gzipped.

- one file: header `points features labels`, then one line a point, `l1,l2,... f:v f:v ...`;
  the line of a point without labels starts with a space;
- features only (`X_Xf.txt`): header `points features`, lines `f:v f:v ...`;
- labels only (`X_Y.txt`): header `points labels`, lines `l:1 l:1 ...`.

A blank line is a point without labels and features; blank lines after the last point that the
header promises are the end of the file. A byte order mark at its start is skipped.

`parser` parses a whole block fast, or refuses it. `errors` then reads the refused block
line by line to find and report its first fault.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.data.formats.gzipped import (
    LONGEST_LINE,
    UNREADABLE,
    is_damage,
    open_bytes,
    unreadable,
)
from snm.data.formats.repository_text.errors import (
    FEATURES,
    LABELS,
    ONE_FILE,
    Form,
    Header,
    explain,
    read_header,
)
from snm.data.formats.repository_text.parser import Block, parse_block
from snm.errors import InputError

__all__ = ["Piece", "TextReader", "join_pieces", "read_pair", "read_text", "split_pieces"]

# The parser's temporaries take about 30 bytes a byte of text: a small block suits the CPU caches.
_BLOCK_BYTES = 1 << 20


class TextReader:
    """Reads one text file, a block of rows at a time, in memory bounded by the block.

    Args:
      path: the file; `.gz` is unpacked.
      forms: the accepted forms; the number of columns in the header tells them apart.

    Attributes:
      form: the form of this file.
      header: the numbers of its header.

    Raises:
      InputError: at the first fault, naming file and line (the header is line 1).
    """

    def __init__(self, path: Path, *forms: Form):
        self.path = path
        with self._open() as stream:
            first = self._read(stream, 4096)
        self.header: Header
        self.form: Form
        self.form, self.header, self._skip = read_header(path, first, forms)

    def _open(self) -> BinaryIO | gzip.GzipFile:
        try:
            return open_bytes(self.path)
        except OSError as error:
            raise unreadable(self.path, error) from error

    def _read(self, stream: BinaryIO | gzip.GzipFile, size: int) -> bytes:
        try:
            return stream.read(size)
        except UNREADABLE as error:
            line = f":{self._last_readable_line()}" if is_damage(error) else ""
            raise unreadable(f"{self.path}{line}", error) from error

    def _last_readable_line(self) -> int:
        """The line at which damaged gzip data breaks off, counted by reading the file again."""
        line = 1
        with gzip.open(self.path, "rb") as stream:
            try:
                while piece := stream.read1(4096):
                    line += piece.count(b"\n")
            except UNREADABLE:
                pass
        return line

    def blocks(self) -> Iterator[Block]:
        """Yields the rows in order, in blocks of about 1 MiB of text."""
        rows, rest = 0, b""
        num_ids = self.header.num_labels if self.form is LABELS else self.header.num_features
        with self._open() as stream:
            self._read(stream, self._skip)
            while True:
                piece = self._read(stream, _BLOCK_BYTES)
                text = rest + piece
                if piece:
                    cut = text.rfind(b"\n") + 1
                    text, rest = text[:cut], text[cut:]
                    if len(rest) > LONGEST_LINE:
                        found = f"a line of over {LONGEST_LINE} bytes"
                        raise InputError(f"{self.path}:{rows + 2}", found, "text in lines")
                elif text and not text.endswith(b"\n"):
                    text += b"\n"
                if text:
                    block = self._parse(text, num_ids)
                    left = self.header.rows - rows
                    if block is None or (block.rows > left and not _blank_after(text, left)):
                        explain(self.path, rows + 2, text, self.form, self.header)
                    if block.rows > left:
                        block = block.first(left)
                    rows += block.rows
                    if block.rows:
                        yield block if self.form is LABELS else block.without_zeros()
                if not piece:
                    break
        if rows < self.header.rows:
            raise InputError(
                f"{self.path}:{rows + 2}",
                f"the end of the file after {rows} rows",
                f"{self.header.rows} rows, as the header says",
            )

    def _parse(self, text: bytes, num_ids: int) -> Block | None:
        # The parser knows newlines and spaces only.
        if b"\r" in text:
            text = text.replace(b"\r\n", b"\n")
        if b"\t" in text:
            text = text.replace(b"\t", b" ")
        return parse_block(text, self.form, num_ids, self.header.num_labels)


def _blank_after(text: bytes, count: int) -> bool:
    """Whether all lines after the first `count` are blank."""
    return not text.split(b"\n", count)[count].strip(b"\r\n")


class Piece(NamedTuple):
    """Consecutive rows of the features or of the labels.

    Attributes:
      matrix: `features` or `labels`.
      counts: int64 [rows], entries of each row.
      ids: int32 [entries], increasing within a row.
      values: float32 [entries]; None for labels, whose values are 1.
    """

    matrix: str
    counts: NDArray[np.int64]
    ids: NDArray[np.int32]
    values: NDArray[np.float32] | None


def split_pieces(files: list[Path]) -> tuple[dict[str, int], Iterator[Piece]]:
    """Reads features and labels in memory bounded by a block of the files.

    Args:
      files: one in the one-file form, or features and labels.

    Returns:
      the widths of `features` and `labels`, and their rows in order; those of the two matrices may
      take turns.

    Raises:
      InputError: as `read_text` and `read_pair`, some of them while the pieces are read.
    """
    if len(files) == 1:
        reader = TextReader(files[0], ONE_FILE)
        widths = {"features": reader.header.num_features, "labels": reader.header.num_labels}
        return widths, _pieces_of_one(reader)
    features, labels = TextReader(files[0], FEATURES), TextReader(files[1], LABELS)
    if features.header.rows != labels.header.rows:
        raise InputError(
            f"{labels.path}:1",
            f"a header of {labels.header.rows} rows",
            f"{features.header.rows}, as in {features.path}",
        )
    widths = {"features": features.header.num_features, "labels": labels.header.num_labels}
    return widths, _pieces_of_pair(features, labels)


def _pieces_of_one(reader: TextReader) -> Iterator[Piece]:
    for block in reader.blocks():
        yield Piece("features", block.counts, block.ids, block.values)
        yield Piece("labels", block.label_counts, block.labels, None)


def _pieces_of_pair(features: TextReader, labels: TextReader) -> Iterator[Piece]:
    for block in features.blocks():
        yield Piece("features", block.counts, block.ids, block.values)
    for block in labels.blocks():
        yield Piece("labels", block.counts, block.ids, None)


def join_pieces(
    counts: list[NDArray[np.int64]],
    ids: list[NDArray[np.int32]],
    values: list[NDArray[np.float32]] | None,
    width: int,
) -> csr_matrix:
    """Concatenates pieces into one float32 CSR [rows, width].

    Args:
      counts: int64 [rows of the piece], entries of each row.
      ids: int32 [entries of the piece], sorted within rows.
      values: float32 [entries of the piece]; None stands for ones.
      width: number of columns.
    """
    indptr = np.concatenate([np.zeros(1, np.int64), *counts])
    np.cumsum(indptr, out=indptr)
    indices = np.concatenate([np.zeros(0, np.int32), *ids])
    data = (
        np.ones(indices.size, np.float32)
        if values is None
        else np.concatenate([np.zeros(0, np.float32), *values])
    )
    if indptr[-1] < 2**31:  # SciPy copies the ids if the pointers are wider
        indptr = indptr.astype(np.int32)
    matrix = csr_matrix((data, indices, indptr), shape=(indptr.size - 1, width))
    matrix.has_sorted_indices = True
    return matrix


def read_text(path: str | Path) -> tuple[csr_matrix, csr_matrix]:
    """Reads the one-file form.

    Args:
      path: header `n d K`, then n lines `l1,l2,... f:v f:v ...`; `.gz` is unpacked.

    Returns:
      features, float32 CSR [n, d], and labels, float32 CSR [n, K] of ones. Ids are sorted within
      rows, even where the file's are not. Features of value 0 are left out.

    Raises:
      InputError: any fault, naming file and line.
    """
    return _read_whole([Path(path)])


def read_pair(features_path: str | Path, labels_path: str | Path) -> tuple[csr_matrix, csr_matrix]:
    """Reads the two-file form: `..._X_Xf.txt` (header `n d`) and `..._X_Y.txt` (header `n K`).

    Returns:
      features and labels as from `read_text`.

    Raises:
      InputError: any fault, naming file and line. Different numbers of rows in the two files, and
        label values other than 1, are faults.
    """
    return _read_whole([Path(features_path), Path(labels_path)])


def _read_whole(files: list[Path]) -> tuple[csr_matrix, csr_matrix]:
    """Features and labels, of the pieces of `split_pieces`."""
    widths, pieces = split_pieces(files)
    parts: dict[str, list[Piece]] = {name: [] for name in widths}
    for piece in pieces:
        parts[piece.matrix].append(piece)
    features, labels = parts.pop("features"), parts.pop("labels")
    values = [piece.values for piece in features if piece.values is not None]
    counts, ids = [p.counts for p in features], [p.ids for p in features]
    return (
        join_pieces(counts, ids, values, widths["features"]),
        join_pieces([p.counts for p in labels], [p.ids for p in labels], None, widths["labels"]),
    )

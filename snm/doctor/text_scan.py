"""Scans a text file that a reader rejected, to find faults of the whole file.

The readers stop at the first faulty line. Two faults concern the whole file and show only when one
reads on: ids that start at 1, and a header with wrong numbers.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from pathlib import Path

from snm.data.formats.gzipped import BYTE_ORDER_MARK, UNREADABLE, open_bytes

__all__ = ["Scan", "first_line", "scan"]

_LINES = 200_000  # scanned at most
_ENTRY = re.compile(rb"(\d+):")


@dataclass(frozen=True)
class Scan:
    """The content of the lines of a text file.

    Attributes:
      first: the first line, or its first 4096 bytes.
      header: the numbers of the first line, or () if it is not a header.
      rows: the number of scanned lines after the header, without blank ones at the end that the
        header does not promise.
      whole: whether the scan reached the end of the file.
      entries: the lowest and highest feature id (before a colon), or None if there is none.
      labels: the lowest and highest label id (at the start of a line), or None if there is none.
    """

    first: bytes
    header: tuple[int, ...]
    rows: int
    whole: bool
    entries: tuple[int, int] | None
    labels: tuple[int, int] | None


def scan(path: Path) -> Scan | None:
    """Scans the first lines of a text file, ignoring faults; None if it cannot be read as text."""
    entries: list[int] = []
    labels: list[int] = []
    lines = filled = 0  # of the rows, and of those up to the last that is not blank
    whole = False
    try:
        with open_bytes(path) as stream:
            first = stream.readline(4096).removeprefix(BYTE_ORDER_MARK)
            for line in itertools.islice(stream, _LINES):
                lines += 1
                filled = lines if line.strip(b"\r\n") else filled
                ids = [int(found) for found in _ENTRY.findall(line)]
                entries += [min(ids), max(ids)] if ids else []
                front = line.split(b" ", 1)[0].strip()
                if front and b":" not in front:
                    named = [int(part) for part in front.split(b",") if part.isdigit()]
                    labels += [min(named), max(named)] if named else []
            whole = not stream.read(1)
    except (*UNREADABLE, ValueError):
        return None
    words = first.split()
    header = tuple(map(int, words)) if all(word.isdigit() for word in words) else ()
    return Scan(
        first,
        header,
        max(filled, min(lines, header[0] if header else lines)),
        whole,
        (min(entries), max(entries)) if entries else None,
        (min(labels), max(labels)) if labels else None,
    )


def first_line(path: Path) -> str:
    """The first line of a file, whatever it holds; empty if it cannot be read."""
    try:
        with open_bytes(path) as stream:
            line = stream.readline(1 << 16).removeprefix(BYTE_ORDER_MARK)
    except UNREADABLE:
        return ""
    return line.decode("utf-8", "replace")

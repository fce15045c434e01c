"""A second look at a text file that was refused: is its header wrong, or where its ids begin?

The readers stop at the first fault. Two faults are those of a whole file, and are told apart from
a damaged line only by reading on: ids that start at 1, and a header of other numbers.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from pathlib import Path

from snm.data.formats.gzipped import UNREADABLE, open_bytes

__all__ = ["Scan", "scan", "sniff"]

_LINES = 200_000  # looked at
_ENTRY = re.compile(rb"(\d+):")


@dataclass(frozen=True)
class Scan:
    """What the lines of a text file hold, whatever its header says.

    Attributes:
      header: the numbers of the first line, or () if it is no header.
      rows: lines after the header; of the whole file, if `whole`.
      whole: whether the file ended within the lines looked at.
      entries: lowest and highest id before a colon, or None without any.
      labels: lowest and highest id in front of a line, or None without any.
    """

    header: tuple[int, ...]
    rows: int
    whole: bool
    entries: tuple[int, int] | None
    labels: tuple[int, int] | None


def scan(path: Path) -> Scan | None:
    """Reads the first lines of a text file tolerantly; None if it cannot be read as text."""
    entries: list[int] = []
    labels: list[int] = []
    rows, whole = 0, False
    try:
        with open_bytes(path) as stream:
            first = stream.readline(4096).split()
            for line in itertools.islice(stream, _LINES):
                rows += 1
                ids = [int(found) for found in _ENTRY.findall(line)]
                entries += [min(ids), max(ids)] if ids else []
                front = line.split(b" ", 1)[0].strip()
                if front and b":" not in front:
                    named = [int(part) for part in front.split(b",") if part.isdigit()]
                    labels += [min(named), max(named)] if named else []
            whole = not stream.read(1)
    except (*UNREADABLE, ValueError):
        return None
    header = tuple(int(word) for word in first) if all(w.isdigit() for w in first) else ()
    return Scan(
        header,
        rows,
        whole,
        (min(entries), max(entries)) if entries else None,
        (min(labels), max(labels)) if labels else None,
    )


# What a first line looks like, by format; what to do with such a file.
_SNIFFED = (
    (re.compile(rb"^\s*\{"), "JSON lines"),
    (re.compile(rb"(^|\s)__label__\S"), "fastText lines"),
    (re.compile(rb"^\s*[-+\d.,eE]+\s+\d+:[-+\d.eE]+"), "svmlight lines"),
    (re.compile(rb"^\d+\s+\d+(\s+\d+)?\s*$"), "the repository's text with a header"),
)


def sniff(path: Path) -> str | None:
    """Which format a file's first line speaks for, or None."""
    try:
        with open_bytes(path) as stream:
            line = stream.readline(1 << 16)
    except UNREADABLE:
        return None
    return next((name for pattern, name in _SNIFFED if pattern.search(line)), None)

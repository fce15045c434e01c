"""Detects the format of a file for `snm data import`, by the table `foreign.READERS`."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence
from pathlib import Path

from snm.data.formats.foreign import READERS
from snm.data.formats.records import numbered_lines
from snm.data.formats.split_files import HEADER, header_error
from snm.errors import InputError

__all__ = ["detect", "detect_all", "recognize", "recognize_file"]


def recognize(path: Path, first: str) -> str | None:
    """The format that a file has by its bytes, suffix or first line; None if it is none."""
    return recognize_file(path) or _by_line(first)


def recognize_file(path: Path) -> str | None:
    """The format that a file has by its first bytes, or by its suffix; None if it is none."""
    start = b""
    with contextlib.suppress(OSError):  # the reader reports it
        if path.is_file():  # and no pipe, which can be read once
            with path.open("rb") as stream:
                start = stream.read(max(len(reader.magic or b"") for reader in READERS.values()))
    file_name = path.name.removesuffix(".gz").lower()
    by_start = (name for name, one in READERS.items() if one.magic and start.startswith(one.magic))
    by_suffix = (name for name, one in READERS.items() if file_name.endswith(one.suffixes))
    return next(itertools.chain(by_start, by_suffix), None)


def _by_line(first: str) -> str | None:
    return next((name for name, reader in READERS.items() if reader.matches(first)), None)


def detect(path: Path, label_file: Path | None) -> str:
    """Names the format of a file: by its first bytes, its suffix, or its first line.

    Raises:
      InputError: none identifies a format, and there is no label file (which only raw text has).
    """
    if (name := recognize_file(path)) is not None:
        return name
    first = next(numbered_lines(path), (1, ""))[1]
    if (name := _by_line(first)) is not None:
        return name
    if label_file is not None:
        return next(name for name, reader in READERS.items() if reader.label_file)
    if HEADER.fullmatch(first):
        raise header_error(path, first, " (or --format)")
    expected = f"--format, one of {', '.join(READERS)}"
    raise InputError(str(path), f"a first line {first[:40]!a}", expected)


def detect_all(paths: Sequence[Path], label_file: Path | None) -> str:
    """Names the format of files that are read as one.

    Raises:
      InputError: as `detect` of each; or two have different formats.
    """
    first, *others = paths
    form = detect(first, label_file)
    for path in others:
        if (other := detect(path, label_file)) != form:
            raise InputError(str(path), other, f"{form}, as {first} is")
    return form

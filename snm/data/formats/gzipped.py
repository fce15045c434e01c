"""Opens plain and gzipped files, and turns read errors into `InputError`."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import BinaryIO

from snm.errors import InputError
from snm.system.faults import read_error

__all__ = [
    "BYTE_ORDER_MARK",
    "LONGEST_LINE",
    "UNREADABLE",
    "is_damage",
    "open_bytes",
    "unreadable",
]

UNREADABLE = (OSError, EOFError, zlib.error)
"""Exceptions that opening or reading a plain or gzipped file may raise."""

LONGEST_LINE = 1 << 24
"""Bytes of the longest line: it bounds memory on files without line ends."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""Spreadsheets begin UTF-8 files with it."""


def open_bytes(path: Path) -> BinaryIO | gzip.GzipFile:
    """Opens a file for reading bytes; a file whose name ends in `.gz` is unpacked."""
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")


def is_damage(error: Exception) -> bool:
    """Whether an exception of `UNREADABLE` means damaged or truncated gzip data."""
    return isinstance(error, (EOFError, gzip.BadGzipFile, zlib.error))


def unreadable(where: str | Path, error: Exception) -> InputError:
    """The `InputError` to raise from an exception of `UNREADABLE`."""
    if isinstance(error, EOFError):
        return InputError(str(where), "a truncated gzip file", "a complete file")
    if is_damage(error):
        return InputError(str(where), f"damaged gzip data ({error})", "an intact file")
    return read_error(where, error, "a readable file")

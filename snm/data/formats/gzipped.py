"""Opens plain and gzipped files, and turns read errors into `InputError`."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import BinaryIO

from snm.errors import InputError

__all__ = ["UNREADABLE", "is_damage", "open_bytes", "unreadable"]

UNREADABLE = (OSError, EOFError, zlib.error)
"""Exceptions that opening or reading a plain or gzipped file may raise."""


def open_bytes(path: Path) -> BinaryIO:
    """Opens a file for reading bytes; a file whose name ends in `.gz` is unpacked."""
    if path.suffix == ".gz":
        return gzip.open(path, "rb")  # type: ignore[return-value]
    return path.open("rb")


def is_damage(error: Exception) -> bool:
    """Whether an exception of `UNREADABLE` means damaged or truncated gzip data."""
    return isinstance(error, (EOFError, gzip.BadGzipFile, zlib.error))


def unreadable(where: str | Path, error: Exception) -> InputError:
    """The `InputError` to raise from an exception of `UNREADABLE`."""
    if isinstance(error, EOFError):
        return InputError(str(where), "a truncated gzip file", "a complete file")
    if is_damage(error):
        return InputError(str(where), f"damaged gzip data ({error})", "an intact file")
    reason = getattr(error, "strerror", None) or str(error)
    return InputError(str(where), reason.lower(), "a readable file")

"""Files that may be packed by gzip: how they are opened, and what is said where that fails."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import BinaryIO

from snm.errors import InputError

__all__ = ["UNREADABLE", "is_damage", "open_bytes", "unreadable"]

UNREADABLE = (OSError, EOFError, zlib.error)
"""What opening and reading such a file may raise."""


def open_bytes(path: Path) -> BinaryIO:
    """The bytes of a file; of one whose name ends in `.gz`, those that are packed in it."""
    if path.suffix == ".gz":
        return gzip.open(path, "rb")  # type: ignore[return-value]
    return path.open("rb")


def is_damage(error: Exception) -> bool:
    """Whether one of `UNREADABLE` says that what was packed is not whole."""
    return isinstance(error, (EOFError, gzip.BadGzipFile, zlib.error))


def unreadable(where: str | Path, error: Exception) -> InputError:
    """One of `UNREADABLE` in a line, to raise from it."""
    if isinstance(error, EOFError):
        return InputError(str(where), "a truncated gzip file", "a whole one")
    if is_damage(error):
        return InputError(str(where), f"damaged gzip data ({error})", "a whole file")
    reason = getattr(error, "strerror", None) or str(error)
    return InputError(str(where), reason.lower(), "a readable file")

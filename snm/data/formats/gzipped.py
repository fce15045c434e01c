"""Opens plain and gzipped files, and turns read errors into `InputError`.

A packed file may unpack to `MAX_RATIO` times its size, or to `ALWAYS_ALLOWED` bytes. Text packs
about 10 times, a bomb of equal bytes 1000 times.
"""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path
from typing import BinaryIO

from snm.errors import InputError
from snm.system.faults import read_error

__all__ = [
    "ALWAYS_ALLOWED",
    "BYTE_ORDER_MARK",
    "LONGEST_LINE",
    "MAX_RATIO",
    "TOO_LARGE",
    "UNREADABLE",
    "is_damage",
    "most_unpacked",
    "open_bytes",
    "unreadable",
]

UNREADABLE = (OSError, EOFError, zlib.error)
"""Exceptions that opening or reading a plain or gzipped file may raise."""

MAX_RATIO = 100
ALWAYS_ALLOWED = 1 << 24  # bytes
LONGEST_LINE = 1 << 24
"""Bytes of the longest line: it bounds memory on files without line ends."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""Spreadsheets begin UTF-8 files with it."""

TOO_LARGE = f"more than {MAX_RATIO} times its size unpacked"


def most_unpacked(path: Path) -> int:
    """The bytes that a packed file may unpack to."""
    return max(ALWAYS_ALLOWED, MAX_RATIO * path.stat().st_size)


class _Unpacked(io.RawIOBase):
    """The unpacked bytes of a gzip file, up to the limit."""

    def __init__(self, path: Path):
        self._left = most_unpacked(path)
        self._packed = gzip.open(path, "rb")  # noqa: SIM115 (closed by `close`)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        count = self._packed.readinto(buffer)
        self._left -= count
        if self._left < 0:
            raise OSError(TOO_LARGE)
        return count

    def close(self) -> None:
        self._packed.close()
        super().close()


def open_bytes(path: Path) -> BinaryIO:
    """Opens a file for reading bytes; a file whose name ends in `.gz` is unpacked.

    Reading raises one of `UNREADABLE` where it unpacks to too much.
    """
    if path.suffix == ".gz":
        return io.BufferedReader(_Unpacked(path), 1 << 17)
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
    if str(error) == TOO_LARGE:
        return InputError(str(where), TOO_LARGE, "less, or the unpacked file (see gunzip)")
    return read_error(where, error, "a readable file")

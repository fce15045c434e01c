"""Writes files and folders atomically: they appear complete or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from snm.errors import InputError

__all__ = ["made_whole", "write_whole"]


def write_whole(path: Path, text: str) -> None:
    """Writes a text file atomically, as UTF-8 with unchanged line ends."""
    partial = path.with_suffix(".partial")
    partial.write_text(text, encoding="utf-8", newline="\n")
    partial.replace(path)


@contextlib.contextmanager
def made_whole(flag: str, out: Path) -> Iterator[Path]:
    """Yields a temporary path for a folder, which is renamed to `out` at the end of the block.

    If the block raises, the temporary folder is removed.

    Args:
      flag: the command-line flag that names `out`, for error messages.
      out: the folder to create.

    Raises:
      InputError: the file system refuses, for example because the disk is full or for lack of
        permission.
    """
    partial = out.with_name(f".{os.getpid()}.{out.name}")
    try:
        yield partial
        partial.rename(out)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"{flag} {out}", reason, "a folder that can be created") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)

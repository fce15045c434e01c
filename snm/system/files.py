"""Files and new folders appear whole, or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from snm.errors import InputError

__all__ = ["made_whole", "write_whole"]


def write_whole(path: Path, text: str) -> None:
    """Writes a text beside a file, in UTF-8 with ends of lines as they are, and renames it."""
    beside = path.with_suffix(".partial")
    beside.write_text(text, encoding="utf-8", newline="\n")
    beside.replace(path)


@contextlib.contextmanager
def made_whole(flag: str, out: Path) -> Iterator[Path]:
    """A path beside `out` to make a folder at, which takes its name at the end of the block.

    Whatever ends the block early leaves nothing.

    Args:
      flag: by which `out` was asked for.
      out: the folder that there will be.

    Raises:
      InputError: the file system refuses, for example for want of room or of a right.
    """
    beside = out.with_name(f".{os.getpid()}.{out.name}")
    try:
        yield beside
        beside.rename(out)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"{flag} {out}", reason, "a folder that can be made") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)

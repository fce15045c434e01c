"""File locks between processes; the system releases them when the holder ends, even by a crash."""

from __future__ import annotations

import fcntl
import os
import socket
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from snm.errors import InputError
from snm.system.faults import describe_error
from snm.system.files.atomic import make_folder

__all__ = ["LOCK", "locked"]

LOCK = ".lock"
"""Name of the lock file in a locked folder. The file remains; its presence alone means nothing."""


@contextmanager
def locked(path: Path, where: str, *, wait: bool = False) -> Iterator[None]:
    """Holds an exclusive lock for the duration of the block, by flock(2).

    Args:
      path: the lock file, which is created along with its folder; use `folder / LOCK` to lock a
        folder.
      where: the location in error messages, for example `--run-dir runs/a`.
      wait: whether to wait until another process releases the lock, instead of raising.

    Raises:
      InputError: another process holds the lock (the message names it), or the file cannot be
        written.
    """
    try:
        make_folder(path.parent)
        # Mode a+ does not truncate: until this process holds the lock, the file names the holder.
        file = path.open("a+", encoding="utf-8")
    except OSError as error:
        reason = describe_error(error)
        raise InputError(where, reason, "a folder to write to") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError as error:
            file.seek(0)
            holder = file.read(200).strip() or "another process"
            found = f"a folder in use by {holder}"
            raise InputError(where, found, "a folder that no other process uses") from error
        except OSError as error:  # for example a network disk without locks: go on unlocked
            warnings.warn(f"{path}: cannot be locked ({error.strerror})", stacklevel=3)
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield

"""One process at a time: locks that the system gives back however their holder ends."""

from __future__ import annotations

import fcntl
import os
import socket
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from snm.errors import InputError

__all__ = ["LOCK", "locked"]

LOCK = ".lock"
"""Name of the file in a locked folder; it stays there and means nothing by itself."""


@contextmanager
def locked(path: Path, where: str, *, wait: bool = False) -> Iterator[None]:
    """Holds a lock for this process, by flock(2); the system gives it back when that is gone.

    Args:
      path: the lock's file, which is made with its folder; `folder / LOCK` stands for a folder.
      where: what an error calls it, for example `--run-dir runs/a`.
      wait: for another process to let go, instead of refusing.

    Raises:
      InputError: another process holds it (which one is said), or it cannot be written to.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Not truncated before the lock is ours: it names the holder.
        file = path.open("a+", encoding="utf-8")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(where, reason, "a folder to write to") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError as error:
            file.seek(0)
            holder = file.read(200).strip() or "another process"
            found = f"a folder in use by {holder}"
            raise InputError(where, found, "a folder of its own, or patience") from error
        except OSError as error:  # a network disk without locks: better unlocked than not at all
            warnings.warn(f"{path}: no lock to be had ({error.strerror})", stacklevel=3)
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield

"""The few calls through which files are written, renamed, removed and synced to the disk.

All writes that must survive a power cut use these functions, in the order that `atomic` ensures.
Tests replace them to record the writes of a program, and to inject errors.
"""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

__all__ = ["link", "remove", "remove_tree", "rename", "sync", "write"]

_NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)  # file systems that cannot sync a folder


def write(path: Path, content: bytes) -> None:
    """Writes a file in place; it may be cut off, or not be on the disk, until it is synced."""
    try:
        path.write_bytes(content)
    except OSError as error:
        raise _with_path(error, path) from error


def sync(path: Path) -> None:
    """Waits until the bytes of a file, or the names in a folder, are on the disk: fsync(2)."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise _with_path(error, path) from error
    finally:
        os.close(number)


def rename(source: Path, target: Path) -> None:
    """Renames atomically; an existing file of that name is replaced."""
    source.replace(target)


def link(source: Path, target: Path) -> None:
    """Creates a hard link; copies the file if the file system has no links.

    Raises:
      FileNotFoundError: there is no such file.
    """
    try:
        target.hardlink_to(source)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(source, target)


def remove(path: Path) -> None:
    """Removes a file, if it is there."""
    path.unlink(missing_ok=True)


def remove_tree(path: Path) -> None:
    """Removes a folder and what is in it, as far as the system permits."""
    shutil.rmtree(path, ignore_errors=True)


def _with_path(error: OSError, path: Path) -> OSError:
    """The error with a path, which errors of calls on open files lack."""
    return OSError(error.errno, os.strerror(error.errno or 0), str(path))

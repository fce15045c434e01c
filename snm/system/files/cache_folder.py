"""Locates the cache folder.

Programs loaded from it are executed, so it must belong to one user: it is created for its owner
alone, and rejected if others may write to it.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from snm.errors import InputError
from snm.system.files.checks import local_folder

__all__ = ["cache_folder"]

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def cache_folder(chosen: str | Path | None = None) -> Path | None:
    """The cache folder: the one that was chosen, or else the user's.

    The user's is `$SNM_CACHE`, else `$XDG_CACHE_HOME/snm`, else `~/.cache/snm`, else None. The
    folder is created for its owner alone if it can be; it need not exist afterwards.

    Raises:
      InputError: it is an address, or another user owns the folder, or may write to it. The folder
        `snm` of the user's cache is closed to others instead, where it is the user's own.
    """
    if chosen is None:
        place, is_default = _users()
    else:
        place, is_default = local_folder("cache", chosen), False
    if place is None:
        return None
    with contextlib.suppress(OSError):  # then nothing is cached
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.mkdir(mode=0o700, exist_ok=True)
        _check_private(place, is_default)
    return place


def _users() -> tuple[Path | None, bool]:
    """The user's folder, and whether this program chose its name rather than the user."""
    if place := os.environ.get("SNM_CACHE"):
        return local_folder("SNM_CACHE", place), False
    if place := os.environ.get("XDG_CACHE_HOME"):
        return Path(place) / "snm", True
    try:
        return Path.home() / ".cache" / "snm", True
    except RuntimeError:  # the account has no home folder
        return None, True


def _check_private(place: Path, is_default: bool) -> None:
    """Rejects a folder to which others may write.

    Raises:
      InputError: see `cache_folder`.
      OSError: it cannot be read.
    """
    status, user = place.stat(), os.geteuid()
    if status.st_uid not in (user, 0):
        expected = "one of your own: set SNM_CACHE to another folder"
        raise InputError(str(place), f"a cache folder of user {status.st_uid}", expected)
    if status.st_mode & _OTHERS_WRITE:
        if is_default and status.st_uid == user:  # created with a umask that lets the group write
            place.chmod(0o700)
            return
        expected = f"your own alone: `chmod go-w {place}`, or set SNM_CACHE to another folder"
        raise InputError(str(place), "a cache folder that others may write to", expected)

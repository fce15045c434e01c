"""Checks of the files and folders that a user names, before anything is computed of or for them."""

from __future__ import annotations

import os
import re
from pathlib import Path

from snm.errors import InputError
from snm.system.faults import describe_error

__all__ = ["check_is_file", "check_new", "check_reachable", "check_writable", "local_folder"]

# `Path` turns two slashes into one.
_ADDRESS = re.compile(r"://|^[A-Za-z][A-Za-z0-9+.-]+:/")


def check_reachable(path: Path) -> None:
    """Raises InputError if the system cannot tell whether a path exists.

    Raises:
      InputError: for example a name that is too long, or a folder that may not be searched.
    """
    try:
        (path / "a").stat()  # a child, because stat works on a folder that may not be searched
    except (FileNotFoundError, NotADirectoryError, ValueError):  # the last: a null byte
        return
    except OSError as error:
        raise InputError(str(path), describe_error(error), "a path that can be reached") from error


def check_writable(flag: str, path: Path) -> None:
    """Checks the output file of an option, before anything is computed for it.

    Raises:
      InputError: it is a folder, its parent is missing, or it is a device or a pipe, which a file
        would replace.
    """
    if path.is_dir() or not path.resolve().parent.is_dir():
        found = "a folder" if path.is_dir() else "no such folder"
        raise InputError(f"{flag} {path}", found, "a file in a folder that exists")
    if path.exists() and not path.is_file():
        raise InputError(f"{flag} {path}", "no regular file", "a file to write or replace")


def check_is_file(path: Path, expected: str) -> None:
    """Checks an input file, before anything is computed of it.

    Args:
      path: the file.
      expected: what it should be, for the message.

    Raises:
      InputError: there is none, or it is a folder, a device or a pipe.
    """
    if path.is_file():
        return
    found = "a folder" if path.is_dir() else "no regular file"
    raise InputError(str(path), found if path.exists() else "no such file", expected)


def check_new(flag: str, path: Path) -> None:
    """Checks the output folder of an option, before anything is computed for it.

    Args:
      flag: the option; empty for an argument without one.
      path: the folder.

    Raises:
      InputError: there is something of its name.
    """
    if path.exists():
        where = f"{flag} {path}" if flag else str(path)
        raise InputError(where, "a file or folder of that name", "a new folder")


def local_folder(where: str, place: str | Path) -> Path:
    """The path of a folder that a user names; it need not exist.

    Args:
      where: what names it, for the message.
      place: the folder.

    Raises:
      InputError: it is an address, or no path.
    """
    if not isinstance(place, (str, os.PathLike)):
        raise InputError(where, f"a value of type {type(place).__name__}", "a folder")
    if _ADDRESS.search(str(place)):  # not in the message, for it may have a password
        raise InputError(where, "an address", "a folder of this machine")
    return Path(place)

"""Writes files and folders atomically: they appear complete or not at all.

Each is written under a temporary name, synced, renamed, and the folder that holds its name is
synced. But for those of `write_whole`, a temporary file or folder is named `.PID.RANDOM.NAME` and
locked by its process. What a killed process left is removed by the next one that writes to the same
name.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

from snm.errors import InputError
from snm.system import disk
from snm.system.faults import is_full, naming, reason_of

__all__ = [
    "check_writable",
    "ends_within_line",
    "flocked",
    "made_whole",
    "make_folder",
    "refuse_unreachable",
    "sync_names",
    "sync_tree",
    "whole_file",
    "write_whole",
]


def ends_within_line(path: Path) -> bool:
    """Whether the last byte of a file is no newline; an empty file ends with a line."""
    with path.open("rb") as file:
        if not file.seek(0, os.SEEK_END):
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


def make_folder(path: Path) -> None:
    """Creates a folder and those above it, and waits until their names are on the disk."""
    made = [one for one in (path, *path.parents) if not one.exists()]
    path.mkdir(parents=True, exist_ok=True)
    sync_names(*(one.parent for one in reversed(made)))


def sync_names(*folders: Path) -> None:
    """Waits until the names in folders are on the disk, as far as the folders may be read."""
    for folder in folders:
        with contextlib.suppress(PermissionError):
            disk.sync(folder)


def refuse_unreachable(path: Path) -> None:
    """Refuses a path of which the system does not say what is there.

    Raises:
      InputError: for example a name that is too long, or a folder that may not be searched.
    """
    try:
        (path / "a").stat()  # below it, since a folder that may not be searched can be seen
    except (FileNotFoundError, NotADirectoryError, ValueError):  # the last: a null byte
        return
    except OSError as error:
        raise InputError(str(path), reason_of(error), "a path that can be reached") from error


def check_writable(flag: str, path: Path) -> None:
    """Refuses the file of an option, before anything is computed for it.

    Raises:
      InputError: a folder, in no folder, or a device or a pipe, which a file would replace.
    """
    if path.is_dir() or not path.resolve().parent.is_dir():
        found = "a folder" if path.is_dir() else "no such folder"
        raise InputError(f"{flag} {path}", found, "a file in a folder that exists")
    if path.exists() and not path.is_file():
        raise InputError(f"{flag} {path}", "no regular file", "a file to write or replace")


def write_whole(path: Path, content: str | bytes) -> None:
    """Writes a file atomically; a text as UTF-8 with unchanged line ends.

    One process writes to a name at a time: the temporary file, NAME.partial without the suffix of
    the name, has no lock.
    """
    partial = path.with_suffix(".partial")
    try:
        disk.write(partial, content.encode() if isinstance(content, str) else content)
        disk.sync(partial)
        disk.rename(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            disk.remove(partial)
        raise
    disk.sync(path.parent)


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yields a temporary path for a file, which is renamed to `path` at the end of the block.

    If the block raises, the temporary file is removed. Of a link, its target is written.

    Raises:
      OSError: the file system refuses; that of a full disk names the file.
    """
    path = path.resolve()
    partial = _partial_name(path)
    _remove_left(path)
    try:
        with naming(path), _claimed(partial, partial.touch):
            yield partial
            disk.sync(partial)
            disk.rename(partial, path)
        disk.sync(path.parent)
    finally:
        disk.remove(partial)


@contextlib.contextmanager
def made_whole(flag: str, out: Path, *, lasting: bool = True) -> Iterator[Path]:
    """Yields a temporary folder, which is renamed to `out` at the end of the block.

    If the block raises, the temporary folder is removed.

    Args:
      flag: the command-line flag that names `out`, for error messages.
      out: the folder to create; the folders above it are created too.
      lasting: whether everything is synced to the disk. What is checked when it is read, and can
        be made again, need not be.

    Raises:
      InputError: the file system refuses, for example because the disk is full or for lack of
        permission.
    """
    partial = _partial_name(out)
    try:
        _remove_left(out)
        make_folder(out.parent)
        with _claimed(partial, partial.mkdir):
            yield partial
            if lasting:
                sync_tree(partial)
            disk.rename(partial, out)
        if lasting:
            disk.sync(out.parent)
    except OSError as error:
        room = "room for it, on the disk and under `ulimit -f`"
        expected = room if is_full(error) else "a folder that can be created"
        raise InputError(f"{flag} {out}", reason_of(error), expected) from error
    finally:
        disk.remove_tree(partial)


def sync_tree(folder: Path) -> None:
    """Waits until every file in a folder, and every name, is on the disk."""
    for path in sorted(folder.rglob("*"), reverse=True):
        disk.sync(path)
    disk.sync(folder)


def _partial_name(path: Path) -> Path:
    # Two writers never share one: threads of a process, and containers, have the same process id.
    return path.with_name(f".{os.getpid()}.{secrets.token_hex(4)}.{path.name}")


def _remove_left(path: Path) -> None:
    """Removes the temporary files and folders of `path` whose processes are gone."""
    name = re.compile(rf"\.\d+\.([0-9a-f]{{8}}\.)?{re.escape(path.name)}")
    with contextlib.suppress(OSError):  # for example a folder that is not there yet
        for left in list(path.parent.iterdir()):
            if name.fullmatch(left.name):
                # On a network disk without locks it stays: its process may live.
                with contextlib.suppress(OSError), flocked(left, fcntl.LOCK_EX | fcntl.LOCK_NB):
                    (disk.remove_tree if left.is_dir() else disk.remove)(left)


@contextlib.contextmanager
def _claimed(path: Path, make: Callable[[], None]) -> Iterator[None]:
    """Makes a file or folder, and holds its lock; the system releases it with the process."""
    while True:
        make()
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(OSError):  # a network disk without locks
                stack.enter_context(flocked(path, fcntl.LOCK_EX))
            # Between the two calls another process may have taken it for one that was left.
            if path.exists():
                yield
                return


@contextlib.contextmanager
def flocked(path: Path, how: int) -> Iterator[None]:
    """Holds a lock of flock(2) on a file or folder that is there.

    Args:
      path: of it.
      how: `fcntl.LOCK_EX` or `LOCK_SH`, with `LOCK_NB` where it is not to wait.

    Raises:
      OSError: it is not there; or another process holds it, or the disk has no locks.
    """
    number = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(number, how)
        yield
    finally:
        os.close(number)

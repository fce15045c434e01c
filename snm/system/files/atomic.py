"""Writes files and folders atomically: they appear complete or not at all.

Each is written under a temporary name, synced and renamed, and its parent folder is synced. A
temporary file or folder is named `.PID.RANDOM.NAME` and locked by its process, except by
`write_atomic`. The leftovers of a killed process are removed by the next process that writes to the
same name.
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
from snm.system.faults import describe_error, is_disk_full, naming
from snm.system.files import disk

__all__ = [
    "atomic_file",
    "atomic_folder",
    "file_lock",
    "lacks_final_newline",
    "make_folder",
    "partial_path",
    "sync_names",
    "sync_tree",
    "write_atomic",
]


def lacks_final_newline(path: Path) -> bool:
    """Whether a file is not empty and its last byte is no newline."""
    with path.open("rb") as file:
        if not file.seek(0, os.SEEK_END):
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


def make_folder(path: Path) -> None:
    """Creates a folder and its parents, and waits until their names are on the disk."""
    new = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    sync_names(*(folder.parent for folder in reversed(new)))


def sync_names(*folders: Path) -> None:
    """Waits until the names in folders are on the disk; skips folders without read permission."""
    for folder in folders:
        with contextlib.suppress(PermissionError):
            disk.sync(folder)


def partial_path(path: Path) -> Path:
    """The temporary file of `write_atomic`: NAME.partial without the suffix of the name."""
    return path.with_suffix(".partial")


def write_atomic(path: Path, content: str | bytes) -> None:
    """Writes a file atomically; a text as UTF-8 with unchanged line ends.

    One process writes to a name at a time: the temporary file, `partial_path`, has no lock.
    """
    partial = partial_path(path)
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
def atomic_file(path: Path) -> Iterator[Path]:
    """Yields a temporary path for a file, which is renamed to `path` at the end of the block.

    If the block raises, the temporary file is removed. If `path` is a link, its target is written.

    Raises:
      OSError: the file cannot be written; the error of a full disk names it.
    """
    path = path.resolve()
    partial = _partial_name(path)
    _remove_stale(path)
    try:
        with naming(path), _create_locked(partial, partial.touch):
            yield partial
            disk.sync(partial)
            disk.rename(partial, path)
        disk.sync(path.parent)
    finally:
        disk.remove(partial)


@contextlib.contextmanager
def atomic_folder(flag: str, out: Path, *, lasting: bool = True) -> Iterator[Path]:
    """Yields a temporary folder, which is renamed to `out` at the end of the block.

    If the block raises, the temporary folder is removed.

    Args:
      flag: the command-line flag that names `out`, for error messages.
      out: the folder to create; the folders above it are created too.
      lasting: whether to sync everything to the disk. Files that are checked when read, and can be
        made again, need no sync.

    Raises:
      InputError: it cannot be written, for example because the disk is full or permission is
        denied.
    """
    partial = _partial_name(out)
    try:
        _remove_stale(out)
        make_folder(out.parent)
        with _create_locked(partial, partial.mkdir):
            yield partial
            if lasting:
                sync_tree(partial)
            disk.rename(partial, out)
        if lasting:
            disk.sync(out.parent)
    except OSError as error:
        room = "room for it, on the disk and under `ulimit -f`"
        expected = room if is_disk_full(error) else "a folder that can be created"
        raise InputError(f"{flag} {out}", describe_error(error), expected) from error
    finally:
        disk.remove_tree(partial)


def sync_tree(folder: Path) -> None:
    """Waits until every file in a folder, and every name, is on the disk."""
    for path in sorted(folder.rglob("*"), reverse=True):
        disk.sync(path)
    disk.sync(folder)


def _partial_name(path: Path) -> Path:
    # Unique per writer: threads of a process, and processes in containers, may share a process id.
    return path.with_name(f".{os.getpid()}.{secrets.token_hex(4)}.{path.name}")


def _remove_stale(path: Path) -> None:
    """Removes the temporary files and folders of `path` whose processes have ended."""
    name = re.compile(rf"\.\d+\.[0-9a-f]{{8}}\.{re.escape(path.name)}")
    with contextlib.suppress(OSError):  # for example a folder that is not there yet
        for stale in list(path.parent.iterdir()):
            if name.fullmatch(stale.name):
                # Kept on a network disk without locks: its process may be alive.
                with contextlib.suppress(OSError), file_lock(stale, fcntl.LOCK_EX | fcntl.LOCK_NB):
                    (disk.remove_tree if stale.is_dir() else disk.remove)(stale)


@contextlib.contextmanager
def _create_locked(path: Path, make: Callable[[], None]) -> Iterator[None]:
    """Creates a file or folder and holds its lock, which the system releases with the process."""
    while True:
        make()
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(OSError):  # a network disk without locks
                stack.enter_context(file_lock(path, fcntl.LOCK_EX))
            # Between the two calls another process may have removed it as stale.
            if path.exists():
                yield
                return


@contextlib.contextmanager
def file_lock(path: Path, how: int) -> Iterator[None]:
    """Holds a flock(2) lock on an existing file or folder.

    Args:
      path: the file or folder.
      how: `fcntl.LOCK_EX` or `LOCK_SH`, with `LOCK_NB` to fail instead of waiting.

    Raises:
      OSError: it does not exist, another process holds the lock, or the disk has no locks.
    """
    number = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(number, how)
        yield
    finally:
        os.close(number)

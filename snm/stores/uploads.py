"""Keeps a folder of this machine in an object store: each upload appears as a whole or not at all.

The store decides. Who begins to write claims the folder with a snapshot of its own; a process that
wrote before, perhaps on a machine that was taken for dead, sees it before its next one and ends. An
upload adds objects, then the snapshot that lists them, and then removes what neither this snapshot
nor the one before lists: readers have as long as one upload takes to follow.
"""

from __future__ import annotations

import dataclasses
import secrets
from pathlib import Path

from snm.errors import InputError
from snm.stores.address import Address
from snm.stores.objects import GoneError, Objects, StoreError
from snm.stores.snapshots import (
    Snapshot,
    download,
    file_names,
    newest,
    number_of,
    snapshot_names,
)
from snm.system import disk
from snm.system.checksums import file_sha256, read_sealed, write_sealed
from snm.system.files import atomic_folder

__all__ = ["RECORD", "Uploads", "bring"]

RECORD = "snapshot.json"
"""The note of the snapshot that a local folder is of."""

_TRIES = 10  # while the store changes


def bring(objects: Objects, folder: Path, record: Path) -> Snapshot | None:
    """Makes a local folder what the newest snapshot has; one that is of this snapshot stays.

    Args:
      objects: of the store.
      folder: where the store has no files, it is not there afterwards.
      record: the note of the snapshot that the folder is of; the caller writes the next one.

    Returns:
      the newest snapshot, or None.

    Raises:
      InputError: the local disk refuses.
      StoreError: the store does.
    """
    gone: GoneError | None = None
    for _ in range(_TRIES):
        found = newest(objects)
        if found is None or not found.files:
            if found is None or found.name != _recorded(record):
                disk.remove_tree(folder)
            return found
        if found.name == _recorded(record) and folder.exists():
            return found
        try:
            with atomic_folder(str(objects.address), folder) as beside:
                download(objects, found, beside, have=folder)
                disk.remove_tree(folder)
        except GoneError as error:
            gone = error  # a newer one took its place
            continue
        return found
    raise StoreError(f"{gone}, but listed: removed by hand, or by a process that writes there")


def _recorded(record: Path) -> str | None:
    try:
        return read_sealed(record)["name"]
    except (OSError, ValueError, KeyError):
        return None


class Uploads:
    """The folder of a store that this process writes to.

    Args:
      objects: of the store.
      home: a folder of this machine that belongs to the same address, for a note of the snapshot
        that the local folder is of.
    """

    def __init__(self, objects: Objects, home: Path):
        self._objects, self._record = objects, home / RECORD
        self._writer = secrets.token_hex(4)
        self._last = self._before = Snapshot(0, self._writer, {})
        self._known: set[str] = set()  # snapshots that were there at the beginning, and our own
        self._there: set[str] = set()  # objects
        self._digests: dict[tuple, str] = {}

    @property
    def address(self) -> Address:
        """Of the folder."""
        return self._objects.address

    def begin(self, folder: Path) -> None:
        """Makes a local folder what the newest snapshot has, and claims the store.

        A folder that is of the newest snapshot stays: it may have more, which was not uploaded.

        Args:
          folder: the local folder; where the store has no files, it is not there afterwards.

        Raises:
          InputError: the local disk refuses, or the address has something else than a run.
          StoreError: the store does.
        """
        self._known = set(snapshot_names(self._objects))
        self._refuse_what_is_no_run()
        brought = bring(self._objects, folder, self._record)
        # One that was cut off counts too.
        number = max((number_of(name) for name in self._known), default=0)
        files = {} if brought is None else brought.files
        self._last = dataclasses.replace(brought or self._last, number=number)
        # Before the claim: who begins after it may upload at once, and that is not ours to remove.
        self._there = file_names(self._objects)
        self._commit(files)
        self._clear()

    def _refuse_what_is_no_run(self) -> None:
        others = self._objects.listed().keys() - file_names(self._objects)
        if others and not self._known:
            found = f"something that is no run ({ascii(min(others))[:80]})"
            expected = "a new or empty folder of the store"
            raise InputError(str(self._objects.address), found, expected)

    def send(self, files: dict[str, Path]) -> None:
        """Uploads files as the new content of the folder; nothing, where it has this content.

        Args:
          files: path in the folder -> a file of this machine, which must not change meanwhile.

        Raises:
          StoreError: the store gave up, or another process writes there; it has what it had.
        """
        known, self._digests = self._digests, {}  # of files that are no more, none is kept
        prints = {path: [file.stat().st_size, self._digest(path, file, known)]
                  for path, file in files.items()}  # fmt: skip
        if prints == self._last.files:
            return
        names = Snapshot(0, self._writer, prints).objects
        absent = [path for path, name in names.items() if name not in self._there]

        def one(path: str) -> None:
            self._objects.send(files[path], names[path])
            self._there.add(names[path])

        self._objects.at_once(one, absent)
        self._commit(prints)
        self._clear()

    def _digest(self, path: str, file: Path, known: dict[tuple, str]) -> str:
        """The SHA-256 of a file; of one that did not change, from the last time."""
        about = file.stat()
        key = (path, about.st_ino, about.st_size, about.st_mtime_ns)
        self._digests[key] = known[key] if key in known else file_sha256(file)
        return self._digests[key]

    def _commit(self, files: dict[str, list]) -> None:
        self._refuse_others()
        made = Snapshot(self._last.number + 1, self._writer, files)
        self._known.add(made.name)
        self._objects.write(made.name, made.text())
        self._before, self._last = self._last, made
        self._refuse_others()  # who may have looked before this one was there
        write_sealed(self._record, {"name": made.name})

    def _refuse_others(self) -> None:
        """Ends this process's uploads once another one has begun."""
        for name in snapshot_names(self._objects):
            if name not in self._known:
                found = f"{self._objects.address / name}: written by another process"
                raise StoreError(f"{found}, which has taken over; this one ends")

    def _clear(self) -> None:
        """Removes objects and snapshots that readers of the last two snapshots do not need."""
        two = (self._last, self._before)
        kept = {name for one in two for name in one.objects.values()}
        # One that is not known is the claim of a process that begins at this moment.
        old = self._known.intersection(snapshot_names(self._objects))
        old -= {one.name for one in two}
        self._objects.remove(old)  # first: a snapshot never lists what is not there
        self._objects.remove(gone := self._there - kept)
        self._there -= gone

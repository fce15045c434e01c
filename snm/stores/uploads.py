"""Mirrors a local folder in an object store with atomic uploads.

A process that begins to write claims the folder with a snapshot of its own. An earlier writer,
perhaps on a machine that was believed dead, sees this snapshot before its next upload and stops. An
upload writes objects, then a snapshot that lists them, and then removes objects that are in neither
this snapshot nor the one before, so readers have the time of one upload to finish.
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
    snapshot_names,
    snapshot_number,
)
from snm.system.files import disk
from snm.system.files.atomic import atomic_folder
from snm.system.files.checksums import file_hash, read_sealed, write_sealed

__all__ = ["RECORD", "Uploads", "download_newest"]

RECORD = "snapshot.json"
"""The file with the name of the snapshot that a local folder was downloaded from or uploaded as."""

_TRIES = 10  # while the store changes


def download_newest(objects: Objects, folder: Path, record: Path) -> Snapshot | None:
    """Replaces a local folder by the newest snapshot; it stays if it is of this snapshot already.

    Args:
      objects: the folder in the store.
      folder: the local folder; removed if the store has no files.
      record: the file with the name of the folder's snapshot; the caller writes the next one.

    Returns:
      the newest snapshot, or None.

    Raises:
      InputError: the local folder cannot be written.
      StoreError: the store cannot be read.
    """
    gone: GoneError | None = None
    for _ in range(_TRIES):
        snapshot = newest(objects)
        if snapshot is None or not snapshot.files:
            if snapshot is None or snapshot.name != _recorded_name(record):
                disk.remove_tree(folder)
            return snapshot
        if snapshot.name == _recorded_name(record) and folder.exists():
            return snapshot
        try:
            with atomic_folder(str(objects.address), folder) as temporary:
                download(objects, snapshot, temporary, have=folder)
                disk.remove_tree(folder)
        except GoneError as error:
            gone = error  # a newer one took its place
            continue
        return snapshot
    raise StoreError(f"{gone}, but listed: removed by hand, or by a process that writes there")


def _recorded_name(record: Path) -> str | None:
    try:
        return read_sealed(record)["name"]
    except (OSError, ValueError, KeyError):
        return None


class Uploads:
    """The folder of a store that this process writes to.

    Args:
      objects: the folder in the store.
      home: a local folder for this address, which keeps the name of the local folder's snapshot.
    """

    def __init__(self, objects: Objects, home: Path):
        self._objects, self._record = objects, home / RECORD
        self._writer = secrets.token_hex(4)
        self._last = self._before = Snapshot(0, self._writer, {})
        # Snapshots that existed at the beginning, and those of this process.
        self._known: set[str] = set()
        self._stored: set[str] = set()  # objects in the store
        self._digests: dict[tuple, str] = {}

    @property
    def address(self) -> Address:
        """The address of the folder."""
        return self._objects.address

    def begin(self, folder: Path) -> None:
        """Replaces a local folder by the newest snapshot, and claims the folder in the store.

        A folder that is of the newest snapshot stays: it may have files that were not uploaded.

        Args:
          folder: the local folder; removed if the store has no files.

        Raises:
          InputError: the local folder cannot be written, or the address has other files than a run.
          StoreError: the store cannot be read or written.
        """
        self._known = set(snapshot_names(self._objects))
        self._check_is_run()
        snapshot = download_newest(self._objects, folder, self._record)
        # An incomplete snapshot counts too.
        number = max((snapshot_number(name) for name in self._known), default=0)
        files = {} if snapshot is None else snapshot.files
        self._last = dataclasses.replace(snapshot or self._last, number=number)
        # List before the claim: a later writer may upload at once, and its objects must not be
        # removed.
        self._stored = file_names(self._objects)
        self._commit(files)
        self._remove_unused()

    def _check_is_run(self) -> None:
        others = self._objects.list_objects().keys() - file_names(self._objects)
        if others and not self._known:
            found = f"something that is no run ({ascii(min(others))[:80]})"
            expected = "a new or empty folder of the store"
            raise InputError(str(self._objects.address), found, expected)

    def send(self, files: dict[str, Path]) -> None:
        """Uploads files as the new content of the folder, unless it has this content already.

        Args:
          files: path in the folder -> a local file, which must not change meanwhile.

        Raises:
          StoreError: the upload failed, or another process writes there; the store is unchanged.
        """
        known, self._digests = self._digests, {}  # drops the hashes of deleted files
        sizes_and_hashes = {
            path: [file.stat().st_size, self._digest(path, file, known)]
            for path, file in files.items()
        }
        if sizes_and_hashes == self._last.files:
            return
        names = Snapshot(0, self._writer, sizes_and_hashes).objects
        missing = [path for path, name in names.items() if name not in self._stored]

        def upload(path: str) -> None:
            self._objects.send(files[path], names[path])
            self._stored.add(names[path])

        self._objects.run_parallel(upload, missing)
        self._commit(sizes_and_hashes)
        self._remove_unused()

    def _digest(self, path: str, file: Path, known: dict[tuple, str]) -> str:
        """The SHA-256 of a file; cached if the file has not changed."""
        stat = file.stat()
        key = (path, stat.st_ino, stat.st_size, stat.st_mtime_ns)
        self._digests[key] = known[key] if key in known else file_hash(file)
        return self._digests[key]

    def _commit(self, files: dict[str, list]) -> None:
        self._check_no_other_writer()
        snapshot = Snapshot(self._last.number + 1, self._writer, files)
        self._known.add(snapshot.name)
        self._objects.write(snapshot.name, snapshot.text())
        self._before, self._last = self._last, snapshot
        self._check_no_other_writer()  # another writer may have listed before this snapshot existed
        write_sealed(self._record, {"name": snapshot.name})

    def _check_no_other_writer(self) -> None:
        """Raises `StoreError` if another process has begun to write."""
        for name in snapshot_names(self._objects):
            if name not in self._known:
                found = f"{self._objects.address / name}: written by another process"
                raise StoreError(f"{found}, which has taken over; this one ends")

    def _remove_unused(self) -> None:
        """Removes objects and snapshots other than those of the last two snapshots."""
        last_two = (self._last, self._before)
        kept = {name for snapshot in last_two for name in snapshot.objects.values()}
        # An unknown snapshot is the claim of a process that begins just now.
        old = self._known.intersection(snapshot_names(self._objects))
        old -= {snapshot.name for snapshot in last_two}
        self._objects.remove(old)  # first, so that a snapshot never lists a missing object
        self._objects.remove(gone := self._stored - kept)
        self._stored -= gone

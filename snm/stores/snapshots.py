"""The format of a run in a store: immutable objects, and snapshots that list them.

    RUN/files/checkpoints/40/manifest.json.0123456789abcdef    the file, with a part of its SHA-256
    RUN/snapshots/00000007-5f3a9c01.json                       its number, and who wrote it

A snapshot is a JSON object with a checksum: path of each file -> size and SHA-256. It is written
after the objects that it lists, so the newest intact snapshot is a consistent state of the run. No
object is overwritten with other content.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from pathlib import Path

from snm.errors import InputError
from snm.stores.objects import GoneError, Objects, StoreError, safe_name
from snm.system.files import disk
from snm.system.files.checksums import (
    are_records,
    difference,
    file_hash,
    fingerprint,
    parse_sealed,
    with_checksum,
)

__all__ = ["Snapshot", "download", "file_names", "newest", "snapshot_names", "snapshot_number"]

FILES, SNAPSHOTS = "files", "snapshots"
_FORMAT = "snm snapshot 1"
_NAME = re.compile(rf"{SNAPSHOTS}/(\d{{8}})-([0-9a-f]{{8}})\.json")
_FILE = re.compile(rf"{FILES}/.+\.[0-9a-f]{{16}}", re.DOTALL)
_LISTINGS = 10  # tries, if snapshots are replaced as fast as they are read


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """A consistent state of a folder.

    Attributes:
      number: one more than the number of the snapshot before.
      writer: id of the writing process, 8 hexadecimal digits.
      files: path in the folder -> [bytes, SHA-256].
    """

    number: int
    writer: str
    files: dict[str, list]

    @property
    def name(self) -> str:
        """The name of its object."""
        return f"{SNAPSHOTS}/{self.number:08d}-{self.writer}.json"

    @property
    def objects(self) -> dict[str, str]:
        """Path of each file -> name of its object."""
        return {path: f"{FILES}/{path}.{sha[:16]}" for path, (_, sha) in self.files.items()}

    def text(self) -> bytes:
        """The content of its object."""
        return json.dumps(
            with_checksum({"format": _FORMAT, "files": self.files}), indent=1
        ).encode()


def snapshot_names(objects: Objects) -> list[str]:
    """The names of all snapshots, the newest first."""
    return sorted(
        (name for name in objects.list_objects(SNAPSHOTS) if _NAME.fullmatch(name)), reverse=True
    )


def file_names(objects: Objects) -> set[str]:
    """The names of all objects with a file of any snapshot."""
    return {name for name in objects.list_objects(FILES) if _FILE.fullmatch(name)}


def newest(objects: Objects) -> Snapshot | None:
    """The newest intact snapshot, or None.

    Raises:
      InputError: a snapshot has another format, or file names outside of the folder.
      StoreError: the store cannot be read.
    """
    for _ in range(_LISTINGS):
        for name in snapshot_names(objects):
            try:
                snapshot = _read_snapshot(objects, name)
            except GoneError:
                break  # it was replaced by a newer one: list again
            if snapshot is not None:
                return snapshot
        else:
            return None
    raise StoreError(f"{objects.address / SNAPSHOTS}: objects that are listed are not there")


def _read_snapshot(objects: Objects, name: str) -> Snapshot | None:
    try:
        value = parse_sealed(objects.read(name))
        kind, files = value["format"], value["files"]
    except (ValueError, KeyError):
        return None  # it was not completely written
    where = str(objects.address / name)
    if kind != _FORMAT:
        raise InputError(where, f"format {ascii(kind)[:40]}", repr(_FORMAT))
    if not are_records(files, str):
        raise InputError(where, "a list of files of another form", "size and SHA-256 of each file")
    for path in files:
        safe_name(path, where)
    return Snapshot(snapshot_number(name), _parts(name)[1], files)


def snapshot_number(name: str) -> int:
    """The number of a snapshot, from its name."""
    return int(_parts(name)[0])


def _parts(name: str) -> tuple[str, ...]:
    match = _NAME.fullmatch(name)
    assert match is not None, "not from `snapshot_names`"
    return match.groups()


def download(objects: Objects, snapshot: Snapshot, folder: Path, have: Path | None = None) -> None:
    """Downloads the files of a snapshot, and checks their SHA-256.

    Args:
      objects: the store.
      snapshot: what to download.
      folder: an empty folder to write to.
      have: a folder that may have some of the files; these are linked instead of downloaded.

    Raises:
      GoneError: an object was removed, because a newer snapshot replaced this one.
      StoreError: an object could not be downloaded, or differs from its SHA-256.
    """

    def download_file(item: tuple[str, str]) -> None:
        path, name = item
        target, record = folder / path, snapshot.files[path]
        if have is not None and _file_error(have / path, record) is None:
            target.parent.mkdir(parents=True, exist_ok=True)
            disk.link(have / path, target)
        else:
            objects.fetch(name, target, lambda file: _file_error(file, record))

    objects.run_parallel(download_file, snapshot.objects.items())


def _file_error(file: Path, record: list) -> str | None:
    """An error message if a file differs from its record, otherwise None."""
    with contextlib.suppress(OSError):
        return difference(record, fingerprint(file, file_hash))
    return difference(record, None)

"""What a store holds of a run: objects that never change, and snapshots that list them.

    RUN/files/checkpoints/40/manifest.json.0123456789abcdef    the file, with a part of its SHA-256
    RUN/snapshots/00000007-5f3a9c01.json                       its number, and who wrote it

A snapshot is a JSON object with a checksum of its own: path of each file -> size and SHA-256. It is
written after the objects that it lists, so a reader who takes the newest intact one finds a run as
it was at one moment. No object is written twice with other content.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from pathlib import Path

from snm.errors import InputError
from snm.stores.objects import GoneError, Objects, StoreError, safe
from snm.system import disk
from snm.system.checksums import are_records, difference, file_sha256, fingerprint, sealed, unsealed

__all__ = ["Snapshot", "download", "file_names", "newest", "number_of", "snapshot_names"]

FILES, SNAPSHOTS = "files", "snapshots"
_FORMAT = "snm snapshot 1"
_NAME = re.compile(rf"{SNAPSHOTS}/(\d{{8}})-([0-9a-f]{{8}})\.json")
_FILE = re.compile(rf"{FILES}/.+\.[0-9a-f]{{16}}", re.DOTALL)
_LISTINGS = 10  # while snapshots are replaced as fast as they are read


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """A folder as it was at one moment.

    Attributes:
      number: one more than that of the snapshot before.
      writer: who wrote it, 8 hexadecimal digits.
      files: path in the folder -> [bytes, SHA-256].
    """

    number: int
    writer: str
    files: dict[str, list]

    @property
    def name(self) -> str:
        """Of its object."""
        return f"{SNAPSHOTS}/{self.number:08d}-{self.writer}.json"

    @property
    def objects(self) -> dict[str, str]:
        """Path of each file -> name of its object."""
        return {path: f"{FILES}/{path}.{sha[:16]}" for path, (_, sha) in self.files.items()}

    def text(self) -> bytes:
        """The content of its object."""
        return json.dumps(sealed({"format": _FORMAT, "files": self.files}), indent=1).encode()


def snapshot_names(objects: Objects) -> list[str]:
    """The names of all snapshots, the newest first."""
    return sorted(
        (name for name in objects.listed(SNAPSHOTS) if _NAME.fullmatch(name)), reverse=True
    )


def file_names(objects: Objects) -> set[str]:
    """The names of all objects that hold a file of some snapshot, past ones too."""
    return {name for name in objects.listed(FILES) if _FILE.fullmatch(name)}


def newest(objects: Objects) -> Snapshot | None:
    """The newest intact snapshot, or None.

    Raises:
      InputError: a snapshot of another format, or with names that leave the folder.
      StoreError: the store does not answer.
    """
    for _ in range(_LISTINGS):
        for name in snapshot_names(objects):
            try:
                found = _parsed(objects, name)
            except GoneError:
                break  # a newer one took its place: list again
            if found is not None:
                return found
        else:
            return None
    raise StoreError(f"{objects.address / SNAPSHOTS}: objects that are listed are not there")


def _parsed(objects: Objects, name: str) -> Snapshot | None:
    try:
        value = unsealed(objects.read(name))
        kind, files = value["format"], value["files"]
    except (ValueError, KeyError):
        return None  # its write was cut off
    where = str(objects.address / name)
    if kind != _FORMAT:
        raise InputError(where, f"format {ascii(kind)[:40]}", repr(_FORMAT))
    if not are_records(files, str):
        raise InputError(where, "a list of files of another form", "size and SHA-256 of each file")
    for path in files:
        safe(path, where)
    return Snapshot(number_of(name), _parts(name)[1], files)


def number_of(name: str) -> int:
    """The number of a snapshot, from its name."""
    return int(_parts(name)[0])


def _parts(name: str) -> tuple[str, ...]:
    found = _NAME.fullmatch(name)
    assert found is not None, "of `snapshot_names`"
    return found.groups()


def download(objects: Objects, snapshot: Snapshot, folder: Path, have: Path | None = None) -> None:
    """Downloads the files of a snapshot, each compared with its SHA-256.

    Args:
      objects: the store.
      snapshot: what to download.
      folder: an empty folder to write to.
      have: a folder that may have some of the files already; these are linked, not downloaded.

    Raises:
      GoneError: an object is gone, for a newer snapshot took the place of this one.
      StoreError: an object could not be downloaded, or is not what was written.
    """

    def one(item: tuple[str, str]) -> None:
        path, name = item
        target, record = folder / path, snapshot.files[path]
        target.parent.mkdir(parents=True, exist_ok=True)
        if have is not None and _wrong(have / path, record) is None:
            disk.link(have / path, target)
        else:
            objects.fetch(name, target, lambda file: _wrong(file, record))

    objects.at_once(one, snapshot.objects.items())


def _wrong(file: Path, record: list) -> str | None:
    with contextlib.suppress(OSError):
        return difference(record, fingerprint(file, file_sha256))
    return difference(record, None)

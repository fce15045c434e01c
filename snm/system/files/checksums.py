"""Checksums of files, of folders, and of sealed JSON objects, which contain their own checksum.

A manifest is such an object. It has a record of each file in its folder: the size and the CRC-32.
Records in object stores have the SHA-256 instead, which is the name of the object.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from snm.system.files.atomic import write_atomic

__all__ = [
    "are_records", "checksum", "crc32", "difference", "file_hash", "fingerprint", "fingerprints",
    "parse_sealed", "read_sealed", "with_checksum", "write_sealed",
]  # fmt: skip

_PIECE = 1 << 22  # bytes read at once, to fit in the CPU cache
_SHA = re.compile("[0-9a-f]{64}")


def crc32(path: Path, *, last: int | None = None) -> int:
    """The CRC-32 of a file, or of its `last` bytes, read in pieces."""
    crc = 0
    with path.open("rb", buffering=0) as file:
        if last is not None:
            file.seek(-last, os.SEEK_END)
        while piece := file.read(_PIECE):
            crc = zlib.crc32(piece, crc)
    return crc


def file_hash(path: Path, kind: str = "sha256") -> str:
    """The hash of a file, as hexadecimal digits; `kind` is a name that `hashlib` knows."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()


def fingerprint(path: Path, digest: Callable[[Path], int | str] = crc32) -> list:
    """The record of a file: its size, and its CRC-32 or another digest."""
    return [path.stat().st_size, digest(path)]


def fingerprints(
    folder: Path,
    manifest: str,
    recorded: dict[str, list] | None = None,
    mine: Callable[[int], bool] = lambda number: True,
) -> dict[str, list]:
    """The records of all files below a folder except the manifest, by path in the folder.

    Args:
      folder: the folder.
      manifest: the file name of the manifest.
      recorded: the records to return for files that are not `mine`.
      mine: whether this process reads the file of a number; files are numbered from 0, by path.
    """
    records = {}
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != manifest]
    for number, path in enumerate(files):
        name = path.relative_to(folder).as_posix()
        records[name] = fingerprint(path) if mine(number) else (recorded or {}).get(name, [])
    return records


def difference(recorded: list | None, found: list | None) -> str | None:
    """How a file differs from its record, in words; None if it does not."""
    if recorded is None or found is None:
        return "is missing" if found is None else "should not be there"
    if recorded[0] != found[0]:
        return f"has {found[0]} bytes, not {recorded[0]}"
    return None if recorded == found else "has another checksum"


def are_records(files: object, digest: type[int] | type[str] = int) -> bool:
    """Whether a JSON value has the record of each file, with CRC-32 (int) or SHA-256 (str)."""
    return isinstance(files, dict) and all(
        isinstance(record, list)
        and [type(value) for value in record] == [int, digest]
        and (digest is int or _SHA.fullmatch(record[1]) is not None)
        for record in files.values()
    )


def checksum(value: dict[str, Any]) -> int:
    """The CRC-32 of a JSON object; the order of its keys does not matter."""
    return zlib.crc32(json.dumps(value, sort_keys=True).encode())


def with_checksum(
    value: dict[str, Any], default: Callable[[Any], Any] | None = None
) -> dict[str, Any]:
    """Returns an object with its checksum, as it will be read back from JSON.

    Args:
      value: the object; keys become strings, and an old checksum is replaced.
      default: converts values that JSON cannot represent, as in `json.dumps`.
    """
    plain = json.loads(json.dumps(value, default=default))
    plain.pop("crc", None)
    return {**plain, "crc": checksum(plain)}


def parse_sealed(raw: bytes) -> dict[str, Any]:
    """Parses and verifies the JSON text of a sealed object; returns it without the checksum.

    Raises:
      ValueError: the text is no such object, or the checksum differs.
    """
    try:
        value = json.loads(raw)
        if type(value) is not dict or type(value.get("crc")) is not int:
            raise ValueError("no object with a checksum")
        if value.pop("crc") != checksum(value):
            raise ValueError("the checksum differs")
    except RecursionError as error:
        raise ValueError("too many levels") from error
    return value


def read_sealed(path: Path) -> dict[str, Any]:
    """Reads an object that `write_sealed` wrote, without its checksum.

    Raises:
      OSError: the file does not exist or cannot be read.
      ValueError: it is no such object, or the checksum differs.
    """
    return parse_sealed(path.read_bytes())


def write_sealed(
    path: Path, value: dict[str, Any], default: Callable[[Any], Any] | None = None
) -> None:
    """Writes a JSON object with its checksum, atomically, and waits until it is on the disk.

    Args:
      path: the file.
      value: the object.
      default: as in `with_checksum`.
    """
    write_atomic(path, json.dumps(with_checksum(value, default), indent=1) + "\n")

"""Checksums that tell of damage: of files, of folders, and of JSON objects that carry their own.

A manifest is such an object. Among other things it has a record of each file beside it: the size
and the CRC-32. Records in object stores have the SHA-256 instead, which names the objects.
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

from snm.system.files import write_whole

__all__ = [
    "are_records", "checksum", "crc32", "difference", "file_sha256", "fingerprint", "fingerprints",
    "read_sealed", "sealed", "unsealed", "write_sealed",
]  # fmt: skip

_PIECE = 1 << 22  # bytes read at once, to fit in the CPU cache
_SHA = re.compile("[0-9a-f]{64}")


def crc32(path: Path, *, last: int | None = None) -> int:
    """The CRC-32 of a file, or of so many bytes at its end, read in pieces."""
    crc = 0
    with path.open("rb", buffering=0) as file:
        if last is not None:
            file.seek(-last, os.SEEK_END)
        while piece := file.read(_PIECE):
            crc = zlib.crc32(piece, crc)
    return crc


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fingerprint(path: Path, digest: Callable[[Path], int | str] = crc32) -> list:
    """The record of a file: its size, and its CRC-32 or another digest."""
    return [path.stat().st_size, digest(path)]


def fingerprints(
    folder: Path,
    manifest: str,
    recorded: dict[str, list] | None = None,
    mine: Callable[[int], bool] = lambda number: True,
) -> dict[str, list]:
    """The records of all files below a folder but the manifest, by path in the folder.

    Args:
      folder: to look at.
      manifest: the name of its file.
      recorded: what stands for the files that are not `mine`.
      mine: whether this process reads the file of a number; they count from 0, by path.
    """
    found = {}
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != manifest]
    for number, path in enumerate(files):
        name = path.relative_to(folder).as_posix()
        found[name] = fingerprint(path) if mine(number) else (recorded or {}).get(name, [])
    return found


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
        isinstance(one, list)
        and [type(part) for part in one] == [int, digest]
        and (digest is int or _SHA.fullmatch(one[1]) is not None)
        for one in files.values()
    )


def checksum(value: dict[str, Any]) -> int:
    """The CRC-32 of a JSON object; the order of its keys does not matter."""
    return zlib.crc32(json.dumps(value, sort_keys=True).encode())


def sealed(value: dict[str, Any], default: Callable[[Any], Any] | None = None) -> dict[str, Any]:
    """An object as it will be read, with its checksum instead of the one that it may have.

    Args:
      value: keys become texts.
      default: makes a JSON value of what is none, as in `json.dumps`.
    """
    plain = json.loads(json.dumps(value, default=default))
    plain.pop("crc", None)
    return {**plain, "crc": checksum(plain)}


def unsealed(raw: bytes) -> dict[str, Any]:
    """The object of a JSON text that `sealed` gave its checksum, without it.

    Raises:
      ValueError: anything but such an object.
    """
    try:
        found = json.loads(raw)
        if type(found) is not dict or type(found.get("crc")) is not int:
            raise ValueError("no object with a checksum")
        if found.pop("crc") != checksum(found):
            raise ValueError("the checksum differs")
    except RecursionError as error:
        raise ValueError("too many levels") from error
    return found


def read_sealed(path: Path) -> dict[str, Any]:
    """Reads an object that `write_sealed` wrote, without its checksum.

    Raises:
      OSError: no such file, or one that cannot be read.
      ValueError: anything but such an object.
    """
    return unsealed(path.read_bytes())


def write_sealed(path: Path, value: dict[str, Any]) -> None:
    """Writes a JSON object with its checksum; it appears when it is whole, and is on the disk."""
    write_whole(path, json.dumps(sealed(value), indent=1) + "\n")

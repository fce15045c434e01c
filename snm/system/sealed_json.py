"""JSON files that carry the CRC-32 of their own content, so that any changed value is found."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from snm.system.files import write_whole

__all__ = ["checksum", "read_sealed", "sealed", "write_sealed"]


def read_sealed(path: Path) -> dict[str, Any]:
    """Reads an object that `write_sealed` wrote, without its checksum.

    Raises:
      OSError: no such file, or one that cannot be read.
      ValueError: anything but such an object.
    """
    try:
        found = json.loads(path.read_bytes())
        if type(found) is not dict or type(found.get("crc")) is not int:
            raise ValueError("no object with a checksum")
        if found.pop("crc") != checksum(found):
            raise ValueError("the checksum differs")
    except RecursionError as error:
        raise ValueError("too many levels") from error
    return found


def write_sealed(path: Path, value: dict[str, Any]) -> None:
    """Writes a JSON object with its checksum; it appears when it is whole, and is on the disk."""
    write_whole(path, json.dumps(sealed(value)))


def sealed(value: dict[str, Any], default: Callable[[Any], Any] | None = None) -> dict[str, Any]:
    """An object as it will be read, with its checksum instead of the one that it may have.

    Args:
      value: keys become texts.
      default: makes a JSON value of what is none, as in `json.dumps`.
    """
    plain = json.loads(json.dumps(value, default=default))
    plain.pop("crc", None)
    return {**plain, "crc": checksum(plain)}


def checksum(value: dict[str, Any]) -> int:
    """The CRC-32 of a JSON object; the order of its keys does not matter."""
    return zlib.crc32(json.dumps(value, sort_keys=True).encode())

"""JSON files that carry the CRC-32 of their own content, so that any changed value is found."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

from snm.system.files import write_whole

__all__ = ["checksum", "read_json", "write_json"]


def read_json(path: Path) -> dict[str, Any]:
    """Reads an object that `write_json` wrote, without its checksum.

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


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Writes a JSON object with its checksum; it appears when it is whole, and is on the disk."""
    write_whole(path, json.dumps({**value, "crc": checksum(value)}))


def checksum(value: dict[str, Any]) -> int:
    """The CRC-32 of a JSON object; the order of its keys does not matter."""
    return zlib.crc32(json.dumps(value, sort_keys=True).encode())

"""Files that a comparison reads back when it goes on, with the CRC-32 of their own content."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from snm.errors import InputError
from snm.runs.folder import read_json, write_json
from snm.system.checksums import checksum, sealed

__all__ = ["read_record", "write_record"]

_FORMAT = "snm-record-1"


def read_record(path: Path) -> dict[str, Any]:
    """Reads an object that `write_record` wrote.

    Raises:
      InputError: no such file, or a damaged one.
    """
    found = read_json(path)
    marks = (found.pop("format", None), found.pop("crc", None)) if type(found) is dict else ()
    if marks != (_FORMAT, checksum(found)):
        expected = "what `snm compare` wrote: without it, the same command makes it anew"
        raise InputError(str(path), "a damaged or changed file (its checksum differs)", expected)
    return found


def write_record(path: Path, value: dict[str, Any]) -> None:
    """Writes a JSON object atomically; arrays and NumPy scalars become lists and numbers."""
    plain = sealed(value, default=lambda x: np.asarray(x).tolist())
    write_json(path, {"format": _FORMAT, **plain})

"""JSON files with a checksum, which a resumed comparison reads."""

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
      InputError: the file is missing or damaged.
    """
    record = read_json(path)
    seal = (record.pop("format", None), record.pop("crc", None)) if type(record) is dict else ()
    if seal != (_FORMAT, checksum(record)):
        expected = "what `snm compare` wrote: without it, the same command makes it anew"
        raise InputError(str(path), "a damaged or changed file (its checksum differs)", expected)
    return record


def write_record(path: Path, value: dict[str, Any]) -> None:
    """Writes a JSON object atomically; arrays and NumPy scalars become lists and numbers."""
    plain = sealed(value, default=lambda x: np.asarray(x).tolist())
    write_json(path, {"format": _FORMAT, **plain})

"""JSON files with a checksum, which a resumed comparison reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from snm.errors import InputError
from snm.system.faults import read_error
from snm.system.files.checksums import read_sealed, write_sealed

__all__ = ["read_record", "write_record"]

_EXPECTED = "what `snm compare` wrote: without it, the same command makes it anew"


def read_record(path: Path) -> dict[str, Any]:
    """Reads an object that `write_record` wrote.

    Raises:
      InputError: the file is missing or damaged.
    """
    try:
        return read_sealed(path)
    except OSError as error:
        raise read_error(path, error, _EXPECTED) from error
    except ValueError as error:
        found = "a damaged or changed file (its checksum differs)"
        raise InputError(str(path), found, _EXPECTED) from error


def write_record(path: Path, value: dict[str, Any]) -> None:
    """Writes a JSON object atomically; arrays and NumPy scalars become lists and numbers."""
    write_sealed(path, value, default=lambda x: np.asarray(x).tolist())

"""The manifest of an export, which carries checksums of its files and its own."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, Literal

from snm.errors import InputError
from snm.memory.memory import MemorySettings
from snm.prediction.calibration import Calibration
from snm.runs.schema import Count, NumLabels, Size
from snm.system.faults import read_error
from snm.system.files.checksums import (
    are_records,
    difference,
    fingerprint,
    fingerprints,
    read_sealed,
    write_sealed,
)

__all__ = ["ExportManifest", "StoredMemory", "read_manifest", "write_manifest"]

_NAME = "manifest.json"
_EXPECTED = "what `snm export` wrote"
_ARRAYS = (".npy", ".safetensors")


@dataclasses.dataclass(frozen=True, kw_only=True)
class StoredMemory(MemorySettings):
    """The memory in the manifest of an export.

    Attributes:
      points: the number of stored points.
      arrays: the names of its arrays.
    """

    points: Count
    arrays: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportManifest:
    """The content of a manifest, as far as opening the model needs it.

    Attributes:
      num_features: d.
      num_labels: K.
      members: the number of members, whose scores are added.
      rows: the dtype of the stored feature rows and class rows.
      log_multipliers: the logarithm of the score multiplier of each member.
      calibration: or None.
      memory: or None.
    """

    num_features: Size
    num_labels: NumLabels
    members: Size
    rows: Literal["float32", "int8"]
    log_multipliers: tuple[float, ...]
    calibration: Calibration | None = None
    memory: StoredMemory | None = None


def write_manifest(folder: Path, manifest: dict[str, Any], name: str = _NAME) -> None:
    """Writes the manifest.

    Args:
      folder: the export, with its other files.
      manifest: JSON values. Adds `files`, name -> [bytes, CRC-32] of each other file, and `crc`,
        the CRC-32 of the rest as JSON with sorted keys.
      name: the name of the file.
    """
    write_sealed(folder / name, {**manifest, "files": fingerprints(folder, name)})


def read_manifest(
    folder: Path, form: str, *, verify: bool = True, name: str = _NAME
) -> dict[str, Any]:
    """Reads the manifest of an export, and compares the files with it.

    Args:
      folder: the export.
      form: the value of `snm export --to`, for the message if the folder is no export.
      verify: whether to compare all files; False skips the arrays (`.npy`, `.safetensors`).
      name: the name of the file of the manifest.

    Raises:
      InputError: no such folder, or damage; it names the file.
    """
    path = folder / name
    try:
        manifest = read_sealed(path)
        files = manifest["files"]
        if not are_records(files):
            raise ValueError("no size and checksum of each file")
        if not all(file.isprintable() and Path(file).name == file for file in files):
            raise ValueError("other names than of files")
    except OSError as error:
        expected = f"the folder of `snm export --to {form}`"
        raise read_error(path, error, expected) from error
    except (ValueError, KeyError) as error:
        raise InputError(
            str(path), f"no manifest, or a damaged one ({error})", _EXPECTED
        ) from error
    for file, record in files.items():
        if not verify and file.endswith(_ARRAYS):
            continue
        try:
            damage = difference(record, fingerprint(folder / file))
        except OSError as error:
            raise read_error(folder / file, error, _EXPECTED) from error
        if damage is not None:
            raise InputError(str(folder / file), f"a damaged file (it {damage})", _EXPECTED)
    return manifest

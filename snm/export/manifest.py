"""The manifest of an export, which carries checksums of its files and its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from snm.errors import InputError
from snm.runs.folder import write_json
from snm.runs.manifest import fingerprint
from snm.system.sealed_json import read_json, sealed

__all__ = ["read_manifest", "write_manifest"]

_NAME = "manifest.json"
_WROTE = "what `snm export` wrote"


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Writes `manifest.json`.

    Args:
      folder: of the export, with its other files.
      manifest: JSON values. Written with it are `files`, name -> [bytes, CRC-32] of each other
        file, and `crc`, the CRC-32 of the rest as JSON with sorted keys.
    """
    files = {path.name: fingerprint(path) for path in sorted(folder.iterdir())
             if path.is_file() and path.name != _NAME}  # fmt: skip
    write_json(folder / _NAME, sealed({**manifest, "files": files}))


def read_manifest(folder: Path, form: str, *, verify: bool = True) -> dict[str, Any]:
    """Reads the manifest of an export, and compares the files with it.

    Args:
      folder: of the export.
      form: what to ask `snm export --to` for, in the message of a folder that is no export.
      verify: compare all files; False leaves the arrays (`.npy`) out.

    Raises:
      InputError: no such folder, an export of an earlier version, or damage; it names the file.
    """
    path = folder / _NAME
    try:
        found = read_json(path)
        files = dict(found["files"])
        if not all(str(name).isprintable() and Path(name).name == name for name in files):
            raise ValueError("other names than of files")
    except OSError as error:
        expected = f"the folder of `snm export --to {form}`"
        raise InputError(str(path), (error.strerror or "").lower(), expected) from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(str(path), f"no manifest, or a damaged one ({error})", _WROTE) from error
    for name, wanted in files.items():
        if not verify and name.endswith(".npy"):
            continue
        try:
            whole = fingerprint(folder / name) == wanted
        except OSError as error:
            raise InputError(str(folder / name), (error.strerror or "").lower(), _WROTE) from error
        if not whole:
            raise InputError(str(folder / name), "a damaged file (its checksum differs)", _WROTE)
    return found

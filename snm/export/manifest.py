"""The manifest of an export, which carries checksums of its files and its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from snm.errors import InputError
from snm.runs.folder import write_json
from snm.system.faults import unread
from snm.system.files import fingerprint
from snm.system.sealed_json import read_sealed, sealed

__all__ = ["read_manifest", "write_manifest"]

_NAME = "manifest.json"
_WROTE = "what `snm export` wrote"
_ARRAYS = (".npy", ".safetensors")


def write_manifest(folder: Path, manifest: dict[str, Any], name: str = _NAME) -> None:
    """Writes the manifest.

    Args:
      folder: of the export, with its other files.
      manifest: JSON values. Written with it are `files`, name -> [bytes, CRC-32] of each other
        file, and `crc`, the CRC-32 of the rest as JSON with sorted keys.
      name: of the file.
    """
    files = {path.name: fingerprint(path) for path in sorted(folder.iterdir())
             if path.is_file() and path.name != name}  # fmt: skip
    write_json(folder / name, sealed({**manifest, "files": files}))


def read_manifest(
    folder: Path, form: str, *, verify: bool = True, name: str = _NAME
) -> dict[str, Any]:
    """Reads the manifest of an export, and compares the files with it.

    Args:
      folder: of the export.
      form: what to ask `snm export --to` for, in the message of a folder that is no export.
      verify: compare all files; False leaves the arrays (`.npy`, `.safetensors`) out.
      name: of the file of the manifest.

    Raises:
      InputError: no such folder, or damage; it names the file.
    """
    path = folder / name
    try:
        found = read_sealed(path)
        files = dict(found["files"])
        if not all(str(one).isprintable() and Path(one).name == one for one in files):
            raise ValueError("other names than of files")
    except OSError as error:
        expected = f"the folder of `snm export --to {form}`"
        raise unread(path, error, expected) from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(str(path), f"no manifest, or a damaged one ({error})", _WROTE) from error
    for file, wanted in files.items():
        if not verify and file.endswith(_ARRAYS):
            continue
        try:
            whole = fingerprint(folder / file) == wanted
        except OSError as error:
            raise unread(folder / file, error, _WROTE) from error
        if not whole:
            raise InputError(str(folder / file), "a damaged file (its checksum differs)", _WROTE)
    return found

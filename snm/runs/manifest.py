"""The manifest of a run folder: the checksums of its files.

`manifest.json` holds the size and CRC-32 of each file, the checksum of the settings, and, once the
run is finished, the checkpoints that its result belongs to. It has a checksum of itself. Each file
is verified when it is read. Without a manifest only `snm train` continues, and writes a new one.

The checksum of `config.toml` is one of values, not of bytes: its layout and comments may change,
and the settings of `MAY_CHANGE` may be edited.

Before a file changes, the manifest is written with the checksums of the old and the new content;
afterwards only with those of the new content. So after a crash the folder matches its manifest.
"""

from __future__ import annotations

import dataclasses
import tomllib
import zlib
from pathlib import Path
from typing import Any

from snm.config.fields import settings_with
from snm.config.marks import Trait
from snm.errors import InputError
from snm.system.faults import describe_error, read_error
from snm.system.files.atomic import write_atomic
from snm.system.files.checksums import checksum, fingerprint, read_sealed, write_sealed

__all__ = ["CONFIG", "MAY_CHANGE", "Manifest", "manifest_path", "read_manifest"]

MAY_CHANGE = settings_with(Trait.MAY_CHANGE)
"""Settings that may differ when a run continues."""

CONFIG = "config.toml"
_FORMAT = "snm-run-1"
_WRITTEN = "what `snm` wrote"
_ORIGIN_NAME = "run.json"  # `snm train` reads it, so it cannot write a new one
_WRITTEN_ANEW = f"{_WRITTEN}: the same `snm train` command makes it anew"
_OR_DELETE_IT = f"{_WRITTEN}: without it, the same `snm train` command makes it anew"


@dataclasses.dataclass(frozen=True)
class Manifest:
    """The contents of a run folder.

    Attributes:
      files: name -> the valid contents of the file, each as [size, CRC-32]; two while it changes.
      settings: the valid checksums of the settings; two while they change.
      finished: phase -> [step, checksum] of the checkpoint that the result belongs to; None until
        the run is finished.
      format: the version of this file.
    """

    files: dict[str, list[list[int]]]
    settings: list[int]
    finished: dict[str, list[int]] | None = None
    format: str = _FORMAT

    def check(self, path: Path) -> None:
        """Verifies the content of a file of the run.

        Raises:
          InputError: it is missing, differs, or is not a file of the run.
        """
        if path.name == CONFIG:
            self._check_settings(path)
            return
        valid = self.files.get(path.name)
        if valid is None:
            raise InputError(str(path), "a file that the run did not write", "no such file")
        expected = _WRITTEN if path.name == _ORIGIN_NAME else _WRITTEN_ANEW
        try:
            found = fingerprint(path)
        except OSError as error:
            raise read_error(path, error, expected) from error
        if found not in valid:
            what = "a damaged or changed file (its checksum differs)"
            raise InputError(str(path), what, expected)

    def _check_settings(self, path: Path) -> None:
        try:
            found = settings_checksum(path.read_bytes())
        except (OSError, ValueError, RecursionError):
            return  # reading the settings raises a clearer error
        if found not in self.settings:
            names = ", ".join(MAY_CHANGE)
            expected = (
                f"{_WRITTEN}, or another {names}: for other settings, copy the file and use "
                "--config with a new --run-dir"
            )
            raise InputError(str(path), "damaged or changed settings", expected)

    def write_files(self, folder: Path, contents: dict[str, bytes]) -> Manifest:
        """Writes the files that differ from `contents`, in this order, and updates the manifest.

        Args:
          folder: the run folder.
          contents: file name -> content.

        Returns:
          The manifest with these contents.
        """
        fingerprints = {
            name: [len(raw), zlib.crc32(raw)] for name, raw in contents.items() if name != CONFIG
        }
        settings = [settings_checksum(contents[CONFIG])] if CONFIG in contents else self.settings
        after = dataclasses.replace(
            self,
            files=self.files | {name: [new] for name, new in fingerprints.items()},
            settings=settings,
        )
        old_and_new = {name: [*self.files.get(name, []), new] for name, new in fingerprints.items()}
        during = dataclasses.replace(
            after, files=self.files | old_and_new, settings=sorted({*self.settings, *settings})
        )
        changed = {
            name: raw for name, raw in contents.items() if not _has_content(folder / name, raw)
        }
        if changed:
            during.write(folder)
        for name, raw in changed.items():
            write_atomic(folder / name, raw)
        after.write(folder)
        return after

    def write(self, folder: Path) -> None:
        """Writes `manifest.json`, unless it has this content already."""
        path, content = manifest_path(folder), dataclasses.asdict(self)
        try:
            if read_sealed(path) == content:
                return
        except (OSError, ValueError):
            pass
        write_sealed(path, content)


def manifest_path(folder: Path) -> Path:
    """The manifest of a run folder."""
    return folder / "manifest.json"


def read_manifest(folder: Path) -> Manifest | None:
    """Reads the manifest of a run folder; None if it has none.

    Raises:
      InputError: the manifest is damaged.
    """
    path = manifest_path(folder)
    try:
        manifest = Manifest(**read_sealed(path))
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise read_error(path, error, _OR_DELETE_IT) from error
    except (OSError, ValueError, TypeError) as error:
        damage = f"a damaged manifest ({describe_error(error)})"
        raise InputError(str(path), damage, _OR_DELETE_IT) from error
    if manifest.format != _FORMAT:
        raise InputError(str(path), f"format {ascii(manifest.format)[:40]}", f"{_FORMAT!r}")
    if not _is_well_formed(manifest):
        raise InputError(str(path), "a damaged manifest (no lists of contents)", _OR_DELETE_IT)
    return manifest


def _is_well_formed(manifest: Manifest) -> bool:
    finished = {} if manifest.finished is None else manifest.finished
    tables: tuple[Any, ...] = (manifest.files, finished)
    return isinstance(manifest.settings, list) and all(
        isinstance(table, dict) and all(isinstance(value, list) for value in table.values())
        for table in tables
    )


def settings_checksum(raw: bytes) -> int:
    """The checksum of the settings in a TOML file, without those of `MAY_CHANGE`.

    Raises:
      ValueError: the file is not TOML.
    """
    settings: dict[str, Any] = tomllib.loads(raw.decode())
    return checksum({name: value for name, value in settings.items() if name not in MAY_CHANGE})


def _has_content(path: Path, raw: bytes) -> bool:
    try:
        return path.read_bytes() == raw
    except OSError:
        return False

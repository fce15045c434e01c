"""The manifest of a run folder: what its files contained when they were written.

`manifest.json` holds the size and CRC-32 of each file, the checksum of the settings, and once the
run is finished the checkpoints that its result is of. It carries its own checksum. Each file is
compared with it where it is read. Without one, only `snm train` goes on, and makes it anew.

Of `config.toml` the values count, not the bytes: it may be laid out anew and commented, and the
settings of `MAY_CHANGE` may be edited.

A change of a file writes the manifest twice: before with the old content and the new, after with
the new alone. So a crash between the two leaves a folder that fits its manifest.
"""

from __future__ import annotations

import dataclasses
import tomllib
import zlib
from pathlib import Path
from typing import Any

from snm.config.fields import GROUPS
from snm.config.marks import Trait, settings_with
from snm.errors import InputError
from snm.system.checksums import checksum, fingerprint, read_sealed, write_sealed
from snm.system.faults import read_error, reason_of
from snm.system.files import write_atomic

__all__ = ["CONFIG", "MAY_CHANGE", "Manifest", "manifest_path", "read_manifest"]

MAY_CHANGE = settings_with(GROUPS, Trait.MAY_CHANGE)
"""Settings that may differ when a run continues."""

CONFIG = "config.toml"
_FORMAT = "snm-run-1"
_WROTE = "what `snm` wrote"
_ORIGIN = "run.json"  # what is compared with the data before anything is written
_ANEW = f"{_WROTE}: the same `snm train` command makes it anew"
_AGAIN = f"{_WROTE}: without it, the same `snm train` command makes it anew"


@dataclasses.dataclass(frozen=True)
class Manifest:
    """What a run folder contains.

    Attributes:
      files: name -> the contents that the file may have, as [size, CRC-32]; two while it changes.
      settings: the checksums that the settings may have, likewise.
      finished: phase -> [step, checksum] of the checkpoint that the result is of; None until the
        run is finished.
      format: the version of this file.
    """

    files: dict[str, list[list[int]]]
    settings: list[int]
    finished: dict[str, list[int]] | None = None
    format: str = _FORMAT

    def check(self, path: Path) -> None:
        """Compares a file of the run with what was written.

        Raises:
          InputError: it is missing, differs, or no such file was written.
        """
        if path.name == CONFIG:
            self._check_settings(path)
            return
        wanted = self.files.get(path.name)
        if wanted is None:
            raise InputError(str(path), "a file that the run did not write", "no such file")
        expected = _WROTE if path.name == _ORIGIN else _ANEW
        try:
            found = fingerprint(path)
        except OSError as error:
            raise read_error(path, error, expected) from error
        if found not in wanted:
            what = "a damaged or changed file (its checksum differs)"
            raise InputError(str(path), what, expected)

    def _check_settings(self, path: Path) -> None:
        try:
            found = settings_checksum(path.read_bytes())
        except (OSError, ValueError, RecursionError):
            return  # the reader says what is wrong
        if found not in self.settings:
            may = ", ".join(MAY_CHANGE)
            expected = (
                f"{_WROTE}, or another {may}: for other settings, copy the file and use --config "
                "with a new --run-dir"
            )
            raise InputError(str(path), "damaged or changed settings", expected)

    def put(self, folder: Path, contents: dict[str, bytes]) -> Manifest:
        """Writes files that differ from `contents`, in this order, and the manifest around them.

        Args:
          folder: the run folder.
          contents: file name -> content.

        Returns:
          the manifest with these contents.
        """
        prints = {n: [len(raw), zlib.crc32(raw)] for n, raw in contents.items() if n != CONFIG}
        settings = [settings_checksum(contents[CONFIG])] if CONFIG in contents else self.settings
        after = dataclasses.replace(
            self,
            files=self.files | {name: [one] for name, one in prints.items()},
            settings=settings,
        )
        either = {name: [*self.files.get(name, []), one] for name, one in prints.items()}
        during = dataclasses.replace(
            after, files=self.files | either, settings=sorted({*self.settings, *settings})
        )
        if any(not _is(folder / name, raw) for name, raw in contents.items()):
            during.write(folder)
        for name, raw in contents.items():
            if not _is(folder / name, raw):
                write_atomic(folder / name, raw)
        after.write(folder)
        return after

    def write(self, folder: Path) -> None:
        """Writes `manifest.json`, unless it is there already."""
        path, value = manifest_path(folder), dataclasses.asdict(self)
        try:
            if read_sealed(path) == value:
                return
        except (OSError, ValueError):
            pass
        write_sealed(path, value)


def manifest_path(folder: Path) -> Path:
    """The manifest of a run folder."""
    return folder / "manifest.json"


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of a run folder, or None if it has none.

    Raises:
      InputError: the manifest is damaged.
    """
    path = manifest_path(folder)
    try:
        found = Manifest(**read_sealed(path))
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise read_error(path, error, _AGAIN) from error
    except (OSError, ValueError, TypeError) as error:
        damage = f"a damaged manifest ({reason_of(error)})"
        raise InputError(str(path), damage, _AGAIN) from error
    if found.format != _FORMAT:
        raise InputError(str(path), f"format {ascii(found.format)[:40]}", f"{_FORMAT!r}")
    if not _well_formed(found):
        raise InputError(str(path), "a damaged manifest (no lists of contents)", _AGAIN)
    return found


def _well_formed(found: Manifest) -> bool:
    by_name: tuple[Any, ...] = (found.files, {} if found.finished is None else found.finished)
    return isinstance(found.settings, list) and all(
        isinstance(lists, dict) and all(isinstance(one, list) for one in lists.values())
        for lists in by_name
    )


def settings_checksum(raw: bytes) -> int:
    """The checksum of the settings in a TOML file, but for those of `MAY_CHANGE`.

    Raises:
      ValueError: no TOML.
    """
    found: dict[str, Any] = tomllib.loads(raw.decode())
    return checksum({name: value for name, value in found.items() if name not in MAY_CHANGE})


def _is(path: Path, raw: bytes) -> bool:
    try:
        return path.read_bytes() == raw
    except OSError:
        return False

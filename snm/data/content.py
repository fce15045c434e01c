"""The content of a data set's files: its key in the cache, and whether it is still the same."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

from snm.errors import InputError
from snm.system.checksums import file_sha256
from snm.system.faults import read_error

__all__ = ["Content", "sha256_of"]


class Content(NamedTuple):
    """What files hold when they are first looked at.

    Attributes:
      folder: of the files, for messages.
      files: all of them.
      stamps: of each, what changes with its content, as a rule.
      key: `sha256_of` the files.
    """

    folder: Path
    files: list[Path]
    stamps: list[tuple[int, int, int]]
    key: str

    @classmethod
    def of(cls, folder: Path, files: list[Path]) -> Content:
        """Looks at the files.

        Raises:
          InputError: one that cannot be read.
        """
        return cls(folder, files, _stamps(files), sha256_of(files))

    def refuse_changed(self) -> None:
        """Refuses files that have changed since, as the cache would have them under another's key.

        A file that was only touched is the same.

        Raises:
          InputError: they have, or one cannot be read.
        """
        if _stamps(self.files) != self.stamps and sha256_of(self.files) != self.key:
            found = "files that changed while they were read"
            raise InputError(str(self.folder), found, "the same command again")


def _stamps(files: list[Path]) -> list[tuple[int, int, int]]:
    """What changes with the content of a file, as a rule."""
    try:
        found = [file.stat() for file in files]
    except OSError as error:
        raise read_error(error.filename, error, "a readable file") from error
    return [(one.st_ino, one.st_size, one.st_mtime_ns) for one in found]


def sha256_of(files: list[Path]) -> str:
    """SHA-256 over the names and content hashes of the files, sorted by path.

    Raises:
      InputError: one that cannot be read.
    """
    total = hashlib.sha256()
    for file in sorted(files):
        try:
            content = file_sha256(file)
        except OSError as error:
            raise read_error(file, error, "a readable file") from error
        total.update(f"{file.name} {content}\n".encode())
    return total.hexdigest()

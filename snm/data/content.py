"""The content hash of a data set, which is its cache key, and a check of files for changes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from snm.errors import InputError
from snm.system.checksums import file_sha256
from snm.system.faults import read_error

__all__ = ["Content", "hash_files", "hash_matrices"]


class Content(NamedTuple):
    """The state of files when they are first read.

    Attributes:
      folder: the folder of the files, for messages.
      files: the files.
      stamps: inode, size and modification time of each file.
      key: `hash_files` the files.
    """

    folder: Path
    files: list[Path]
    stamps: list[tuple[int, int, int]]
    key: str

    @classmethod
    def of(cls, folder: Path, files: list[Path]) -> Content:
        """Hashes the files.

        Raises:
          InputError: a file cannot be read.
        """
        return cls(folder, files, _stamps(files), hash_files(files))

    def refuse_changed(self) -> None:
        """Rejects files that have changed since: the cache would store them under a wrong key.

        Files with a new modification time but the same content are accepted.

        Raises:
          InputError: a file has changed, or cannot be read.
        """
        if _stamps(self.files) != self.stamps and hash_files(self.files) != self.key:
            found = "files that changed while they were read"
            raise InputError(str(self.folder), found, "the same command again")


def _stamps(files: list[Path]) -> list[tuple[int, int, int]]:
    """Inode, size and modification time of each file."""
    try:
        stats = [file.stat() for file in files]
    except OSError as error:
        raise read_error(error.filename, error, "a readable file") from error
    return [(stat.st_ino, stat.st_size, stat.st_mtime_ns) for stat in stats]


def hash_files(files: list[Path]) -> str:
    """SHA-256 over the names and content hashes of the files, sorted by path.

    Raises:
      InputError: a file cannot be read.
    """
    total = hashlib.sha256()
    for file in sorted(files):
        try:
            content = file_sha256(file)
        except OSError as error:
            raise read_error(file, error, "a readable file") from error
        total.update(f"{file.name} {content}\n".encode())
    return total.hexdigest()


def hash_matrices(matrices: Iterable[csr_matrix], about: str = "") -> str:
    """SHA-256 over a text and the arrays of matrices, for data that no files hold."""
    total = hashlib.sha256(about.encode())
    for matrix in matrices:
        for array in (matrix.data, matrix.indices, matrix.indptr.astype(np.int64)):
            total.update(np.ascontiguousarray(array).data)
    return total.hexdigest()

"""The content hash of a data set, which is its cache key."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix

from snm.system.checksums import file_hash
from snm.system.faults import read_error

__all__ = ["hash_files", "hash_matrices"]


def hash_files(files: list[Path]) -> str:
    """SHA-256 over the names and content hashes of the files, sorted by path.

    Raises:
      InputError: a file cannot be read.
    """
    total = hashlib.sha256()
    for file in sorted(files):
        try:
            content = file_hash(file)
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

"""Caches parsed matrices as `.npy` files, so that a data set is parsed once.

Cache errors are never raised; `write_pieces` returns them. If an entry is missing, damaged or
unreadable, `read` returns None and the caller parses the source again. An entry
is a folder `v3-<sha256 of the source>` with a manifest of its arrays. It is written under a
temporary name and then renamed.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_matrix

from snm.data.formats.binary import DAMAGE, map_npy
from snm.data.formats.repository_text.reader import Piece, split_pieces
from snm.errors import InputError
from snm.system.files import disk
from snm.system.files.atomic import atomic_folder
from snm.system.files.checksums import crc32, read_sealed, with_checksum

__all__ = ["Parts", "read", "write", "write_pieces"]

Parts = dict[str, tuple[csr_matrix, csr_matrix]]

_VERSION = "v3"
_MATRICES = ("features", "labels")
_ARRAYS = {"data": np.float32, "indices": np.int32, "indptr": np.int64}
_HEADER = 128  # bytes of the header of a 1-dimensional .npy file of any length


def _entry(cache_folder: Path, key: str) -> Path:
    return cache_folder / f"{_VERSION}-{key}"


def read(
    cache_folder: Path,
    key: str,
    *,
    mapped: bool = False,
    is_mine: Callable[[int], bool] = lambda _: True,
) -> Parts | None:
    """Reads a cache entry.

    The dtype and length of every array are checked against the manifest, and its CRC-32 if
    `is_mine` returns True.

    Args:
      cache_folder: the cache folder.
      key: SHA-256 of the source.
      mapped: memory-map the arrays instead of reading them.
      is_mine: array number -> whether to verify its CRC-32, which reads the whole array. Several
        processes can divide that work among them.

    Returns:
      `train` (and `test`) -> (features, labels), or None if there is no intact entry.
    """
    folder = _entry(cache_folder, key)
    try:
        manifest = read_sealed(folder / "manifest.json")
        parts = {}
        numbers = itertools.count()
        for part, matrices in manifest.items():
            features, labels = (
                _load(folder, part, name, matrices[name], mapped, is_mine, numbers)
                for name in _MATRICES
            )
            parts[part] = (features, labels)
        return parts if "train" in parts else None
    except DAMAGE:
        return None


def _load(
    folder: Path,
    part: str,
    name: str,
    recorded: dict[str, Any],
    mapped: bool,
    is_mine: Callable[[int], bool],
    numbers: Iterator[int],
) -> csr_matrix:
    arrays = {}
    for array, dtype in _ARRAYS.items():
        file = folder / f"{part}.{name}.{array}.npy"
        size, crc = recorded[array]
        values = map_npy(file)
        # Check first: a damaged header may declare gigabytes, which must not be allocated.
        if (values.shape, values.dtype) != ((size,), np.dtype(dtype)):
            raise ValueError(f"{part}.{name}.{array} has another shape or dtype")
        if not mapped or not size:
            values = np.fromfile(file, dtype, size, offset=_HEADER)
        if is_mine(next(numbers)):
            # Read a mapped array from its file: pages read through the map would stay in memory.
            actual = crc32(file, last=values.nbytes) if mapped else zlib.crc32(values.data)
            if actual != crc:
                raise ValueError(f"{part}.{name}.{array} differs from the manifest")
        arrays[array] = values
    rows, columns = recorded["shape"]
    matrix = csr_matrix(
        (arrays["data"], arrays["indices"], arrays["indptr"]), shape=(rows, columns)
    )
    matrix.has_sorted_indices = True
    return matrix


@contextlib.contextmanager
def _new_entry(cache_folder: Path, key: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yields a folder for arrays, and the dict `parts` for their description in the manifest.

    Raises:
      InputError: the entry cannot be written.
    """
    folder = _entry(cache_folder, key)
    with atomic_folder("cache", folder, lasting=False) as temporary:
        parts: dict[str, Any] = {}
        yield temporary, parts
        disk.write(temporary / "manifest.json", json.dumps(with_checksum(parts)).encode())
        # Callers write only after `read` failed, so an existing entry is damaged.
        disk.remove_tree(folder)


def write(cache_folder: Path, key: str, parts: Parts) -> None:
    """Writes a cache entry; gives up silently on an OSError (disk full, folder not writable)."""
    with (
        contextlib.suppress(InputError),
        _new_entry(cache_folder, key) as (temporary, recorded_parts),
    ):
        for part, matrices in parts.items():
            of_name = dict(zip(_MATRICES, matrices, strict=True))
            widths = {name: int(matrix.shape[1]) for name, matrix in of_name.items()}
            pieces = (
                Piece(name, np.diff(matrix.indptr), matrix.indices, matrix.data)
                for name, matrix in of_name.items()
            )
            recorded_parts[part] = _write_part(temporary, part, widths, pieces)


def write_pieces(
    cache_folder: Path, key: str, parts: Iterable[tuple[str, list[Path]]]
) -> InputError | None:
    """Writes a cache entry from text files in bounded memory, block by block.

    Args:
      cache_folder: the cache folder.
      key: SHA-256 of the source.
      parts: `train` and `test` with their files, as `split_pieces` takes them.

    Returns:
      The error, if the entry cannot be written (disk full, folder not writable); None otherwise.

    Raises:
      InputError: an error in the files.
    """
    try:
        with _new_entry(cache_folder, key) as (temporary, recorded_parts):
            for part, files in parts:
                widths, pieces = split_pieces(files)
                recorded_parts[part] = _write_part(temporary, part, widths, pieces)
    except InputError as error:
        if error.where != f"cache {_entry(cache_folder, key)}":  # in the files, not in the cache
            raise
        return error
    return None


def _write_part(
    folder: Path, part: str, widths: dict[str, int], pieces: Iterable[Piece]
) -> dict[str, Any]:
    """Writes the arrays of a part, and returns their entry of the manifest."""
    with contextlib.ExitStack() as opened:
        arrays = {
            name: {
                array: opened.enter_context(
                    _GrowingArray(folder / f"{part}.{name}.{array}.npy", dtype)
                )
                for array, dtype in _ARRAYS.items()
            }
            for name in _MATRICES
        }
        entries = dict.fromkeys(_MATRICES, 0)
        for matrix_arrays in arrays.values():
            matrix_arrays["indptr"].add(np.zeros(1, np.int64))
        for name, counts, ids, values in pieces:
            matrix_arrays = arrays[name]
            matrix_arrays["indices"].add(ids)
            matrix_arrays["data"].add(np.ones(len(ids), np.float32) if values is None else values)
            matrix_arrays["indptr"].add(entries[name] + np.cumsum(counts))
            entries[name] += len(ids)
        recorded: dict[str, Any] = {}
        for name, matrix_arrays in arrays.items():
            rows = matrix_arrays["indptr"].size - 1
            recorded[name] = {"shape": [rows, widths[name]]}
            recorded[name] |= {array: file.finish() for array, file in matrix_arrays.items()}
    return recorded


class _GrowingArray:
    """A one-dimensional `.npy` file that is appended to; the header is written at the end."""

    def __init__(self, path: Path, dtype: DTypeLike):
        self._path, self._dtype = path, np.dtype(dtype)
        self.size, self._crc = 0, 0

    def __enter__(self) -> Self:
        self._file = self._path.open("wb")
        self._file.write(bytes(_HEADER))
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, values: NDArray[Any]) -> None:
        """Appends numbers."""
        raw = np.ascontiguousarray(values, self._dtype).data
        self._file.write(raw)
        self._crc = zlib.crc32(raw, self._crc)
        self.size += len(values)

    def finish(self) -> list[int]:
        """Writes the header; returns the number of entries and their CRC-32."""
        header = io.BytesIO()
        description = {"descr": self._dtype.str, "fortran_order": False, "shape": (self.size,)}
        np.lib.format.write_array_header_1_0(header, description)
        assert header.tell() == _HEADER
        self._file.seek(0)
        self._file.write(header.getvalue())
        return [self.size, self._crc]

"""Caches parsed matrices as `.npy` files, so that a data set is parsed once.

Cache errors never reach the caller. If an entry is missing, damaged or unreadable, `read` returns
None and the caller parses the source again. An entry is a folder `v1-<sha256 of the source>` with
a manifest of its arrays. It is written under a temporary name and then renamed.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.data.formats.binary import DAMAGE, npy_header
from snm.errors import InputError
from snm.system import disk
from snm.system.files import made_whole

__all__ = ["Parts", "entry", "read", "write"]

Parts = dict[str, tuple[csr_matrix, csr_matrix]]

_VERSION = "v1"
_MATRICES = ("features", "labels")
_PIECE = 1 << 22  # bytes read at once
_ARRAYS = {"data": np.float32, "indices": np.int32, "indptr": np.int64}


def entry(key: str) -> str:
    """The name of an entry in the cache folder.

    Args:
      key: SHA-256 of the source.
    """
    return f"{_VERSION}-{key}"


def read(
    place: Path, key: str, *, mapped: bool = False, checks: Callable[[int], bool] = lambda _: True
) -> Parts | None:
    """Reads a cache entry.

    Dtype and length of every array are checked against the manifest, and CRC-32 where `checks`
    says so.

    Args:
      place: the cache folder.
      key: SHA-256 of the source.
      mapped: memory-map the arrays instead of reading them.
      checks: array number -> whether to verify its CRC-32, which reads the whole array. Several
        processes can divide that work among them.

    Returns:
      `train` (and `test`) -> (features, labels), or None if there is no intact entry.
    """
    folder = place / entry(key)
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        if manifest["crc"] != _crc_of(manifest["parts"]):
            return None
        parts = {}
        numbers = itertools.count()
        for part, matrices in manifest["parts"].items():
            features, labels = (
                _load(folder, part, name, matrices[name], mapped, checks, numbers)
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
    checks: Callable[[int], bool],
    numbers: Iterator[int],
) -> csr_matrix:
    arrays = {}
    for array, dtype in _ARRAYS.items():
        file = folder / f"{part}.{name}.{array}.npy"
        size, crc = recorded[array]
        with file.open("rb") as stream:
            # Compare first: a damaged header may declare gigabytes, which must not be allocated.
            if npy_header(stream) != ((size,), np.dtype(dtype)):
                raise ValueError(f"{part}.{name}.{array} has another shape or dtype")
            values: NDArray[Any]
            if mapped and size:
                values = np.memmap(file, dtype, "r", offset=stream.tell(), shape=(size,))
            else:
                values = np.fromfile(stream, dtype, size)
        wrong = values.size != size
        if checks(next(numbers)) and not wrong:
            # Read a mapped array from its file: pages read through the map would stay in memory.
            found = _crc_of_tail(file, values.nbytes) if mapped else _size_and_crc(values)[1]
            wrong = found != crc
        if wrong:
            raise ValueError(f"{part}.{name}.{array} differs from the manifest")
        arrays[array] = values
    rows, columns = recorded["shape"]
    matrix = csr_matrix(
        (arrays["data"], arrays["indices"], arrays["indptr"]), shape=(rows, columns)
    )
    matrix.has_sorted_indices = True
    return matrix


def _size_and_crc(values: NDArray[Any]) -> list[int]:
    return [values.size, zlib.crc32(np.ascontiguousarray(values).data)]


def _crc_of_tail(file: Path, size: int) -> int:
    """CRC-32 of the last `size` bytes of a file, read in pieces of `_PIECE` bytes."""
    crc = 0
    with file.open("rb", buffering=0) as stream:
        stream.seek(-size, os.SEEK_END)
        while piece := stream.read(_PIECE):
            crc = zlib.crc32(piece, crc)
    return crc


def _crc_of(parts: dict[str, Any]) -> int:
    """CRC-32 of the manifest's `parts`: no array file would reveal a wrong matrix shape."""
    return zlib.crc32(json.dumps(parts, sort_keys=True).encode())


def write(place: Path, key: str, parts: Parts) -> None:
    """Writes a cache entry; gives up silently on an OSError (disk full, folder not writable)."""
    folder = place / entry(key)
    with contextlib.suppress(InputError), made_whole("cache", folder, lasting=False) as temporary:
        manifest: dict[str, Any] = {"parts": {}}
        for part, matrices in parts.items():
            manifest["parts"][part] = {}
            for name, matrix in zip(_MATRICES, matrices, strict=True):
                recorded: dict[str, Any] = {"shape": [int(size) for size in matrix.shape]}
                for array, dtype in _ARRAYS.items():
                    values = getattr(matrix, array).astype(dtype, copy=False)
                    np.save(temporary / f"{part}.{name}.{array}.npy", values)
                    recorded[array] = _size_and_crc(values)
                manifest["parts"][part][name] = recorded
        manifest["crc"] = _crc_of(manifest["parts"])
        disk.write(temporary / "manifest.json", json.dumps(manifest).encode())
        # Callers write only after `read` failed, so an existing entry is damaged.
        disk.remove_tree(folder)

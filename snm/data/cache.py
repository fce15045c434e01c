"""Parsed matrices kept as `.npy` files, so that a data set is parsed once.

A cache only ever saves time: whatever is missing, damaged or not permitted, the reader of it gets
None and parses the source again. An entry is a folder `v1-<sha256 of the source>` that is written
under another name and then renamed, with a manifest of what must be in it.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import tempfile
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.data.formats.binary import DAMAGE

__all__ = ["Parts", "read", "write"]

Parts = dict[str, tuple[csr_matrix, csr_matrix]]

_VERSION = "v1"
_MATRICES = ("features", "labels")
_PIECE = 1 << 22  # bytes read at once
_ARRAYS = {"data": np.float32, "indices": np.int32, "indptr": np.int64}


def read(
    place: Path, key: str, *, mapped: bool = False, checks: Callable[[int], bool] = lambda _: True
) -> Parts | None:
    """The matrices (features, labels) by part, or None where no whole entry is found.

    Every array is checked against the manifest: dtype, length and CRC-32.

    Args:
      place: the cache's folder.
      key: SHA-256 of the source.
      mapped: leave entries on the disk, to be read where they are used.
      checks: of which arrays, by number, to read the whole for its CRC-32: several processes may
        share that work.
    """
    entry = place / f"{_VERSION}-{key}"
    try:
        manifest = json.loads((entry / "manifest.json").read_text(encoding="utf-8"))
        if manifest["crc"] != _crc_of(manifest["parts"]):
            return None
        parts = {}
        numbers = itertools.count()
        for part, matrices in manifest["parts"].items():
            features, labels = (
                _load(entry, part, name, matrices[name], mapped, checks, numbers)
                for name in _MATRICES
            )
            parts[part] = (features, labels)
        return parts if "train" in parts else None
    except DAMAGE:
        return None


def _load(
    entry: Path,
    part: str,
    name: str,
    about: dict[str, Any],
    mapped: bool,
    checks: Callable[[int], bool],
    numbers: Iterator[int],
) -> csr_matrix:
    arrays = {}
    for array, dtype in _ARRAYS.items():
        file = entry / f"{part}.{name}.{array}.npy"
        size, crc = about[array]
        map_mode: Literal["r"] | None = "r" if mapped and size else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a damaged header looks like one of Python 2
            values = np.load(file, mmap_mode=map_mode, allow_pickle=False)
        wrong = values.dtype != dtype or values.shape != (size,)
        if checks(next(numbers)) and not wrong:
            # Through the file, where mapped: pages that are read through the map would stay.
            found = _crc_of_end(file, values.nbytes) if mapped else _fingerprint(values)[1]
            wrong = found != crc
        if wrong:
            raise ValueError(f"{part}.{name}.{array} is not what was written")
        arrays[array] = values
    rows, columns = about["shape"]
    matrix = csr_matrix(
        (arrays["data"], arrays["indices"], arrays["indptr"]), shape=(rows, columns)
    )
    matrix.has_sorted_indices = True
    return matrix


def _fingerprint(values: NDArray[Any]) -> list[int]:
    return [values.size, zlib.crc32(np.ascontiguousarray(values).data)]


def _crc_of_end(file: Path, size: int) -> int:
    """CRC-32 of the last bytes of a file, read by pieces."""
    crc = 0
    with file.open("rb", buffering=0) as stream:
        stream.seek(-size, os.SEEK_END)
        while piece := stream.read(_PIECE):
            crc = zlib.crc32(piece, crc)
    return crc


def _crc_of(parts: dict[str, Any]) -> int:
    """Of what the manifest says: sizes of matrices follow from nothing else."""
    return zlib.crc32(json.dumps(parts, sort_keys=True).encode())


def write(place: Path, key: str, parts: Parts) -> None:
    """Writes an entry, or quietly does not (a full disk, a folder that may not be written)."""
    entry = place / f"{_VERSION}-{key}"
    beside: str | None = None
    try:
        place.mkdir(parents=True, exist_ok=True)
        beside = tempfile.mkdtemp(dir=place, prefix=".writing-")
        manifest: dict[str, Any] = {"parts": {}}
        for part, matrices in parts.items():
            manifest["parts"][part] = {}
            for name, matrix in zip(_MATRICES, matrices, strict=True):
                about: dict[str, Any] = {"shape": [int(size) for size in matrix.shape]}
                for array, dtype in _ARRAYS.items():
                    values = getattr(matrix, array).astype(dtype, copy=False)
                    np.save(Path(beside) / f"{part}.{name}.{array}.npy", values)
                    about[array] = _fingerprint(values)
                manifest["parts"][part][name] = about
        manifest["crc"] = _crc_of(manifest["parts"])
        manifest_file = Path(beside) / "manifest.json"
        manifest_file.write_text(json.dumps(manifest), encoding="utf-8")
        # Only an entry that could not be read gets here: what is in the way is damaged.
        shutil.rmtree(entry, ignore_errors=True)
        Path(beside).rename(entry)
    except OSError:
        pass
    finally:
        if beside is not None:
            shutil.rmtree(beside, ignore_errors=True)

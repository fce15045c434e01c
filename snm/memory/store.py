"""The file of a memory: one `.npz` without pickle, whose members carry checksums."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from snm.data.formats.binary import DAMAGE, damage_error, read_arrays
from snm.errors import InputError
from snm.memory.memory import Memory, MemorySettings
from snm.system.files.atomic import atomic_file

__all__ = ["load_memory", "save_memory"]

_EXPECTED = "a memory that `snm train` wrote"


def save_memory(path: Path, memory: Memory) -> None:
    """Writes a memory; the file appears when it is whole."""
    arrays: dict[str, Any] = dataclasses.asdict(memory.settings)
    for name, matrix in (("features", memory.features), ("labels", memory.labels)):
        arrays |= {f"{name}_data": matrix.data, f"{name}_indices": matrix.indices,
                   f"{name}_indptr": matrix.indptr, f"{name}_shape": matrix.shape}  # fmt: skip
    arrays["rows"] = memory.rows
    for name, array in (("queries", memory.queries), ("weights", memory.weights)):
        if array is not None:
            arrays[name] = array
    with atomic_file(path) as partial, partial.open("wb") as out:
        np.savez(out, **arrays)


def load_memory(path: Path, *, num_features: int, num_labels: int) -> Memory:
    """Reads a memory.

    Args:
      path: a file that `save_memory` wrote.
      num_features: d of the model.
      num_labels: K of the model.

    Raises:
      InputError: no such file, damage, or the memory of a model of another shape.
    """
    try:
        arrays = read_arrays(path)
        matrices = [_matrix(arrays, name) for name in ("features", "labels")]
        rows = arrays["rows"]
        settings = MemorySettings(
            neighbors=int(arrays["neighbors"]),
            power=float(arrays["power"]),
            feature_share=float(arrays["feature_share"]),
            weight=float(arrays["weight"]),
        )
    except DAMAGE as error:
        raise damage_error(path, error, "no memory", _EXPECTED) from error
    features, labels = matrices
    queries, weights = arrays.get("queries"), arrays.get("weights")
    points = features.shape[0]
    fits = (
        features.shape[1] == num_features
        and labels.shape == (points, num_labels)
        and (rows.shape, rows.dtype) == ((points,), np.int64)
        and (
            queries is None
            or (queries.ndim, len(queries), queries.dtype) == (2, points, np.float16)
        )
        and (weights is None or (weights.shape, weights.dtype) == ((points,), np.float32))
    )
    if not fits:
        raise InputError(str(path), "the memory of another model", _EXPECTED)
    return Memory(features, labels, queries, rows, settings, weights)


def _matrix(arrays: dict[str, Any], name: str) -> csr_matrix:
    parts = tuple(arrays[f"{name}_{part}"] for part in ("data", "indices", "indptr"))
    matrix = csr_matrix(parts, shape=tuple(arrays[f"{name}_shape"].tolist()))
    matrix.check_format(full_check=True)  # ids in range, pointers that do not decrease
    return matrix

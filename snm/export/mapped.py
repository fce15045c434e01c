"""Opens an export of `--to npy`: its arrays are mapped into memory, and read where they are used.

Nothing is copied, so a model of gigabytes opens at once, and processes on one machine share it. A
score reads the same numbers by the same program as one of the run.
"""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from snm.config.resolved import ResolvedConfig, read_resolved
from snm.config.settings import config_text
from snm.data.formats.binary import DAMAGE, headers_unwarned
from snm.errors import InputError
from snm.export.arrays import FORMAT, arrays_of, write_arrays
from snm.export.from_arrays import Wanted, fits, predictor_of
from snm.export.manifest import read_manifest
from snm.export.mapped_names import MappedNames, line_starts
from snm.export.memory_arrays import by_feature_of, memory_arrays_of, votes_of
from snm.prediction.predictor import Predictor
from snm.runs.schema import Export
from snm.system import disk
from snm.tables.int8 import int8_rows

__all__ = ["is_export", "open_export", "write_export"]

_SETTINGS = "settings.toml"
_EXPECTED = "what `snm export --to npy` wrote"


def is_export(folder: Path) -> bool:
    """Whether a folder is an export that can be opened."""
    return (folder / _SETTINGS).is_file()


def write_export(
    predictor: Predictor,
    config: ResolvedConfig,
    names: Path | None,
    folder: Path,
    *,
    rows: str = "float32",
) -> dict[str, Any]:
    """Writes the arrays of a model so that they can be mapped.

    Args:
      predictor: the model.
      config: the settings of its run.
      names: the file of the names of the labels, if they have any.
      folder: to write to; the weighting, names and vectoriser of the run belong to it too.
      rows: how feature rows and class rows are stored, float32 or int8.

    Returns:
      What the manifest says of them.
    """
    arrays: dict[str, NDArray] = {**arrays_of(predictor)}
    memory = predictor.memory
    if rows == "int8":
        arrays |= {name: int8_rows(arrays[name]) for name in ("feature_rows", "class_rows")}
    log_multipliers = np.atleast_1d(np.asarray(predictor.state.head.log_scale))
    about: dict[str, Any] = {
        "file": write_arrays(arrays, "npy", folder),
        "rows": rows,
        "log_multipliers": log_multipliers.tolist(),  # exactly those of the run
    }
    disk.write(folder / _SETTINGS, config_text(config).encode())
    if names is not None:
        write_arrays({"starts": line_starts(names)}, "npy", folder, "labels")
    if predictor.calibration is not None:
        about["calibration"] = dataclasses.asdict(predictor.calibration)
    if memory is not None:
        stored = memory_arrays_of(memory) | by_feature_of(memory)
        name = write_arrays(stored, "npy", folder, "memory")
        about["memory"] = {"file": name, "arrays": sorted(stored), **votes_of(memory)}
    return about


def open_export(folder: Path, *, memory: bool = True, verify: bool = True) -> Predictor:
    """Opens an export without a copy of its arrays, which are read where they are used.

    Args:
      folder: of the export. Its files must not change while it is open.
      memory: as in `runs.stored_run.load`.
      verify: compare the arrays with their checksums, which reads them all; other files are always
        compared.

    Raises:
      InputError: no such export, or damage; it names the file.
    """
    manifest = read_manifest(folder, "npy", verify=verify)
    config = read_resolved(folder / _SETTINGS)

    def names(path: Path, num_labels: int) -> MappedNames:
        starts = _array(folder, "labels", "starts", np.int64, (num_labels + 1,))
        return MappedNames(path, starts)

    return predictor_of(
        folder,
        folder / "manifest.json",
        manifest,
        config,
        functools.partial(_array, folder),
        names,
        Wanted(FORMAT, Export, _EXPECTED),
        memory=memory,
        full_check=verify,
    )


def _array(
    folder: Path, stem: str, name: str, dtype: DTypeLike | None, shape: tuple[int, ...]
) -> NDArray:
    """A mapped array; see `from_arrays.ReadArray`."""
    path = folder / f"{stem}-{name}.npy"
    try:
        with headers_unwarned():
            found = np.lib.format.open_memmap(path, mode="r")
    except DAMAGE as error:
        reason = getattr(error, "strerror", None) or "no array"
        raise InputError(str(path), reason.lower(), _EXPECTED) from error
    if dtype not in (None, found.dtype) or not fits(found.shape, shape):
        raise InputError(str(path), f"{found.dtype} {found.shape}", _EXPECTED)
    return np.asarray(found)

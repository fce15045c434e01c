"""Writes and opens an export of `--to npy`, whose arrays are mapped into memory.

Nothing is copied, so a model of gigabytes opens at once, and processes on one machine share it.
Scores are computed from the same numbers by the same program as those of the run.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from snm.config.resolved import ResolvedConfig, read_resolved
from snm.config.settings import config_text
from snm.data.formats.binary import DAMAGE, damage_error, map_npy
from snm.errors import InputError
from snm.export.arrays import FORMAT, write_arrays, write_model
from snm.export.from_arrays import ExpectedManifest, build_predictor, matches_shape
from snm.export.manifest import ExportManifest, read_manifest
from snm.export.npy.names import MappedNames, line_starts
from snm.prediction.predictor import Predictor
from snm.system.files import disk

__all__ = ["is_npy_export", "open_npy", "write_npy"]

_SETTINGS = "settings.toml"
_EXPECTED = "what `snm export --to npy` wrote"


def is_npy_export(folder: Path) -> bool:
    """Whether a folder is an export of `--to npy`."""
    return (folder / _SETTINGS).is_file()


def write_npy(
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
      names: the file of the label names, or None.
      folder: the folder to write to, which also needs the weighting, names and vectorizer.
      rows: how feature rows and class rows are stored, float32 or int8.

    Returns:
      Their entries of the manifest.
    """
    disk.write(folder / _SETTINGS, config_text(config).encode())
    if names is not None:
        write_arrays({"starts": line_starts(names)}, "npy", folder, "labels")
    return write_model(predictor, "npy", folder, rows)


def open_npy(folder: Path, *, memory: bool = True, verify: bool = True) -> Predictor:
    """Opens an export without copying its arrays.

    Args:
      folder: the export. Its files must not change while it is open.
      memory: as in `runs.stored_run.load`.
      verify: whether to compare the arrays with their checksums, which reads them all; other files
        are always compared.

    Raises:
      InputError: no such export, or damage; it names the file.
    """
    manifest = read_manifest(folder, "npy", verify=verify)
    config = read_resolved(folder / _SETTINGS)

    def names(path: Path, num_labels: int) -> MappedNames:
        starts = _array(folder, "labels", "starts", np.int64, (num_labels + 1,))
        return MappedNames(path, starts)

    return build_predictor(
        folder,
        folder / "manifest.json",
        manifest,
        config,
        functools.partial(_array, folder),
        names,
        ExpectedManifest(FORMAT, ExportManifest, _EXPECTED),
        memory=memory,
        full_check=verify,
    )


def _array(
    folder: Path, stem: str, name: str, dtype: DTypeLike | None, shape: tuple[int, ...]
) -> NDArray:
    """A mapped array; see `from_arrays.ReadArray`."""
    path = folder / f"{stem}-{name}.npy"
    try:
        array = map_npy(path)
    except DAMAGE as error:
        raise damage_error(path, error, "no array", _EXPECTED) from error
    if dtype not in (None, array.dtype) or not matches_shape(array.shape, shape):
        raise InputError(str(path), f"{array.dtype} {array.shape}", _EXPECTED)
    return np.asarray(array)

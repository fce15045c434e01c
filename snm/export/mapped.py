"""Opens an export of `--to npy`: its arrays are mapped into memory, and read where they are used.

Nothing is copied, so a model of gigabytes opens at once, and processes on one machine share it. A
score reads the same numbers by the same program as one of the run.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import Array
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_matrix

from snm.config.resolved import ResolvedConfig, read_resolved
from snm.config.settings import config_text
from snm.data.formats.binary import DAMAGE
from snm.data.vectorizer import Vectorizer
from snm.data.weighting import Weighting
from snm.errors import InputError
from snm.export.arrays import FORMAT, arrays_of, write_arrays
from snm.export.manifest import read_manifest
from snm.export.memory import by_feature_of, memory_arrays_of, votes_of
from snm.export.names import MappedNames, line_starts
from snm.head.state import Head
from snm.memory.memory import Memory, MemorySettings
from snm.model.calibration import Calibration
from snm.model.encoder import init_tower
from snm.model.from_config import make_model
from snm.model.model import Model, TrainState
from snm.model.predictor import Predictor
from snm.runs.folder import RunFolder
from snm.runs.schema import EXPORT, validated
from snm.system import disk
from snm.tables.int8 import as_bytes, int8_rows, row_type
from snm.tables.table import RowTable

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
      memory: as in `runs.load.load`.
      verify: compare the arrays with their checksums, which reads them all; other files are always
        compared.

    Raises:
      InputError: no such export, or damage; it names the file.
    """
    manifest = read_manifest(folder, "npy", verify=verify)
    config = read_resolved(folder / _SETTINGS)
    try:
        return _opened(folder, manifest, config, memory=memory, verify=verify)
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        found = f"another content ({error!r:.80})"
        raise InputError(str(folder / "manifest.json"), found, _EXPECTED) from error


def _opened(
    folder: Path, manifest: dict[str, Any], config: ResolvedConfig, *, memory: bool, verify: bool
) -> Predictor:
    if manifest["format"] != FORMAT:
        raise InputError(str(folder), f"format {ascii(manifest['format'])[:40]}", FORMAT)
    validated(folder / "manifest.json", manifest, EXPORT)
    num_features, num_labels = manifest["num_features"], manifest["num_labels"]
    model = make_model(config, num_features, num_labels)
    model = dataclasses.replace(model, members=manifest["members"])
    run = RunFolder(folder)  # the files that are the same in both
    weighting = Weighting.load(run.fitted_weighting)
    if weighting.idf is not None and weighting.idf.size != num_features:
        raise InputError(str(run.fitted_weighting), f"{weighting.idf.size} factors", _EXPECTED)
    names = None
    if run.names.exists():
        starts = _array(folder, "labels-starts", np.int64, (num_labels + 1,))
        names = MappedNames(run.names, starts)
    texts = Vectorizer.read(run.vectorizer) if run.vectorizer.exists() else None
    found = Predictor(model, _state(folder, manifest, model), weighting, names, vectorizer=texts)
    if not memory:
        return found
    if "calibration" in manifest:
        calibration = Calibration.read(manifest["calibration"])
        found = dataclasses.replace(found, calibration=calibration)
    if "memory" in manifest:
        stored = _memory(folder, manifest["memory"], model, full_check=verify)
        found = dataclasses.replace(found, memory=stored)
    return found


def _state(folder: Path, manifest: dict[str, Any], model: Model) -> TrainState:
    width, num_labels = model.dim * model.members, model.head.num_labels

    def table(name: str, count: int) -> RowTable:
        if manifest["rows"] == "int8":
            found = _array(folder, f"model-{name}", row_type(width), (count,))
            return RowTable(_on_device(as_bytes(found)))
        return RowTable(mapped(name, count, width))

    def mapped(name: str, *shape: int) -> Array:
        return _on_device(_array(folder, f"model-{name}", np.float32, shape))

    multipliers = np.asarray(manifest["log_multipliers"], np.float32)
    if multipliers.shape != (model.members,):
        raise ValueError(f"{multipliers.shape} multipliers")

    def layer(_: Any) -> Array:  # the one of a tower, which has no bias
        shape = (model.members, model.dim, model.dim)
        return _on_device(_of_members(_array(folder, "model-tower", np.float32, shape)))

    like = jax.eval_shape(
        lambda: init_tower(model.dim, model.encoder, "float32", jax.random.key(0))[1]
    )
    head = Head(
        table("class_rows", num_labels),
        mapped("bias", num_labels) if model.head.bias else None,
        _on_device(_of_members(multipliers)),
    )
    features = table("feature_rows", model.num_features)
    return TrainState(features, jax.tree.map(layer, like), None, head)


def _of_members(array: NDArray) -> NDArray:
    """An array as `inference.join` has it: one member has no axis of members."""
    return array[0] if len(array) == 1 else array


def _on_device(array: NDArray) -> Array:
    """Without a copy on a CPU, whose memory is what the file is mapped to."""
    return jax.device_put(array, may_alias=True)


def _memory(folder: Path, about: dict[str, Any], model: Model, *, full_check: bool) -> Memory:
    points, d, num_labels = about["points"], model.num_features, model.head.num_labels

    def mapped(name: str, dtype: DTypeLike | None, *shape: int) -> NDArray:
        return _array(folder, f"memory-{name}", dtype, shape)

    def csr(name: str, rows: int, columns: int, *, ones: bool = False) -> csr_matrix:
        ids = mapped(f"{name}_indices", np.int32, -1)
        data = np.ones(len(ids), np.float32)
        if not ones:
            data = mapped(f"{name}_data", np.float32, len(ids))
        starts = mapped(f"{name}_indptr", None, rows + 1)
        matrix = csr_matrix((data, ids, starts), shape=(rows, columns))
        if full_check:
            matrix.check_format(full_check=True)
        return matrix

    names, settings = about["arrays"], dataclasses.fields(MemorySettings)
    width = model.dim * model.members
    return Memory(
        csr("features", points, d),
        csr("labels", points, num_labels, ones=True),
        mapped("queries", np.float16, points, width) if "queries" in names else None,
        mapped("rows", np.int64, points),
        MemorySettings(**{field.name: about[field.name] for field in settings}),
        mapped("weights", np.float32, points) if "weights" in names else None,
        csr("by_feature", d, points),
    )


def _array(folder: Path, name: str, dtype: DTypeLike | None, shape: tuple[int, ...]) -> NDArray:
    """A mapped array; -1 is any length, and None any type.

    Raises:
      InputError: no such file, or another array.
    """
    path = folder / f"{name}.npy"
    try:
        found = np.lib.format.open_memmap(path, mode="r")
    except DAMAGE as error:
        reason = getattr(error, "strerror", None) or "no array"
        raise InputError(str(path), reason.lower(), _EXPECTED) from error
    wanted = tuple(
        real if asked == -1 else asked for asked, real in zip(shape, found.shape, strict=False)
    )
    if found.shape != wanted or found.ndim != len(shape) or dtype not in (None, found.dtype):
        raise InputError(str(path), f"{found.dtype} {found.shape}", _EXPECTED)
    return np.asarray(found)

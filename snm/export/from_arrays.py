"""Makes a predictor from the arrays of an export, whichever file holds them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np
from jax import Array
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_matrix

from snm.config.resolved import ResolvedConfig
from snm.errors import InputError
from snm.head.state import Head
from snm.memory.memory import Memory, MemorySettings
from snm.model.encoder import init_tower
from snm.model.from_config import make_model
from snm.model.model import Model, TrainState
from snm.prediction.calibration import NOT_LOADED
from snm.prediction.predictor import Predictor
from snm.runs.folder import RunFolder
from snm.runs.schema import Export, StoredMemory
from snm.runs.stored_run import read_vectorizer, read_weighting
from snm.runs.typed_json import parse_json
from snm.tables.int8 import as_bytes, row_type
from snm.tables.table import RowTable

__all__ = ["ReadArray", "Wanted", "fits", "predictor_of"]


class ReadArray(Protocol):
    """Reads the arrays of an export."""

    def __call__(
        self, stem: str, name: str, dtype: DTypeLike | None, shape: tuple[int, ...], /
    ) -> NDArray:
        """Reads one array.

        Args:
          stem: `model` or `memory`.
          name: of the array; see `arrays_of` and `memory_arrays_of`.
          dtype: that it must have; None is any.
          shape: that it must have; -1 is any length.

        Raises:
          InputError: no such array, or another one.
        """
        ...


class Wanted(NamedTuple):
    """What a manifest must be.

    Attributes:
      format: its `format`.
      kind: what it must hold.
      expected: what its folder should be, in the messages.
    """

    format: str
    kind: type[Export]
    expected: str


def fits(found: Sequence[int], wanted: Sequence[int]) -> bool:
    """Whether a shape is the one that was asked for, where -1 is any length."""
    return len(found) == len(wanted) and all(
        asked in (-1, real) for asked, real in zip(wanted, found, strict=True)
    )


def predictor_of(
    folder: Path,
    where: Path,
    manifest: dict[str, Any],
    config: ResolvedConfig,
    array: ReadArray,
    names: Callable[[Path, int], Sequence[str]],
    wanted: Wanted,
    *,
    memory: bool,
    full_check: bool,
) -> Predictor:
    """The model that an export holds.

    Args:
      folder: of the export, with the weighting, and perhaps label names and a vectoriser.
      where: the file of the manifest.
      manifest: its content.
      config: the settings of the run.
      array: reads an array.
      names: reads the file of the names of K labels.
      wanted: what the manifest must be.
      memory: as in `runs.stored_run.load`.
      full_check: look at all ids of the memory.

    Raises:
      InputError: something is missing, or does not fit the rest.
    """
    try:
        if manifest["format"] != wanted.format:
            other = f"format {ascii(manifest['format'])[:40]}"
            raise InputError(str(folder), other, wanted.format)
        about = parse_json(wanted.kind, manifest, str(where))
        model = make_model(config, about.num_features, about.num_labels)
        model = dataclasses.replace(model, members=about.members)
        found = _alone(folder, about, config, model, array, names)
        if about.calibration is not None:
            calibration = about.calibration if memory else None
            found = dataclasses.replace(found, calibration=calibration, why_uncalibrated=NOT_LOADED)
        if memory and about.memory is not None:
            stored = _memory(about.memory, model, array, full_check)
            found = dataclasses.replace(found, memory=stored)
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        content = f"another content ({error!r:.80})"
        raise InputError(str(where), content, wanted.expected) from error
    return found


def _alone(
    folder: Path,
    about: Export,
    config: ResolvedConfig,
    model: Model,
    array: ReadArray,
    read_names: Callable[[Path, int], Sequence[str]],
) -> Predictor:
    """The model without its memory."""
    run = RunFolder(folder)  # the files that are the same in both
    weighting = read_weighting(run.fitted_weighting, config.weighting, model.num_features)
    names = read_names(run.names, model.spec.num_labels) if run.names.exists() else None
    texts = None
    if run.vectorizer.exists():
        texts = read_vectorizer(run.vectorizer, model.num_features)
    state = _state(about, model, array)
    return Predictor(model, state, weighting, names, vectorizer=texts)


def _state(about: Export, model: Model, array: ReadArray) -> TrainState:
    width, num_labels = model.dim * model.members, model.spec.num_labels

    def table(name: str, count: int) -> RowTable:
        if about.rows == "int8":
            return RowTable(_on_device(as_bytes(array("model", name, row_type(width), (count,)))))
        return RowTable(placed(name, count, width))

    def placed(name: str, *shape: int) -> Array:
        return _on_device(array("model", name, np.float32, shape))

    multipliers = np.asarray(about.log_multipliers, np.float32)
    if multipliers.shape != (model.members,):
        raise ValueError(f"{multipliers.shape} multipliers")

    def layer(_: Any) -> Array:  # the one of a tower, which has no bias
        shape = (model.members, model.dim, model.dim)
        return _on_device(_of_members(array("model", "tower", np.float32, shape)))

    like = jax.eval_shape(
        lambda: init_tower(model.dim, model.encoder, "float32", jax.random.key(0))[1]
    )
    head = Head(
        table("class_rows", num_labels),
        placed("bias", num_labels) if model.spec.bias else None,
        _on_device(_of_members(multipliers)),
    )
    features = table("feature_rows", model.num_features)
    return TrainState(features, jax.tree.map(layer, like), None, head)


def _of_members(array: NDArray) -> NDArray:
    """An array as `inference.join_members` has it: one member has no axis of members."""
    return array[0] if len(array) == 1 else array


def _on_device(array: NDArray) -> Array:
    """Without a copy on a CPU, whose memory is what the file is mapped to."""
    return jax.device_put(array, may_alias=True)


def _memory(about: StoredMemory, model: Model, array: ReadArray, full_check: bool) -> Memory:
    points, d, num_labels = about.points, model.num_features, model.spec.num_labels

    def read(name: str, dtype: DTypeLike | None, *shape: int) -> NDArray:
        return array("memory", name, dtype, shape)

    def csr(name: str, rows: int, columns: int, *, ones: bool = False) -> csr_matrix:
        ids = read(f"{name}_indices", np.int32, -1)
        data = np.ones(len(ids), np.float32)
        if not ones:
            data = read(f"{name}_data", np.float32, len(ids))
        starts = read(f"{name}_indptr", None, rows + 1)
        matrix = csr_matrix((data, ids, starts), shape=(rows, columns))
        if full_check:
            matrix.check_format(full_check=True)
        return matrix

    names, settings = about.arrays, dataclasses.fields(MemorySettings)
    width = model.dim * model.members
    return Memory(
        csr("features", points, d),
        csr("labels", points, num_labels, ones=True),
        read("queries", np.float16, points, width) if "queries" in names else None,
        read("rows", np.int64, points),
        MemorySettings(**{field.name: getattr(about, field.name) for field in settings}),
        read("weights", np.float32, points) if "weights" in names else None,
        csr("by_feature", d, points) if "by_feature_data" in names else None,
    )

"""Builds a predictor from the arrays of an export, for every file format."""

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
from snm.export.manifest import ExportManifest, StoredMemory
from snm.head.state import Head
from snm.memory.memory import Memory, MemorySettings
from snm.model.encoder import init_tower
from snm.model.from_config import make_model
from snm.model.model import Model, TrainState
from snm.prediction.calibration import NOT_LOADED
from snm.prediction.predictor import Predictor
from snm.runs.folder import RunFolder
from snm.runs.stored_run import read_vectorizer, read_weighting
from snm.runs.typed_json import parse_json
from snm.tables.int8 import as_bytes, row_type
from snm.tables.table import RowTable

__all__ = ["ExpectedManifest", "build_predictor", "matches_shape"]


class ReadArray(Protocol):
    """Reads the arrays of an export."""

    def __call__(
        self, stem: str, name: str, dtype: DTypeLike | None, shape: tuple[int, ...], /
    ) -> NDArray:
        """Reads one array.

        Args:
          stem: `model` or `memory`.
          name: the name of the array; see `model_arrays` and `stored_arrays`.
          dtype: the expected dtype; None is any.
          shape: the expected shape; -1 is any length.

        Raises:
          InputError: no such array, or another one.
        """
        ...


class ExpectedManifest(NamedTuple):
    """The requirements of a manifest.

    Attributes:
      format: the value of its `format`.
      kind: the dataclass of its content.
      expected: a description of its folder, for error messages.
    """

    format: str
    kind: type[ExportManifest]
    expected: str


def matches_shape(shape: Sequence[int], expected: Sequence[int]) -> bool:
    """Whether a shape is the expected one, where -1 is any length."""
    return len(shape) == len(expected) and all(
        size in (-1, length) for size, length in zip(expected, shape, strict=True)
    )


def build_predictor(
    folder: Path,
    where: Path,
    manifest: dict[str, Any],
    config: ResolvedConfig,
    array: ReadArray,
    names: Callable[[Path, int], Sequence[str]],
    expected: ExpectedManifest,
    *,
    memory: bool,
    full_check: bool,
) -> Predictor:
    """Builds the model of an export.

    Args:
      folder: the export, with the weighting and, if present, label names and a vectorizer.
      where: the file of the manifest.
      manifest: the content of the manifest.
      config: the settings of the run.
      array: reads an array.
      names: reads the file of the names of K labels.
      expected: the requirements of the manifest.
      memory: as in `runs.stored_run.load`.
      full_check: whether to check all ids of the memory.

    Raises:
      InputError: something is missing or inconsistent.
    """
    try:
        if manifest["format"] != expected.format:
            found = f"format {ascii(manifest['format'])[:40]}"
            raise InputError(str(folder), found, expected.format)
        content = parse_json(expected.kind, manifest, str(where))
        model = make_model(config, content.num_features, content.num_labels)
        model = dataclasses.replace(model, members=content.members)
        predictor = _model_only(folder, content, config, model, array, names)
        if content.calibration is not None:
            calibration = content.calibration if memory else None
            predictor = dataclasses.replace(
                predictor, calibration=calibration, why_uncalibrated=NOT_LOADED
            )
        if memory and content.memory is not None:
            stored = _memory(content.memory, model, array, full_check)
            predictor = dataclasses.replace(predictor, memory=stored)
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        found = f"another content ({error!r:.80})"
        raise InputError(str(where), found, expected.expected) from error
    return predictor


def _model_only(
    folder: Path,
    content: ExportManifest,
    config: ResolvedConfig,
    model: Model,
    array: ReadArray,
    read_names: Callable[[Path, int], Sequence[str]],
) -> Predictor:
    """The model without its memory."""
    run = RunFolder(folder)  # exports have these files under the same names
    weighting = read_weighting(run.fitted_weighting, config.weighting, model.num_features)
    names = read_names(run.names, model.spec.num_labels) if run.names.exists() else None
    texts = None
    if run.vectorizer.exists():
        texts = read_vectorizer(run.vectorizer, model.num_features)
    state = _state(content, model, array)
    return Predictor(model, state, weighting, names, vectorizer=texts)


def _state(content: ExportManifest, model: Model, array: ReadArray) -> TrainState:
    width, num_labels = model.dim * model.members, model.spec.num_labels

    def table(name: str, count: int) -> RowTable:
        if content.rows == "int8":
            return RowTable(_on_device(as_bytes(array("model", name, row_type(width), (count,)))))
        return RowTable(placed(name, count, width))

    def placed(name: str, *shape: int) -> Array:
        return _on_device(array("model", name, np.float32, shape))

    multipliers = np.asarray(content.log_multipliers, np.float32)
    if multipliers.shape != (model.members,):
        raise ValueError(f"{multipliers.shape} multipliers")

    def layer(_: Any) -> Array:  # a tower has one layer, without a bias
        shape = (model.members, model.dim, model.dim)
        return _on_device(_squeeze_members(array("model", "tower", np.float32, shape)))

    like = jax.eval_shape(
        lambda: init_tower(model.dim, model.encoder, "float32", jax.random.key(0))[1]
    )
    head = Head(
        table("class_rows", num_labels),
        placed("bias", num_labels) if model.spec.bias else None,
        _on_device(_squeeze_members(multipliers)),
    )
    features = table("feature_rows", model.num_features)
    return TrainState(features, jax.tree.map(layer, like), None, head)


def _squeeze_members(array: NDArray) -> NDArray:
    """Removes the axis of members if there is one member, as `inference.join_members` does."""
    return array[0] if len(array) == 1 else array


def _on_device(array: NDArray) -> Array:
    """Puts an array on the device; on a CPU the mapped file is used without a copy."""
    return jax.device_put(array, may_alias=True)


def _memory(content: StoredMemory, model: Model, array: ReadArray, full_check: bool) -> Memory:
    points, d, num_labels = content.points, model.num_features, model.spec.num_labels

    def read(name: str, dtype: DTypeLike | None, *shape: int) -> NDArray:
        return array("memory", name, dtype, shape)

    def csr(name: str, rows: int, columns: int, *, ones: bool = False) -> csr_matrix:
        ids = read(f"{name}_indices", np.int32, -1)
        data = np.ones(len(ids), np.float32) if ones else read(f"{name}_data", np.float32, len(ids))
        starts = read(f"{name}_indptr", None, rows + 1)
        matrix = csr_matrix((data, ids, starts), shape=(rows, columns))
        if full_check:
            matrix.check_format(full_check=True)
        return matrix

    names, settings = content.arrays, dataclasses.fields(MemorySettings)
    width = model.dim * model.members
    return Memory(
        csr("features", points, d),
        csr("labels", points, num_labels, ones=True),
        read("queries", np.float16, points, width) if "queries" in names else None,
        read("rows", np.int64, points),
        MemorySettings(**{field.name: getattr(content, field.name) for field in settings}),
        read("weights", np.float32, points) if "weights" in names else None,
        csr("by_feature", d, points) if "by_feature_data" in names else None,
    )

"""Approximate k-NN search over class rows with an HNSW graph of faiss or hnswlib.

A score is an inner product plus the label's bias, so the bias becomes an additional column of the
rows: bias / c, where every query has c. The scores are the same for any c, but the graph is not. It
links rows by their inner products with each other. Without scaling, a bias of 4 would dominate a
row of length 1, while queries are ten times as long as rows. So c is half the length of a query
(`bias_scale`). Rows then differ in length only by their biases. A column that makes all rows
equally long (Bachrach et al., 2014) is not added, since fewer labels were found with it
(`experiments/answers/index_columns.py`).

References:
  Malkov and Yashunin, Efficient and robust approximate nearest neighbor search using HNSW graphs,
  IEEE TPAMI 42(4), 2020.
  Morozov and Babenko, Non-metric similarity graphs for maximum inner product search, NeurIPS 2018.
  Bachrach et al., Speeding up the Xbox recommender system, RecSys 2014, section 3.
"""

from __future__ import annotations

import dataclasses
import errno
import threading
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snm.errors import InputError
from snm.export.arrays import FORMAT, class_rows_sha256
from snm.export.index_libraries import LIBRARIES, GraphSettings, IndexLibrary
from snm.export.manifest import read_manifest
from snm.prediction.predictor import Predictor
from snm.tables.rounding import as_float

__all__ = ["ARRAYS", "QUERY", "GraphIndex", "bias_scale", "build_index", "with_index"]

QUERY = "multiplier * q of each member, side by side, then bias_scale"
"""The description of a query in a manifest; the rows are class_rows, bias / bias_scale."""

ARRAYS = (
    "those of the formulas, such as feature_rows, tower and multipliers, are not here: "
    "`snm export --to npz` (or safetensors, hub) of the same run has them"
)
"""Where a manifest says that the arrays are from which a program computes queries."""


def bias_scale(predictor: Predictor) -> float:
    """The value of a query in the column of biases: half of the query's length.

    The part of each member in a query is its multiplier times a unit vector.
    """
    multipliers = np.exp(np.atleast_1d(np.asarray(predictor.state.head.log_scale, np.float64)))
    return float(np.linalg.norm(multipliers)) / 2


def _augmented_rows(predictor: Predictor) -> NDArray[np.float32]:
    """Class rows with a column for the bias: [K, members * dim + 1]."""
    head = predictor.state.head
    rows = np.asarray(as_float(head.table.rows), np.float32)
    bias = np.zeros(len(rows), np.float32) if head.bias is None else np.asarray(head.bias)
    return np.concatenate([rows, bias[:, None] / bias_scale(predictor)], axis=1, dtype=np.float32)


def build_index(
    predictor: Predictor, library: IndexLibrary, settings: GraphSettings, folder: Path
) -> str:
    """Builds an index over the class rows of a model and writes it; returns the file name.

    Raises:
      InputError: the library is not installed, or a setting is out of range.
      OSError: the file cannot be written.
    """
    settings.check()
    index = library.build(_augmented_rows(predictor), settings)
    try:
        library.save(index, folder / library.file)
    except RuntimeError as error:
        message = f"{library.name} could not write all of {library.file}"
        raise OSError(errno.ENOSPC, message) from error
    return library.file


@dataclasses.dataclass(frozen=True, eq=False)
class GraphIndex:
    """A `LabelIndex`: a graph over the class rows of a model.

    Attributes:
      library: one of `LIBRARIES`.
      graph: the library's index object.
      search_effort: candidates per search (efSearch); at least k are used.
      bias_scale: the value of `bias_scale` for the model.
      lock: held during a search, because the search effort is a state of the graph.
    """

    library: IndexLibrary
    graph: Any
    search_effort: int
    bias_scale: float
    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock, repr=False)

    def search(self, queries: NDArray[np.float32], k: int) -> NDArray[np.int32]:
        """As `LabelIndex.search`."""
        column = np.full((len(queries), 1), self.bias_scale, np.float32)
        augmented = np.concatenate([queries, column], axis=1)
        effort = max(self.search_effort, k)
        with self.lock:
            return self.library.search(self.graph, augmented, k, effort).astype(np.int32)


def with_index(predictor: Predictor, folder: Path) -> Predictor:
    """The predictor with an index that `snm export` wrote.

    Raises:
      InputError: the folder does not exist, has another format, is damaged, or belongs to another
        model.
    """
    file = folder / "manifest.json"
    manifest = read_manifest(folder, next(iter(LIBRARIES)))
    try:
        entries = manifest["index"]
        library, effort = LIBRARIES.get(entries["library"]), int(entries["search_effort"])
        name, is_known = entries["file"], manifest["format"] == FORMAT
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(str(file), "no index", "one that `snm export` wrote") from error
    if not is_known or library is None or name != library.file:
        raise InputError(str(file), "another format", "one that `snm export` wrote")
    if entries.get("query") != QUERY:
        raise InputError(str(file), "other columns", "an index that this version exported")
    if manifest["class_rows_sha256"] != class_rows_sha256(predictor):
        raise InputError(str(folder), "the index of another model", "one of this run")
    path, width = folder / library.file, predictor.state.head.table.rows.shape[1] + 1
    try:
        graph = library.open(path, width)
    except RuntimeError as error:
        raise InputError(str(path), "a damaged index", "one that `snm export` wrote") from error
    index = GraphIndex(library, graph, effort, bias_scale(predictor))
    return dataclasses.replace(predictor, index=index)

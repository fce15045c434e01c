"""Approximate k-NN search over class rows with an HNSW graph of faiss or hnswlib.

A score is an inner product plus the label's bias, so the bias becomes an additional column of the
rows, where queries have a one. An HNSW graph over rows of different lengths rarely finds the short
ones. So another column makes all rows equally long; queries have a zero there, and the scores do
not change (Bachrach et al., 2014).

References:
  Malkov and Yashunin, Efficient and robust approximate nearest neighbor search using HNSW graphs,
  IEEE TPAMI 42(4), 2020.
  Bachrach et al., Speeding up the Xbox recommender system, RecSys 2014, section 3.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.errors import InputError
from snm.evaluation.filters import kept_first, most_filtered, pairs_of
from snm.export.arrays import FORMAT, fingerprint
from snm.model.model import Model
from snm.model.predictor import Predictor, stacked
from snm.tables.rounding import as_float

__all__ = ["LIBRARIES", "IndexedPredictor", "Settings", "build_index"]

LIBRARIES = ("faiss", "hnswlib")
_FILES = {"faiss": "index.faiss", "hnswlib": "index.hnswlib"}
_SEED = 0


@dataclasses.dataclass(frozen=True)
class Settings:
    """The parameters of an HNSW graph.

    Attributes:
      links: links per label, M.
      build_effort: candidates during construction, efConstruction.
      search_effort: candidates during a search, efSearch.
    """

    links: int
    build_effort: int
    search_effort: int

    def check(self) -> None:
        """Checks the ranges of the parameters.

        Raises:
          InputError: a parameter is out of range.
        """
        for field in dataclasses.fields(self):
            low = 2 if field.name == "links" else 1
            if getattr(self, field.name) < low:
                flag = "--" + field.name.replace("_", "-")
                raise InputError(flag, str(getattr(self, field.name)), f"{low} or more")


def _library(name: str) -> Any:
    try:
        if name == "faiss":
            import faiss

            return faiss
        import hnswlib

        return hnswlib
    except ImportError as error:
        raise InputError(f"--to {name}", f"no {name}", "pip install 'snm[export]'") from error


_MORE = 2  # columns in addition to those of a class row


def _augmented_rows(predictor: Predictor) -> NDArray[np.float32]:
    """Class rows with a column for the bias and one for equal lengths: [K, members * dim + 2]."""
    head = predictor.state.head
    rows = np.asarray(as_float(head.table.rows), np.float32)
    bias = np.zeros(len(rows), np.float32) if head.bias is None else np.asarray(head.bias)
    squares = (rows.astype(np.float64) ** 2).sum(axis=1) + bias.astype(np.float64) ** 2
    rest = np.sqrt(squares.max() - squares)
    return np.concatenate([rows, bias[:, None], rest[:, None]], axis=1, dtype=np.float32)


def build_index(predictor: Predictor, library: str, settings: Settings, folder: Path) -> str:
    """Builds an index over the class rows of a model and writes it; returns the file name.

    Raises:
      InputError: the library is not installed, or a setting is out of range.
    """
    settings.check()
    module = _library(library)
    rows = _augmented_rows(predictor)
    name = _FILES[library]
    if library == "faiss":
        index = module.IndexHNSWFlat(rows.shape[1], settings.links, module.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = settings.build_effort
        index.add(rows)
        module.write_index(index, str(folder / name))
    else:
        index = module.Index(space="ip", dim=rows.shape[1])
        index.init_index(len(rows), M=settings.links, ef_construction=settings.build_effort,
                         random_seed=_SEED)  # fmt: skip
        index.add_items(rows, np.arange(len(rows)))
        index.save_index(str(folder / name))
    return name


@dataclasses.dataclass(frozen=True, eq=False)
class IndexedPredictor:
    """A predictor that searches an index instead of all labels.

    Attributes:
      predictor: the exact predictor, which computes the queries.
      library: `faiss` or `hnswlib`.
      index: the library's index object.
      search_effort: candidates per search (efSearch); at least k are used.
    """

    predictor: Predictor
    library: str
    index: Any
    search_effort: int

    @classmethod
    def open(cls, folder: Path, predictor: Predictor) -> IndexedPredictor:
        """Opens an index that `snm export` wrote.

        Raises:
          InputError: the folder does not exist, has another format, or belongs to another model.
        """
        file = folder / "manifest.json"
        try:
            manifest = json.loads(file.read_text(encoding="utf-8"))
            index = manifest["index"]
            library, name, effort = index["library"], index["file"], int(index["search_effort"])
            known = manifest["format"] == FORMAT and library in LIBRARIES
        except OSError as error:
            reason = (error.strerror or "").lower()
            raise InputError(str(file), reason, "the folder of `snm export --to faiss`") from error
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(str(file), "no index", "one that `snm export` wrote") from error
        if not known or name != _FILES[library]:
            raise InputError(str(file), "another format", "one that `snm export` wrote")
        if manifest["class_rows_sha256"] != fingerprint(predictor):
            raise InputError(str(folder), "the index of another model", "one of this run")
        module = _library(library)
        path = str(folder / name)
        try:
            if library == "faiss":
                opened = module.read_index(path)
            else:
                opened = module.Index(
                    space="ip", dim=predictor.state.head.table.rows.shape[1] + _MORE
                )
                opened.load_index(path)
        except RuntimeError as error:
            raise InputError(path, "a damaged index", "one that `snm export` wrote") from error
        return cls(predictor, library, opened, effort)

    @property
    def model(self) -> Model:
        """As in the exact predictor."""
        return self.predictor.model

    @property
    def label_names(self) -> tuple[str, ...] | None:
        """As in the exact predictor."""
        return self.predictor.label_names

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray, NDArray]:
        """The top k labels that the index finds.

        Args:
          queries: float32 [n, members * dim], from `Predictor.queries`.
          k: the number of labels.

        Returns:
          int32 [n, k] labels, padded with -1, and float32 [n, k] scores.
        """
        more = np.tile(np.array([1, 0], np.float32), (len(queries), 1))
        augmented = np.concatenate([queries, more], axis=1)
        effort = max(self.search_effort, k)
        if self.library == "faiss":
            self.index.hnsw.efSearch = effort
            scores, labels = self.index.search(augmented, k)
            return labels.astype(np.int32), scores
        self.index.set_ef(effort)
        labels, distances = self.index.knn_query(augmented, k)
        return labels.astype(np.int32), 1 - distances

    def top(self, features: csr_matrix | Sequence[str], k: int) -> Iterator[tuple]:
        """As `Predictor.top`, but approximate.

        Raises:
          InputError: as `Predictor.top`.
        """
        if not 1 <= k <= self.model.head.num_labels:
            raise InputError("k", str(k), f"1 to {self.model.head.num_labels} labels")
        if not self.model.drop_seen:
            for queries in self.predictor.queries(features):
                yield self.search(queries, k)
            return
        rows, first = self.predictor.as_rows(features), 0
        for queries in self.predictor.queries(rows):
            yield self._unseen(queries, rows[first : first + len(queries)], k)
            first += len(queries)

    def _unseen(self, queries: NDArray[np.float32], rows: csr_matrix, k: int) -> tuple:
        """The top k labels that the index finds and that are not features of the point itself."""
        seen, num_labels = pairs_of(rows), self.model.head.num_labels
        labels, scores = self.search(queries, min(k + most_filtered(seen), num_labels))
        labels, places = kept_first(labels, seen, num_labels, k)
        return labels, np.take_along_axis(scores, places, axis=1)

    def predict(self, features: csr_matrix | Sequence[str], k: int = 5) -> tuple[NDArray, NDArray]:
        """As `Predictor.predict`, but approximate."""
        return stacked(self.top(features, k), k)

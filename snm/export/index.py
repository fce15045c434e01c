"""Approximate k-NN search over class rows with an HNSW graph of faiss or hnswlib.

A score is an inner product plus the label's bias, so the bias becomes an additional column of the
rows: bias / c, where every query has c. The scores are the same for any c, but the graph is not: it
links rows by their own inner products, where a bias of 4 beside a row of length 1 decides alone,
while a query is ten times as long as its row. So c is half the length of a query
(`bias_scale`). Rows then differ in length by their biases alone. A column that made all of them
equally long (Bachrach et al., 2014) is left out, as fewer labels were found with it
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
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.data.weighting import Weighting
from snm.errors import InputError
from snm.evaluation.filters import kept_first, most_filtered, pairs_of
from snm.export.arrays import FORMAT, class_rows_sha256
from snm.export.index_libraries import LIBRARIES, GraphSettings, IndexLibrary
from snm.export.manifest import read_manifest
from snm.model.model import Model
from snm.prediction.calibration import Calibration
from snm.prediction.point_blocks import stacked
from snm.prediction.predictor import Predictor
from snm.tables.rounding import as_float

__all__ = ["QUERY", "IndexedPredictor", "bias_scale", "build_index"]

QUERY = "multiplier * q of each member, side by side, then bias_scale"
"""What a query of an index is, as its manifest says; the rows are class_rows, bias / bias_scale."""


def _class_rows(predictor: Predictor) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Class rows [K, members * dim] and biases [K], on the host."""
    head = predictor.state.head
    rows = np.asarray(as_float(head.table.rows), np.float32)
    return rows, np.zeros(len(rows), np.float32) if head.bias is None else np.asarray(head.bias)


def bias_scale(predictor: Predictor) -> float:
    """What a query has in the column of the biases: half of its length.

    A member's part of a query is its multiplier times a vector of length 1.
    """
    multipliers = np.exp(np.atleast_1d(np.asarray(predictor.state.head.log_scale, np.float64)))
    return float(np.linalg.norm(multipliers)) / 2


def _augmented_rows(predictor: Predictor) -> NDArray[np.float32]:
    """Class rows with a column for the bias: [K, members * dim + 1]."""
    rows, bias = _class_rows(predictor)
    return np.concatenate([rows, bias[:, None] / bias_scale(predictor)], axis=1, dtype=np.float32)


def build_index(
    predictor: Predictor, library: IndexLibrary, settings: GraphSettings, folder: Path
) -> str:
    """Builds an index over the class rows of a model and writes it; returns the file name.

    Raises:
      InputError: the library is not installed, or a setting is out of range.
      OSError: the disk refuses.
    """
    settings.check()
    index = library.build(_augmented_rows(predictor), settings)
    try:
        library.save(index, folder / library.file)
    except RuntimeError as error:
        said = f"{library.name} could not write all of {library.file}"
        raise OSError(errno.ENOSPC, said) from error
    return library.file


@dataclasses.dataclass(frozen=True, eq=False)
class IndexedPredictor:
    """A predictor that searches an index instead of all labels.

    Attributes:
      predictor: the exact predictor, which computes the queries.
      library: one of `LIBRARIES`.
      index: the library's index object.
      search_effort: candidates per search (efSearch); at least k are used.
    """

    predictor: Predictor
    library: IndexLibrary
    index: Any
    search_effort: int

    @classmethod
    def open(cls, folder: Path, predictor: Predictor) -> IndexedPredictor:
        """Opens an index that `snm export` wrote.

        Raises:
          InputError: the folder does not exist, has another format, is damaged, or belongs to
            another model.
        """
        file = folder / "manifest.json"
        manifest = read_manifest(folder, next(iter(LIBRARIES)))
        try:
            index = manifest["index"]
            library, effort = LIBRARIES.get(index["library"]), int(index["search_effort"])
            name, known = index["file"], manifest["format"] == FORMAT
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(str(file), "no index", "one that `snm export` wrote") from error
        if not known or library is None or name != library.file:
            raise InputError(str(file), "another format", "one that `snm export` wrote")
        if index.get("query") != QUERY:
            raise InputError(str(file), "other columns", "an index that this version exported")
        if manifest["class_rows_sha256"] != class_rows_sha256(predictor):
            raise InputError(str(folder), "the index of another model", "one of this run")
        path, width = folder / library.file, predictor.state.head.table.rows.shape[1] + 1
        try:
            opened = library.open(path, width)
        except RuntimeError as error:
            raise InputError(str(path), "a damaged index", "one that `snm export` wrote") from error
        return cls(predictor, library, opened, effort)

    @property
    def model(self) -> Model:
        """As in the exact predictor."""
        return self.predictor.model

    @property
    def weighting(self) -> Weighting:
        """As in the exact predictor."""
        return self.predictor.weighting

    def blank(self, rows: csr_matrix) -> NDArray[np.bool_]:
        """As in the exact predictor."""
        return self.predictor.blank(rows)

    @property
    def calibration(self) -> Calibration | None:
        """As in the exact predictor."""
        return self.predictor.calibration

    def probabilities(
        self, scores: NDArray[np.floating], *, ranked: bool = True
    ) -> NDArray[np.float32]:
        """As in the exact predictor."""
        return self.predictor.probabilities(scores, ranked=ranked)

    @property
    def label_names(self) -> Sequence[str] | None:
        """As in the exact predictor."""
        return self.predictor.label_names

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray, NDArray]:
        """The top k labels that the index finds.

        Args:
          queries: float32 [n, members * dim], from `Predictor.queries`.
          k: the number of labels.

        Returns:
          int32 [n, k] labels, padded with -1, and float32 [n, k] scores, -inf there.
        """
        column = np.full((len(queries), 1), self._bias_scale, np.float32)
        augmented = np.concatenate([queries, column], axis=1)
        effort = max(self.search_effort, k)
        labels, scores = self.library.search(self.index, augmented, k, effort)
        return labels.astype(np.int32), np.where(labels < 0, np.float32(-np.inf), scores)

    def top(
        self,
        features: csr_matrix | Sequence[str],
        k: int | None = None,
        labels: Any = None,
    ) -> Iterator[tuple]:
        """As `Predictor.top`, but approximate; the votes of a memory are added exactly.

        Among `labels` it is exact: an index finds the best of all labels only.

        Raises:
          InputError: as `Predictor.top`.
        """
        if labels is not None:
            yield from self.predictor.top(features, k, labels)
            return
        k = self.predictor.checked_k(k)
        rows, first = self.predictor.as_rows(features), 0
        for queries in self.predictor.queries(rows):
            block = rows[first : first + len(queries)]
            if self.model.drop_seen:
                labels, scores = self._unseen(queries, block, k)
            else:
                labels, scores = self.search(queries, k)
            if self.predictor.memory is not None:
                weighted = self.predictor.weighting.apply(block, first_row=first)
                added = self.predictor.memory.additions(weighted, queries)
                labels, scores = self._with_votes(labels, scores, queries, added, block)
            yield labels, scores
            first += len(queries)

    def _unseen(self, queries: NDArray[np.float32], rows: csr_matrix, k: int) -> tuple:
        """The top k labels that the index finds and that are not features of the point itself."""
        seen, num_labels = pairs_of(rows), self.model.spec.num_labels
        labels, scores = self.search(queries, min(k + most_filtered(seen), num_labels))
        labels, places = kept_first(labels, seen, num_labels, k)
        return labels, np.take_along_axis(scores, places, axis=1)

    def _with_votes(
        self,
        labels: NDArray[np.int32],
        scores: NDArray[np.float32],
        queries: NDArray[np.float32],
        added: csr_matrix,
        rows: csr_matrix,
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The top k with votes; they are among the top k without, and the labels voted for.

        Args:
          labels: int32 [n, k], the top k by score that the index finds, padded with -1.
          scores: float32 [n, k].
          queries: float32 [n, members * dim].
          added: float32 CSR [n, K], above 0: what the memory adds.
          rows: CSR [n, d], the features of the points.
        """
        class_rows, bias = self._rows
        found, of_found = np.full_like(labels, -1), np.full_like(scores, -np.inf)
        for row, query in enumerate(queries):
            entries = slice(*added.indptr[row : row + 2])
            voted, votes = added.indices[entries], added.data[entries]
            if self.model.drop_seen:
                unseen = ~np.isin(voted, rows[row].indices)
                voted, votes = voted[unseen], votes[unseen]
            left = (labels[row] >= 0) & ~np.isin(labels[row], voted)
            every = np.concatenate([labels[row, left], voted])
            totals = np.concatenate(
                [scores[row, left], class_rows[voted] @ query + bias[voted] + votes]
            )
            best = np.lexsort((every, -totals))[: labels.shape[1]]
            found[row, : len(best)], of_found[row, : len(best)] = every[best], totals[best]
        return found, of_found

    @functools.cached_property
    def _bias_scale(self) -> float:
        return bias_scale(self.predictor)

    @functools.cached_property
    def _rows(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        return _class_rows(self.predictor)

    def predict(
        self,
        features: csr_matrix | Sequence[str],
        k: int | None = None,
        labels: Any = None,
    ) -> tuple[NDArray, NDArray]:
        """As `Predictor.predict`, but approximate, unless among `labels`."""
        if labels is not None:
            return self.predictor.predict(features, k, labels)
        rows = self.predictor.as_rows(features)
        k = self.predictor.checked_k(k)
        return stacked(self.top(rows, k), k)

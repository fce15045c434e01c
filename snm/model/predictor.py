"""Prediction: a trained model, raw features -> the best labels."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csr_matrix

from snm.batches.csr_blocks import block_of
from snm.batches.device_parts import local_data_parts, spread_points
from snm.data.vectorizer import Vectorizer
from snm.data.weighting import Weighting
from snm.distributed.mesh import DATA, on_mesh, table_axes
from snm.distributed.processes import everywhere
from snm.errors import InputError
from snm.memory.memory import Memory, Witness
from snm.model.inference import best_labels, labels_in_order, scaled_queries
from snm.model.model import Model, TrainState
from snm.model.placement import state_specs
from snm.tables.table import SparseRows
from snm.topk.blocks import Added, Best, Masked
from snm.topk.search import MASKED

__all__ = ["ROWS", "Predictor", "compiled_top", "stacked"]

_K = 5  # labels of an answer, where none are asked for
ROWS = 512
"""Points scored together; a block of their scores fits into the cache."""


_LABELS_OF_POINT = 1024  # of a point's neighbours, in the smallest compiled shape


@functools.lru_cache(maxsize=8)
def compiled_top(model: Model, count: int, mesh: Mesh | None) -> jax.stages.Wrapped:
    """The compiled search for the best labels of a block of points, on one device or a mesh.

    It takes the state, the block, and what is added to the scores, if anything is.
    """

    def best(
        state: TrainState, block: SparseRows, added: Added | None = None, **axes: str | None
    ) -> Best:
        return best_labels(model, state, block, count, added=added, **axes)

    return jax.jit(best) if mesh is None else _on_points(mesh, best, **table_axes(mesh))


@functools.lru_cache(maxsize=8)
def _compiled_queries(model: Model, mesh: Mesh | None) -> jax.stages.Wrapped:
    queries = functools.partial(scaled_queries, model)
    if mesh is None:
        return jax.jit(queries)
    return _on_points(mesh, queries, feature_axis=table_axes(mesh)["feature_axis"])


def _on_points(mesh: Mesh, run: Callable[..., Any], **axes: str) -> jax.stages.Wrapped:
    """`run` of a state and arrays of points on a mesh; its results are gathered on all devices."""
    cut = mesh.shape[DATA] > 1

    def of_part(state: TrainState, *points: Any) -> Any:
        if not cut:
            return run(state, *points, **axes)
        found = run(state, *jax.tree.map(lambda x: x[0], points), data_axis=DATA, **axes)
        return jax.tree.map(lambda x: jax.lax.all_gather(x, DATA, tiled=True), found)

    def on_all(state: TrainState, *points: Any) -> Any:
        spec = PartitionSpec(DATA) if cut else PartitionSpec()
        inputs = (state_specs(state, mesh), *jax.tree.map(lambda _: spec, points))
        return on_mesh(mesh, of_part, inputs, PartitionSpec())(state, *points)

    return jax.jit(on_all)


@functools.lru_cache(maxsize=8)
def _compiled_order(model: Model, mesh: Mesh | None) -> jax.stages.Wrapped:
    order = functools.partial(labels_in_order, model)
    if mesh is None:
        return jax.jit(order)
    order = functools.partial(order, **table_axes(mesh))

    def on_all(state: TrainState, *points: Any) -> jax.Array:
        whole = jax.tree.map(lambda _: PartitionSpec(), points)
        inputs = (state_specs(state, mesh), *whole)
        return on_mesh(mesh, order, inputs, PartitionSpec())(state, *points)

    return jax.jit(on_all)


def stacked(blocks: Iterable[tuple[NDArray, NDArray]], k: int) -> tuple[NDArray, NDArray]:
    """Concatenates blocks: int32 [n, k] labels and float32 [n, k] scores; n may be 0."""
    found = list(blocks)
    if not found:
        return np.zeros((0, k), np.int32), np.zeros((0, k), np.float32)
    labels, scores = zip(*found, strict=True)
    return np.concatenate(labels), np.concatenate(scores)


@dataclasses.dataclass(frozen=True, eq=False)
class Predictor:
    """A trained model, and all that prediction needs beside it.

    Attributes:
      model: static description.
      state: parameters.
      weighting: of the features, fitted on the training points.
      label_names: K names, or None.
      mesh: the devices that hold the parameters, or None for one.
      vectorizer: turns texts into features, where the model was trained on texts.
      memory: adds the labels of a point's nearest training points, in one process; or None.
        `queries` and `pairs_in_order` are of the model alone.
      block_rows: points scored together; the last block is padded, so that one program serves all.
      block_entries: the fewest feature entries of a padded block, for the same reason.
    """

    model: Model
    state: TrainState
    weighting: Weighting
    label_names: tuple[str, ...] | None = None
    mesh: Mesh | None = None
    vectorizer: Vectorizer | None = None
    memory: Memory | None = None
    block_rows: int = ROWS
    block_entries: int = 8

    def top(
        self, features: csr_matrix | Sequence[str], k: int | None = None
    ) -> Iterator[tuple[NDArray, NDArray]]:
        """The exact best labels, a block of points at a time; ties go to the lowest label.

        Args:
          features: CSR [n, d], not weighted, as in the data files; or n texts, where the model was
            trained on texts.
          k: how many labels; None is 5, or K where that is less.

        Yields:
          int32 [m, k] labels and float32 [m, k] scores, in the order of the points. A label is -1
          where `Model.drop_seen` leaves a point fewer than k labels.

        Raises:
          InputError: another number of features, k not from 1 to K, or texts for a model that was
            not trained on texts.
        """
        k = self.checked_k(k)
        score = compiled_top(self.model, k, self.mesh)
        rows, first = self.as_rows(features), 0
        for count, block in self._blocks(rows, self.mesh):
            if self.memory is None:
                best = score(self.state, block)
            else:
                added = self._remembered(self.memory, rows, first, count, block)
                best = score(self.state, block, added)
            first += count
            labels, scores = np.asarray(best.slots)[:count], np.asarray(best.scores)[:count]
            if self.model.drop_seen:
                labels = np.where(scores > MASKED / 2, labels, -1)
            yield labels, scores

    def checked_k(self, k: int | None) -> int:
        """How many labels to answer with.

        Raises:
          InputError: not from 1 to K.
        """
        num_labels = self.model.head.num_labels
        if k is None:
            return min(_K, num_labels)
        if not 1 <= k <= num_labels:
            raise InputError("k", str(k), f"1 to {num_labels} labels")
        return k

    def witnesses(
        self, features: csr_matrix | Sequence[str], answers: NDArray[np.int32]
    ) -> list[list[list[Witness]]]:
        """The training points whose labels spoke for the answers; see `Memory.witnesses`.

        Args:
          features: as in `top`.
          answers: int [n, k], the labels that `top` gave.

        Raises:
          InputError: as in `top`; or the model has no memory.
        """
        if self.memory is None:
            found = "a run without a memory of neighbours"
            raise InputError("witnesses", found, "one trained with --memory, where it pays")
        rows = self.as_rows(features)
        told, first = [], 0
        for count, block in self._blocks(rows, self.mesh):
            weighted, queries = self._of_memory(self.memory, rows, first, count, block)
            told += self.memory.witnesses(weighted, queries, answers[first : first + count])
            first += count
        return told

    def _of_memory(
        self, memory: Memory, features: csr_matrix, first: int, count: int, block: SparseRows
    ) -> tuple[csr_matrix, NDArray[np.float32] | None]:
        """Weighted features of a block of points, and their queries if the memory has some."""
        weighted = self.weighting.apply(features[first : first + count], first_row=first)
        if memory.queries is None:
            return weighted, None
        return weighted, self._queries(block, count)

    def _remembered(
        self, memory: Memory, features: csr_matrix, first: int, count: int, block: SparseRows
    ) -> Added:
        """What the memory adds to the scores of a block of points."""
        found = memory.additions(*self._of_memory(memory, features, first, count, block))
        parts = 1 if self.mesh is None else self.mesh.shape[DATA]
        each = -(-self.block_rows // parts)
        edges = found.indptr[np.minimum(np.arange(parts + 1) * each, count)]
        # Padded with slots of no label, so that one program serves most blocks of a size: to a
        # thousand labels a point, of large blocks and where that is too few to a power of four.
        least, most = _LABELS_OF_POINT * min(each, 64), int(np.diff(edges).max())
        size = max(least, 1 << (most.bit_length() + 1) // 2 * 2)
        rows = np.zeros((parts, size), np.int32)
        slots = np.full((parts, size), found.shape[1], np.int32)
        values = np.zeros((parts, size), np.float32)
        of_points = np.repeat(np.arange(count), np.diff(found.indptr)) % each
        for part, (begin, end) in enumerate(itertools.pairwise(edges)):
            rows[part, : end - begin] = of_points[begin:end]
            slots[part, : end - begin] = found.indices[begin:end]
            values[part, : end - begin] = found.data[begin:end]
        arrays = tuple(x if parts > 1 else x[0] for x in (rows, slots, values))
        if self.mesh is None:
            return Added(*map(jnp.asarray, arrays))
        return Added(*spread_points(arrays, parts, self.mesh))

    def _placed(self, points: Any) -> Any:
        """Arrays on every device of the mesh, those of other processes too."""
        return points if self.mesh is None else everywhere(points, self.mesh)

    def pairs_in_order(
        self, features: csr_matrix, labels: csr_matrix, left_out: NDArray
    ) -> Iterator[tuple[int, NDArray]]:
        """For each relevant label, twice the number of irrelevant labels with a lower score.

        Args:
          features: as in `top`.
          labels: CSR [n, K], the relevant ones, canonical.
          left_out: int [f, 2], pairs (row, label) that are neither relevant nor irrelevant.

        Yields:
          The number of points of a block, and the counts of the entries of their rows of `labels`,
          int32 [entries]. A tie counts once.

        Raises:
          InputError: as in `top`.
        """
        order = _compiled_order(self.model, self.mesh)
        num_labels, first = self.model.head.num_labels, 0
        for count, block in self._blocks(features):
            rows = np.full(self.block_rows, -1, np.int64)
            rows[:count] = np.arange(first, first + count)
            relevant = block_of(labels, rows, self.block_entries)
            pairs = left_out[(left_out[:, 0] >= first) & (left_out[:, 0] < first + count)]
            # Padded to a power of two with slots of no label, so that few lengths are compiled.
            size = 1 << len(pairs).bit_length()
            row, slot = np.zeros(size, np.int32), np.full(size, num_labels, np.int32)
            row[: len(pairs)], slot[: len(pairs)] = pairs[:, 0] - first, pairs[:, 1]
            points = (block, relevant, Masked(jnp.asarray(row), jnp.asarray(slot)))
            found = order(self.state, *self._placed(points))
            yield count, np.asarray(found)[: int(relevant.starts[-1])]
            first += count

    def queries(self, features: csr_matrix | Sequence[str]) -> Iterator[NDArray[np.float32]]:
        """Queries, whose inner products with the class rows are the scores without the biases.

        Args:
          features: as in `top`.

        Yields:
          float32 [m, members * dim], a block of points at a time.

        Raises:
          InputError: as in `top`.
        """
        for count, block in self._blocks(features, self.mesh):
            yield self._queries(block, count)

    def _queries(self, block: SparseRows, count: int) -> NDArray[np.float32]:
        return np.asarray(_compiled_queries(self.model, self.mesh)(self.state, block))[:count]

    def as_rows(self, features: csr_matrix | Sequence[str]) -> csr_matrix:
        """Features or texts as CSR [n, d], not weighted.

        Raises:
          InputError: as in `top`.
        """
        if not sparse.issparse(features) and not isinstance(features, np.ndarray):
            features = self._of_texts(features)
        features = csr_matrix(features)
        width = self.model.num_features
        if features.shape[1] != width:
            raise InputError("features", f"{features.shape[1]} columns", f"{width}, as in training")
        return features

    def _blocks(
        self, features: csr_matrix | Sequence[str], mesh: Mesh | None = None
    ) -> Iterator[tuple[int, SparseRows]]:
        """Blocks of weighted points, padded to one size, each with the number of its points.

        On a mesh the points are sharded over `data`; each process makes the parts of its devices.
        """
        features = self.as_rows(features)
        parts = 1 if mesh is None else mesh.shape[DATA]
        each = -(-self.block_rows // parts)
        edges = features.indptr[:: parts * each]
        most = max(int(np.diff(np.append(edges, features.nnz)).max()), self.block_entries)
        for first in range(0, features.shape[0], parts * each):
            last = min(first + parts * each, features.shape[0])
            if parts == 1:
                block = self._block(features, first, last, most)
                yield last - first, block if mesh is None else everywhere(block, mesh)
            else:
                assert mesh is not None
                edges = np.minimum(np.arange(parts + 1) * each + first, last)
                yield last - first, self._sharded(features, edges, each, mesh)

    def _block(
        self, features: csr_matrix, first: int, last: int, entries: int, rows: int | None = None
    ) -> SparseRows:
        """Rows first to last - 1, weighted, and padded to `rows` (by default `block_rows`)."""
        weighted = self.weighting.apply(features[first:last], first_row=first)
        padded = np.full(rows or self.block_rows, -1, np.int64)
        padded[: last - first] = np.arange(last - first)
        return block_of(weighted, padded, entries)

    def _sharded(
        self, features: csr_matrix, edges: NDArray[np.int64], each: int, mesh: Mesh
    ) -> SparseRows:
        """A block whose parts, equally long, begin at `edges`; made for this process's devices."""
        most = max(int(np.diff(features.indptr[edges]).max()), self.block_entries)
        ranges = [(int(edges[part]), int(edges[part + 1])) for part in local_data_parts(mesh)]
        blocks = [self._block(features, *ends, most, each) for ends in ranges]
        parts = jax.tree.map(lambda *leaves: np.stack(leaves), *blocks)
        return spread_points(parts, mesh.shape[DATA], mesh)

    def _of_texts(self, texts: Sequence[str]) -> csr_matrix:
        if isinstance(texts, str):
            raise InputError("texts", "one text", "a list of texts")
        if self.vectorizer is None:
            raise InputError("texts", "a model of features", "one trained on `snm data import`")
        return self.vectorizer.transform(texts)

    def predict(
        self, features: csr_matrix | Sequence[str], k: int | None = None
    ) -> tuple[NDArray, NDArray]:
        """The best labels of all points (or texts): int32 [n, k] labels, float32 [n, k] scores.

        Args:
          features: as in `top`.
          k: how many labels; None is 5, or K where that is less.

        Raises:
          InputError: as in `top`.
        """
        k = self.checked_k(k)
        return stacked(self.top(features, k), k)

"""The best labels of blocks of points: of all labels, or of those to choose from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jax.sharding import Mesh
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csr_matrix

from snm.losses.reductions import MASKED
from snm.memory.memory import Memory
from snm.prediction.candidates import candidates_of, checked_k, only, padded
from snm.prediction.exclusion import Excluded, excluded_of
from snm.prediction.own_candidates import top_of_pairs
from snm.prediction.point_blocks import Blocks, beside_points, one_ahead
from snm.prediction.programs import jitted_queries, jitted_top
from snm.tables.table import SparseRows
from snm.topk.blocks import Best

if TYPE_CHECKING:
    from snm.prediction.predictor import Predictor

__all__ = ["Asked", "best_of", "blocking", "of_memory", "queries_of"]

_FEW = 128  # labels to leave out of all answers, which cost little to find


class Asked(NamedTuple):
    """What is asked for.

    Attributes:
      rows: the points, CSR [n, d], not weighted.
      k: how many labels.
      among: the labels to choose from, int32 [S] of all points or CSR [n, K] of each; None is all.
      excluded: labels that are no answers, or None if there are none.
      to_find: how many labels to find, so that k are left.
    """

    rows: csr_matrix
    k: int
    among: NDArray[np.int32] | csr_matrix | None
    excluded: Excluded | None
    to_find: int

    @classmethod
    def of(
        cls,
        predictor: Predictor,
        features: Any,
        k: int | None,
        labels: Any,
        exclude: Any,
        *,
        ranked: bool = False,
    ) -> Asked:
        """What a caller asks for, checked.

        Args:
          predictor: the model.
          features: as in `Predictor.top`.
          k: as in `Predictor.top`.
          labels: as in `Predictor.top`.
          exclude: as in `Predictor.top`.
          ranked: whether the ranks among all labels matter, as for probabilities.

        Raises:
          InputError: as in `Predictor.top`.
        """
        rows, num_labels = predictor.as_rows(features), predictor.model.spec.num_labels
        ids_of, among = predictor.ids_of, None
        if labels is not None:
            among = candidates_of(labels, rows.shape[0], num_labels, ids_of=ids_of)
        k = checked_k(k, among, num_labels)
        excluded = excluded_of(exclude, rows.shape[0], num_labels, ids_of)
        if excluded is None:
            return cls(rows, k, among, None, k)
        of_all = among is None and predictor.index is None and not ranked
        if of_all and (gone := excluded.shared) is not None and _FEW < len(gone) < num_labels:
            # To find so many takes longer than to choose among the others.
            others = np.delete(np.arange(num_labels, dtype=np.int32), gone)
            return cls(rows, k, others, None, k)
        return cls(rows, k, among, excluded, excluded.to_find(k, num_labels))


def best_of(predictor: Predictor, asked: Asked) -> Iterator[tuple[NDArray, NDArray]]:
    """The best labels, a block of points at a time, with those that are to be left out.

    Args:
      predictor: the model.
      asked: what is asked for.

    Yields:
      int32 [m, to_find] labels, -1 where there are fewer, and float32 [m, to_find] scores.
    """
    model, memory, mesh = predictor.model, predictor.memory, predictor.mesh
    rows, k, among = asked.rows, asked.to_find, asked.among
    blocks = blocking(predictor, mesh, rows.shape[0])
    if sparse.issparse(among) or (among is None and predictor.index is not None):
        yield from top_of_pairs(predictor, rows, among, k, blocks.rows)
        return
    ids = None if among is None else padded(among, model.spec.num_labels)
    score = jitted_top(model, k if ids is None else min(k, len(ids)), mesh)
    placed = None if ids is None else beside_points(ids, mesh)

    def begun() -> Iterator[tuple[int, Best]]:
        """Blocks of points, each with the number of its points; they may not be done yet."""
        first = room = 0
        for count, block in blocks.of(rows):
            added, queries = None, []
            if mesh is None:  # a program of its own, which other methods call too
                queries = [jitted_queries(model, None)(predictor.state, block)]
            if memory is not None:
                votes = memory.additions(
                    *of_memory(predictor, memory, rows, first, count, block, *queries)
                )
                votes = votes if among is None else only(votes, among)
                added = blocks.added(votes, room)
                room = added.rows.shape[-1]
            yield count, score(predictor.state, block, *queries, added, placed)
            first += count

    for count, best in one_ahead(begun()):
        found, scores = np.asarray(best.slots)[:count], np.asarray(best.scores)[:count]
        if among is not None and found.shape[1] < k:
            more = ((0, 0), (0, k - found.shape[1]))
            found = np.pad(found, more)
            scores = np.pad(scores, more, constant_values=MASKED)
        if model.drop_seen or among is not None:
            found = np.where(scores > MASKED / 2, found, -1)
        yield found, scores


def blocking(predictor: Predictor, mesh: Mesh | None, num_points: int | None = None) -> Blocks:
    """The sizes of the predictor's blocks: the largest, or those for a number of points."""
    blocks = Blocks(predictor.weighting, predictor.block_rows, predictor.block_entries, mesh)
    return blocks if num_points is None else blocks.for_points(num_points)


def of_memory(
    predictor: Predictor,
    memory: Memory,
    features: csr_matrix,
    first: int,
    count: int,
    block: SparseRows,
    queries: Any = None,
) -> tuple[csr_matrix, Any]:
    """What a memory is asked with: weighted features, and queries if it has some.

    Args:
      predictor: the model.
      memory: its memory.
      features: of all points, CSR [n, d], not weighted.
      first: the first point of the block.
      count: the number of its points.
      block: the block.
      queries: of the block, done or not, where they are made already.
    """
    weighted = predictor.weighting.apply(features[first : first + count], first_row=first)
    if memory.queries is None:
        return weighted, None
    return weighted, queries_of(predictor, block, count) if queries is None else queries


def queries_of(predictor: Predictor, block: SparseRows, count: int) -> NDArray[np.float32]:
    """Queries of the first `count` points of a block, float32 [count, members * dim]."""
    found = jitted_queries(predictor.model, predictor.mesh)(predictor.state, block)
    return np.asarray(found)[:count]

"""The best labels of points of which each has its own to choose from: pairs, scored one by one.

A caller names them, or an index finds them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.losses.reductions import MASKED
from snm.prediction.candidates import best_of_pairs, values_at
from snm.prediction.programs import scores_of_pairs

if TYPE_CHECKING:
    from snm.prediction.predictor import Predictor

__all__ = ["LabelIndex", "top_of_pairs"]

_VOTED = 128  # labels of a point that neighbours vote for; there may be more


class LabelIndex(Protocol):
    """What finds labels of high scores without scoring all; it may miss some."""

    def search(self, queries: NDArray[np.float32], k: int) -> NDArray[np.int32]:
        """Labels whose scores by the model alone are probably the k highest.

        Args:
          queries: float32 [n, members * dim], from `Predictor.queries`.
          k: the number of labels, up to K.

        Returns:
          int32 [n, k], best first, padded with -1.
        """


def top_of_pairs(
    predictor: Predictor, rows: csr_matrix, among: csr_matrix | None, k: int, block_rows: int
) -> Iterator[tuple[NDArray[np.int32], NDArray[np.float32]]]:
    """`Predictor.top` of n points, a block at a time.

    Args:
      predictor: the model, perhaps with a memory.
      rows: CSR [n, d], not weighted.
      among: CSR [n, K], whose non-zero entries are each point's labels to choose from; None are
        those that the predictor's index finds and its memory votes for.
      k: how many labels.
      block_rows: the most points of a block.

    Yields:
      int32 [m, k] labels and float32 [m, k] scores, best first; -1 where a point has fewer.
    """
    model, memory, first = predictor.model, predictor.memory, 0
    each = 0  # pairs of a point: one program serves most blocks, though they have other numbers
    if among is None:
        each = k if memory is None else k + _VOTED
    for queries in predictor.queries(rows):
        here = slice(first, first + len(queries))
        own, added = rows[here], None
        if memory is not None:
            weighted = predictor.weighting.apply(own, first_row=first)
            added = memory.additions(weighted, queries)
        mask = _found(predictor, queries, own, added, k) if among is None else among[here]
        if model.drop_seen:
            seen = own.copy()
            seen.data = np.ones_like(seen.data)
            mask.data = np.where(values_at(seen, mask) > 0, 0, 1)
            mask.eliminate_zeros()
        of_model = model, predictor.state, predictor.mesh
        scores = scores_of_pairs(*of_model, queries, mask, block_rows, each * len(queries))
        if added is not None:
            scores = scores + values_at(added, mask)
        yield best_of_pairs(mask, scores, k, MASKED)
        first = here.stop


def _found(
    predictor: Predictor,
    queries: NDArray[np.float32],
    rows: csr_matrix,
    added: csr_matrix | None,
    k: int,
) -> csr_matrix:
    """The labels of m points that an index finds, and those with votes: CSR [m, K] of them.

    The top k with votes are among the top k without and the labels voted for. Where labels that are
    features of the point are dropped, the index finds as many more, of which the first k are left.
    """
    assert predictor.index is not None
    model = predictor.model
    num_labels = model.spec.num_labels
    dropped = int(np.diff(rows.indptr).max()) if model.drop_seen else 0
    labels = predictor.index.search(queries, min(k + dropped, num_labels))
    found = labels >= 0
    if dropped:
        starts = num_labels * np.arange(len(labels), dtype=np.int64)
        seen = np.repeat(starts, np.diff(rows.indptr)) + rows.indices
        found &= ~np.isin(starts[:, None] + labels, seen)
        found &= np.cumsum(found, axis=1) <= k
    starts = np.concatenate([[0], np.cumsum(found.sum(axis=1))])
    ones = np.ones(starts[-1], np.float32)
    mask = csr_matrix((ones, labels[found], starts), (len(labels), num_labels))
    return mask if added is None else mask + added

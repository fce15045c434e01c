"""The top-k labels if each point has its own candidates: (point, label) pairs are scored.

The candidates are passed by the caller, or found by an index.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.data.csr import csr_of_ones, row_starts, top_k_of_pairs, with_ones
from snm.losses.reductions import MASKED
from snm.prediction.candidates.columns import gather_values
from snm.prediction.candidates.excluded import Excluded
from snm.prediction.fitted_model import FittedModel
from snm.prediction.programs import score_pairs

__all__ = ["top_of_candidates"]

_VOTED_LABELS = 128  # estimate of the labels per point that neighbours vote for


def top_of_candidates(
    fitted: FittedModel, rows: csr_matrix, among: csr_matrix | None, k: int, block_rows: int
) -> Iterator[tuple[NDArray[np.int32], NDArray[np.float32]]]:
    """`Predictor.top` of n points, a block at a time.

    Args:
      fitted: the model, perhaps with a memory.
      rows: CSR [n, d], not weighted.
      among: CSR [n, K], whose non-zero entries are the candidates of each point; None are the
        labels that the model's index finds or its memory votes for.
      k: the number of labels per point.
      block_rows: the most points of a block.

    Yields:
      int32 [m, k] labels and float32 [m, k] scores, best first; -1 where a point has fewer.
    """
    model, memory, first = fitted.model, fitted.memory, 0
    # Pairs per point to pad to: blocks differ in their pairs, and most then share one program.
    pairs_per_point = 0
    if among is None:
        pairs_per_point = k if memory is None else k + _VOTED_LABELS
    for queries in fitted.queries(rows):
        block = slice(first, first + len(queries))
        features, votes = rows[block], None
        if memory is not None:
            weighted = fitted.weighting.apply(features, first_row=first)
            votes = memory.additions(weighted, queries)
        mask = _search_index(fitted, queries, features, votes, k) if among is None else among[block]
        if model.drop_seen:
            mask.data = np.where(gather_values(with_ones(features), mask) > 0, 0, 1)
            mask.eliminate_zeros()
        scores = score_pairs(
            model,
            fitted.state,
            fitted.mesh,
            queries,
            mask,
            block_rows,
            min_pairs=pairs_per_point * len(queries),
        )
        if votes is not None:
            scores = scores + gather_values(votes, mask)
        yield top_k_of_pairs(mask, scores, k, MASKED)
        first = block.stop


def _search_index(
    fitted: FittedModel,
    queries: NDArray[np.float32],
    rows: csr_matrix,
    votes: csr_matrix | None,
    k: int,
) -> csr_matrix:
    """The mask CSR [m, K] of the labels that an index finds or that have votes.

    The top k with votes are among the top k without votes and the labels with votes. If labels that
    are features of the point are dropped, the index finds as many more, and the first k are kept.
    """
    assert fitted.index is not None
    model = fitted.model
    num_labels = model.spec.num_labels
    dropped = int(np.diff(rows.indptr).max()) if model.drop_seen else 0
    labels = fitted.index.search(queries, min(k + dropped, num_labels))
    found = labels >= 0
    if dropped:
        shape = len(labels), num_labels  # of which the features may number the first ones only
        seen = csr_matrix((rows.data, rows.indices, rows.indptr), shape)
        found = Excluded(seen, dropped).kept(labels, k)
    starts = row_starts(found.sum(axis=1))
    mask = csr_of_ones(labels[found], starts, (len(labels), num_labels))
    return mask if votes is None else mask + votes

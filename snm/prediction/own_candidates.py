"""The best labels of points of which each has its own to choose from: pairs, scored one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.losses.reductions import MASKED
from snm.prediction.candidates import best_of_pairs, values_at
from snm.prediction.programs import scores_of_pairs

if TYPE_CHECKING:
    from snm.prediction.predictor import Predictor

__all__ = ["top_of_pairs"]


def top_of_pairs(
    predictor: Predictor, rows: csr_matrix, among: csr_matrix, k: int
) -> Iterator[tuple[NDArray[np.int32], NDArray[np.float32]]]:
    """`Predictor.top` of n points, a block at a time.

    Args:
      predictor: the model, perhaps with a memory.
      rows: CSR [n, d], not weighted.
      among: CSR [n, K], whose non-zero entries are each point's labels to choose from.
      k: how many labels.

    Yields:
      int32 [m, k] labels and float32 [m, k] scores, best first; -1 where a point has fewer.
    """
    model, first = predictor.model, 0
    for queries in predictor.queries(rows):
        here = slice(first, first + len(queries))
        own, mask = rows[here], among[here]
        if model.drop_seen:
            seen = own.copy()
            seen.data = np.ones_like(seen.data)
            mask.data = np.where(values_at(seen, mask) > 0, 0, 1)
            mask.eliminate_zeros()
        of_model = model, predictor.state, predictor.mesh
        scores = scores_of_pairs(*of_model, queries, mask, predictor.block_rows)
        if predictor.memory is not None:
            weighted = predictor.weighting.apply(own, first_row=first)
            scores = scores + values_at(predictor.memory.additions(weighted, queries), mask)
        yield best_of_pairs(mask, scores, k, MASKED)
        first = here.stop

"""Candidates as columns of CSR matrices of points by labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.batches.csr_blocks import power_of_two
from snm.data.csr import row_starts, rows_of_entries

__all__ = ["gather_values", "pad_ids", "select_columns", "top_k_of_pairs"]

_MIN_PADDED_SIZE = 256  # so that small sets of candidates share a program


def pad_ids(ids: NDArray[np.int32], num_labels: int) -> NDArray[np.int32]:
    """Ids padded with K to a power of two, so that few lengths are compiled."""
    size = power_of_two(len(ids), _MIN_PADDED_SIZE)
    return np.concatenate([ids, np.full(size - len(ids), num_labels, np.int32)])


def select_columns(values: csr_matrix, ids: NDArray[np.int32]) -> csr_matrix:
    """The columns `ids` int32 [S], ascending, of CSR [m, K], as CSR [m, S]; never O(K)."""
    columns = np.minimum(np.searchsorted(ids, values.indices), len(ids) - 1)
    kept = ids[columns] == values.indices
    starts = row_starts(kept)[values.indptr]
    return csr_matrix((values.data[kept], columns[kept], starts), (values.shape[0], len(ids)))


def gather_values(values: csr_matrix, mask: csr_matrix) -> NDArray:
    """The values of CSR [m, .] at the entries of `mask`, CSR [m, K]; 0 where `values` has none."""
    width = max(values.shape[1], mask.shape[1])

    def positions(matrix: csr_matrix) -> NDArray:
        """The position of each entry in a dense matrix of this width."""
        rows = rows_of_entries(matrix.indptr)
        return rows * width + matrix.indices

    keys, wanted = positions(values), positions(mask)
    if not len(keys):
        return np.zeros(len(wanted), values.dtype)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    index = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[index] == wanted, values.data[order[index]], 0)


def top_k_of_pairs(
    mask: csr_matrix, scores: NDArray[np.float32], k: int, lowest: float
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The top k entries of each row; ties go to the lowest label.

    Args:
      mask: CSR [m, K].
      scores: float32 [entries], of the entries of `mask`.
      k: the number of labels per row.
      lowest: the score of padding, whose label is -1. Entries with this score or less are ignored.

    Returns:
      int32 [m, k] labels and float32 [m, k] scores, best first.
    """
    rows = rows_of_entries(mask.indptr)
    order = np.lexsort((mask.indices, -scores, rows))
    rank = np.arange(len(order)) - mask.indptr[:-1][rows]
    order, rank = order[rank < k], rank[rank < k]
    order, rank = order[scores[order] > lowest], rank[scores[order] > lowest]
    labels = np.full((mask.shape[0], k), -1, np.int32)
    best = np.full((mask.shape[0], k), lowest, np.float32)
    labels[rows[order], rank] = mask.indices[order]
    best[rows[order], rank] = scores[order]
    return labels, best

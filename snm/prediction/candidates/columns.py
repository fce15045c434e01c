"""Candidates as columns of CSR matrices of points by labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.batches.csr_blocks import power_of_two
from snm.data.csr import row_starts, rows_of_entries

__all__ = ["gather_values", "pad_ids", "select_columns"]

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

"""Removes filtered (test point, label) pairs from predictions and from true labels.

Some data sets list pairs that count neither as correct nor as wrong, for example a product as its
own recommendation. They are removed before any metric is computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from snm.data.csr import row_starts, rows_of_entries

__all__ = [
    "CSR",
    "canonical",
    "first_unfiltered",
    "max_filtered",
    "nonzero_pairs",
    "remove_filtered",
]

CSR = Any
"""`scipy.sparse.csr_array` or `csr_matrix`: SciPy has no types."""


def max_filtered(pairs: NDArray) -> int:
    """The largest number of pairs of a row: k predictions may need so many more to replace."""
    return int(np.bincount(np.asarray(pairs)[:, 0]).max(initial=0)) if len(pairs) else 0


def first_unfiltered(
    ids: NDArray, pairs: NDArray, num_labels: int, k: int
) -> tuple[NDArray, NDArray[np.int64]]:
    """The first k predictions of each row that are not among the pairs.

    Args:
      ids: int [n, >= k], predicted labels, best first, padded with -1.
      pairs: int64 [f, 2], (row of `ids`, label), in any order.
      num_labels: K.
      k: predictions to keep.

    Returns:
      int [n, k], the kept predictions in their order, padded with -1; and int64 [n, k], their
      columns in `ids`.
    """
    encoded = pairs[:, 0] * num_labels + pairs[:, 1]
    is_removed = (ids < 0) | np.isin(np.arange(len(ids))[:, None] * num_labels + ids, encoded)
    columns = np.argsort(is_removed, axis=1, kind="stable")[:, :k]
    answers = np.where(is_removed, -1, ids)
    return np.take_along_axis(answers, columns, axis=1), columns


def nonzero_pairs(matrix: CSR) -> NDArray[np.int64]:
    """The row and column of each entry of a CSR matrix, int64 [entries, 2]."""
    rows = rows_of_entries(matrix.indptr)
    return np.stack([rows, matrix.indices], axis=1).astype(np.int64)


def remove_filtered(labels: CSR, pairs: NDArray) -> CSR:
    """Removes (row, label) pairs, int [f, 2], from true labels, CSR [n, K]; sorts columns."""
    labels = canonical(labels)
    num_rows, num_labels = labels.shape
    label_pairs = nonzero_pairs(labels)
    rows = label_pairs[:, 0]
    keep = ~np.isin(rows * num_labels + label_pairs[:, 1], pairs[:, 0] * num_labels + pairs[:, 1])
    indptr = row_starts(np.bincount(rows[keep], minlength=num_rows))
    return sp.csr_array((labels.data[keep], labels.indices[keep], indptr), shape=labels.shape)


def canonical(labels: CSR) -> CSR:
    """A copy of CSR [n, K] with sorted column indices, no duplicates and no explicit zeros."""
    labels = sp.csr_array(labels, copy=True)
    labels.eliminate_zeros()
    labels.sum_duplicates()
    return labels

"""Matrices that a program passes: NumPy's arrays and SciPy's forms -> float32 CSR."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csr_matrix

from snm.errors import InputError
from snm.text import counted

__all__ = ["check_finite", "to_csr"]


def to_csr(matrix: Any, where: str, columns: int | str) -> csr_matrix:
    """A matrix as float32 CSR; the matrix itself if it is that already.

    Args:
      matrix: an array of 2 dimensions, or a sparse matrix or array of any form.
      where: what it is, for messages.
      columns: the number of columns, or its symbol, for messages.

    Returns:
      float32 CSR [n, columns]. Values that overflow are infinite.

    Raises:
      InputError: neither of these, or other values than real numbers.
    """
    if isinstance(matrix, csr_matrix) and matrix.dtype == np.float32:
        return matrix
    expected = f"a matrix [n, {columns}] of numbers"
    if not sparse.issparse(matrix):
        if not hasattr(matrix, "__array__"):
            raise InputError(where, f"a {type(matrix).__name__}", expected)
        matrix = np.asarray(matrix)  # such as an array of JAX, or a data frame
    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        found = f"an array of {matrix.dtype} and {counted(matrix.ndim, 'dimension')}"
        raise InputError(where, found, expected)
    if not matrix.dtype.isnative:
        matrix = matrix.astype(matrix.dtype.newbyteorder("="))
    if matrix.dtype == np.float16:  # SciPy refuses such an array
        matrix = matrix.astype(np.float32)
    rows = csr_matrix(matrix)
    with np.errstate(over="ignore"):
        return rows.astype(np.float32, copy=False)


def check_finite(rows: csr_matrix, where: str) -> None:
    """Refuses NaN and infinite values.

    Args:
      rows: CSR [n, d].
      where: what it is, for messages.

    Raises:
      InputError: there is such a value; names the row and the column of the first one.
    """
    # Minimum and maximum, since a mask of all values could be too large for memory-mapped data.
    if not rows.nnz or np.isfinite([rows.data.min(), rows.data.max()]).all():
        return
    entry = int(np.argmin(np.isfinite(rows.data)))
    row = int(np.searchsorted(rows.indptr, entry, side="right")) - 1
    found = f"a value that is not finite in row {row}, column {rows.indices[entry]}"
    raise InputError(where, found, "finite numbers")

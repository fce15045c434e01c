"""What a predictor is asked: features or texts, as rows of features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csr_matrix

from snm.data.vectorizer import NO_TEXT, Vectorizer, are_names
from snm.errors import InputError, counted

__all__ = ["as_rows", "without_repeats", "without_zeros"]


def as_rows(
    features: csr_matrix | Sequence[str | Sequence[str]] | Sequence[Sequence[float]] | NDArray[Any],
    width: int,
    vectorizer: Vectorizer | None,
) -> csr_matrix:
    """Features or texts as CSR [n, d], not weighted, whose rows hold no feature twice and no zeros.

    Args:
      features: a sparse or dense matrix [n, d], n lists of d numbers, or n texts; where texts list
        items, also n lists of their names. What a row holds twice is added up.
      width: d.
      vectorizer: of texts; None for a model that was not trained on texts.

    Raises:
      InputError: another number of columns, a value that is not finite, one text in place of
        several, or texts without a vectorizer.
    """
    given = _unpacked(features, width)
    if _is_matrix(given):
        matrix = given
    elif _are_rows(given) and not _are_lists_of_items(given, vectorizer):
        matrix = _stacked(given, width, vectorizer)
    else:
        matrix = _vectorized(given, vectorizer)
    return _summed(_csr(matrix, width))


def _unpacked(given: Any, width: int) -> Any:
    """A matrix, or something with a length: of an array of texts, the list.

    Raises:
      InputError: another value, or an array of neither numbers nor texts.
    """
    if hasattr(given, "__array__") and not sparse.issparse(given):
        given = np.asarray(given)  # such as one of JAX
    if isinstance(given, np.ndarray) and given.dtype.kind in "OU" and given.ndim == 1:
        given = given.tolist()  # texts, such as a column of a table
        if _are_rows(given):
            raise InputError("texts", "an array of other objects", "texts")
    if not hasattr(given, "__len__") and not sparse.issparse(given):
        expected = f"a list of texts, or a matrix [n, {width}]"
        raise InputError("features", f"a value of type {type(given).__name__}", expected)
    return given


def _is_matrix(given: Any) -> bool:
    return sparse.issparse(given) or isinstance(given, np.ndarray)


def _are_rows(given: Any) -> bool:
    """Whether a list is of something else than texts; an empty one is of texts."""
    if not isinstance(given, list | tuple) or not given:
        return False
    return not any(isinstance(one, str) for one in given)


def _are_lists_of_items(given: Sequence[Any], vectorizer: Vectorizer | None) -> bool:
    """Whether all rows are lists of names, for texts that list items."""
    of_items = vectorizer is not None and vectorizer.item_separator is not None
    return of_items and all(map(are_names, given))


def _stacked(rows: Sequence[Any], width: int, vectorizer: Vectorizer | None) -> NDArray[Any]:
    """Lists of numbers as a float32 array.

    Raises:
      InputError: lists of different lengths, or of something else.
    """
    for index, row in enumerate(rows):
        if row is None:
            what, expected = "features", f"a row of {width} numbers"
            if vectorizer is not None:
                what, expected = "texts", NO_TEXT
            raise InputError(what, f"None at index {index}", expected)
    try:
        return np.asarray(rows, np.float32)
    except (TypeError, ValueError) as error:
        expected = f"lists of {width} numbers, a matrix, or texts"
        raise InputError("features", "a list of others", expected) from error


def _vectorized(texts: Any, vectorizer: Vectorizer | None) -> csr_matrix:
    """The features of texts.

    Raises:
      InputError: one text in place of several, what is no text, or no vectorizer.
    """
    if isinstance(texts, str):
        raise InputError("texts", "one text", "a list of texts")
    if vectorizer is None:
        raise InputError("texts", "a model of features", "one trained on `snm data import`")
    return vectorizer.transform(texts)


def _csr(matrix: Any, width: int) -> csr_matrix:
    """A matrix as CSR, of its own type.

    Raises:
      InputError: other values than real numbers, or another shape than [n, width].
    """
    if isinstance(matrix, np.ndarray) and (matrix.ndim > 2 or matrix.dtype.kind not in "biuf"):
        found = f"an array of {matrix.dtype} and {matrix.ndim} dimensions"
        raise InputError("features", found, f"a matrix [n, {width}] of numbers")
    if matrix.dtype.kind == "c":
        raise InputError("features", f"a matrix of {matrix.dtype}", "real numbers")
    if not matrix.dtype.isnative:
        matrix = matrix.astype(matrix.dtype.newbyteorder("="))
    rows = csr_matrix(matrix)
    if rows.shape[1] != width:
        raise InputError("features", counted(rows.shape[1], "column"), f"{width}, as in training")
    return rows


def _summed(rows: csr_matrix) -> csr_matrix:
    """The rows in float32, each feature of a row once, and none that is 0.

    Raises:
      InputError: a value that is not finite.
    """
    if rows.dtype != np.float32:  # before sums: bytes would wrap around, and True is 1 each time
        with np.errstate(over="ignore"):  # what overflows is refused
            rows = rows.astype(np.float32)
    rows = without_repeats(rows)
    # The ends, and no mask, which could be too large for the values of mapped data.
    if rows.nnz and not np.isfinite([rows.data.min(), rows.data.max()]).all():
        raise InputError("features", "a value that is not finite", "finite numbers")
    return without_zeros(rows)


def without_repeats(features: csr_matrix) -> csr_matrix:
    """The matrix, or a copy with sorted ids where a row holds one twice or out of order."""
    if not features.has_canonical_format:
        features = features.copy()
        features.sum_duplicates()
    return features


def without_zeros(features: csr_matrix) -> csr_matrix:
    """The matrix, or a copy without the zeros that it stores: a user has no item 0 times."""
    if not features.data.all():
        features = features.copy()
        features.eliminate_zeros()
    return features

"""The inputs of a predictor: features or texts -> a CSR matrix of features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csr_matrix

from snm.data.matrices import check_finite, to_csr
from snm.data.vectorizer import NO_TEXT, Vectorizer, are_names
from snm.errors import InputError
from snm.text import counted

__all__ = ["as_rows", "drop_zeros", "sum_duplicates"]


def as_rows(
    features: csr_matrix | Sequence[str | Sequence[str]] | Sequence[Sequence[float]] | NDArray[Any],
    width: int,
    vectorizer: Vectorizer | None,
) -> csr_matrix:
    """Features or texts as CSR [n, d], not weighted, without duplicate entries or stored zeros.

    Args:
      features: a sparse or dense matrix [n, d], n lists of d numbers, or n texts; if texts list
        items, also n lists of item names. Duplicate entries of a row are summed.
      width: d.
      vectorizer: of texts; None for a model that was not trained on texts.

    Raises:
      InputError: another number of columns, a value that is not finite, a single text instead of
        a list, or texts without a vectorizer.
    """
    given = _to_matrix_or_list(features, width)
    if sparse.issparse(given) or isinstance(given, np.ndarray):
        matrix = given if sparse.issparse(given) else np.atleast_2d(given)
    elif _is_list_of_rows(given) and not _is_list_of_items(given, vectorizer):
        matrix = np.atleast_2d(_rows_to_array(given, width, vectorizer))
        if _lists_items(vectorizer) and matrix.ndim == 2 and matrix.shape[1] != width:
            found = counted(matrix.shape[1], "number")
            raise InputError("features", f"lists of {found}", _expected_rows(width, vectorizer))
    else:
        matrix = _vectorize(given, vectorizer)
    rows = to_csr(matrix, "features", width)
    if rows.shape[1] != width:
        raise InputError("features", counted(rows.shape[1], "column"), f"{width}, as in training")
    rows = sum_duplicates(rows)  # in float32: small integer types would overflow
    check_finite(rows, "features")
    return drop_zeros(rows)


def _to_matrix_or_list(given: Any, width: int) -> Any:
    """The input as a matrix or a sequence; an array of texts becomes a list.

    Raises:
      InputError: another value, or an array of neither numbers nor texts.
    """
    if hasattr(given, "__array__") and not sparse.issparse(given):
        given = np.asarray(given)  # such as an array of JAX
    if isinstance(given, np.ndarray) and given.dtype.kind in "OU" and given.ndim == 1:
        given = given.tolist()  # texts, such as a column of a table
        if _is_list_of_rows(given):
            raise InputError("texts", "an array of other objects", "texts")
    if not hasattr(given, "__len__") and not sparse.issparse(given):
        expected = f"a list of texts, or a matrix [n, {width}]"
        raise InputError("features", f"a value of type {type(given).__name__}", expected)
    return given


def _is_list_of_rows(given: Any) -> bool:
    """Whether the input is a list without texts; an empty list counts as texts."""
    if not isinstance(given, list | tuple) or not given:
        return False
    return not any(isinstance(item, str) for item in given)


def _is_list_of_items(given: Sequence[Any], vectorizer: Vectorizer | None) -> bool:
    """Whether all rows are lists of item names, and the model's texts list items."""
    return _lists_items(vectorizer) and all(map(are_names, given))


def _lists_items(vectorizer: Vectorizer | None) -> bool:
    """Whether the model's texts list items."""
    return vectorizer is not None and vectorizer.item_separator is not None


def _expected_rows(width: int, vectorizer: Vectorizer | None) -> str:
    """What is expected in place of lists that are no features."""
    if _lists_items(vectorizer):
        return f"lists of {width} values, or of items as texts, also if they are numbers: str(item)"
    return f"lists of {width} numbers, a matrix, or texts"


def _rows_to_array(rows: Sequence[Any], width: int, vectorizer: Vectorizer | None) -> NDArray[Any]:
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
        raise InputError(
            "features", "a list of others", _expected_rows(width, vectorizer)
        ) from error


def _vectorize(texts: Any, vectorizer: Vectorizer | None) -> csr_matrix:
    """The features of texts.

    Raises:
      InputError: a single text instead of a list, a value that is not a text, or no vectorizer.
    """
    if isinstance(texts, str):
        raise InputError("texts", "one text", "a list of texts")
    if vectorizer is None:
        raise InputError("texts", "a model of features", "one trained on `snm data import`")
    return vectorizer.transform(texts)


def sum_duplicates(features: csr_matrix) -> csr_matrix:
    """The matrix, or a copy with sorted ids and summed duplicates if it is not canonical."""
    if not features.has_canonical_format:
        features = features.copy()
        features.sum_duplicates()
    return features


def drop_zeros(features: csr_matrix) -> csr_matrix:
    """The matrix, or a copy without its stored zeros."""
    if not features.data.all():
        features = features.copy()
        features.eliminate_zeros()
    return features

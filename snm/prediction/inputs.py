"""What a predictor is asked: features or texts, as rows of features."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse
from scipy.sparse import csr_matrix

from snm.data.vectorizer import Vectorizer
from snm.errors import InputError

__all__ = ["as_rows"]


def as_rows(
    features: csr_matrix | Sequence[str], width: int, vectorizer: Vectorizer | None
) -> csr_matrix:
    """Features or texts as CSR [n, d], not weighted.

    Args:
      features: a sparse or dense matrix [n, d], or n texts.
      width: d.
      vectorizer: of texts; None for a model that was not trained on texts.

    Raises:
      InputError: another number of columns, one text in place of several, or texts without a
        vectorizer.
    """
    if not sparse.issparse(features) and not isinstance(features, np.ndarray):
        if isinstance(features, str):
            raise InputError("texts", "one text", "a list of texts")
        if vectorizer is None:
            raise InputError("texts", "a model of features", "one trained on `snm data import`")
        features = vectorizer.transform(features)
    features = csr_matrix(features)
    if features.shape[1] != width:
        raise InputError("features", f"{features.shape[1]} columns", f"{width}, as in training")
    return features

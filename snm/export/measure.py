"""Compares the recall and speed of an index, or of rounded rows, with exact search."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.prediction.predictor import Predictor

__all__ = ["lowest_recall", "measure_index", "measure_rows", "recall"]

_MAX_POINTS = 2048
_KS = (1, 5, 10, 100)
_TIMED_K = 5


def recall(found: NDArray, exact: NDArray) -> float:
    """The fraction of the exact top labels, int [n, k], among the labels found, int [n, k].

    Example:
      >>> import numpy as np
      >>> recall(np.array([[1, 2], [3, -1]]), np.array([[2, 1], [3, 4]]))
      0.75
    """
    hits = (found[:, :, None] == exact[:, None, :]).any(axis=1)
    return float(hits.mean())


def measure_index(searched: Predictor, features: csr_matrix) -> dict[str, Any]:
    """Measures recall@k and queries per second over the first points of a set.

    Args:
      searched: the model with an index.
      features: CSR [n, d], raw.

    Returns:
      `points`; `memory`, False: the votes of a memory are left out of the comparison; `recall`: k
      -> the fraction of the exact top k that a search for k labels finds; `timed_k`, the k of the
      following; `queries_per_second` of the index and `exact_queries_per_second`, both with the
      time to compute the queries.
    """
    features, searched = features[:_MAX_POINTS], _search_only(searched)
    exact = dataclasses.replace(searched, index=None)
    ks = _recall_ks(exact.model.spec.num_labels)
    best, _ = exact.predict(features, max(ks))
    # A search for more labels examines more candidates, so each k has its own search.
    shares = {k: recall(searched.predict(features, k)[0], best[:, :k]) for k in ks}
    return _report(features, exact, searched, shares)


def measure_rows(exact: Predictor, rounded: Predictor, features: csr_matrix) -> dict[str, Any]:
    """Measures recall@k and points per second of rounded rows over the first points of a set.

    Args:
      exact: the model.
      rounded: the same with rounded feature rows and class rows.
      features: CSR [n, d], raw.

    Returns:
      As `measure_index`, but `recall`: k -> the fraction of the exact top k that are among the
      rounded model's.
    """
    features = features[:_MAX_POINTS]
    exact, rounded = _search_only(exact), _search_only(rounded)
    ks = _recall_ks(exact.model.spec.num_labels)
    best, found = (model.predict(features, max(ks))[0] for model in (exact, rounded))
    shares = {k: recall(found[:, :k], best[:, :k]) for k in ks}
    return _report(features, exact, rounded, shares)


def _report(
    features: csr_matrix, exact: Predictor, other: Predictor, shares: dict[int, float]
) -> dict[str, Any]:
    """Times both models; returns the result of `measure_index` with these recalls."""
    timed_k = min(_TIMED_K, exact.model.spec.num_labels)
    rates = []
    for model in (other, exact):
        model.predict(features, timed_k)  # compiles
        clock = time.perf_counter()
        model.predict(features, timed_k)
        rates.append(features.shape[0] / (time.perf_counter() - clock))
    return {
        "points": features.shape[0],
        "memory": False,
        "recall": shares,
        "timed_k": timed_k,
        "queries_per_second": rates[0],
        "exact_queries_per_second": rates[1],
    }


def _search_only(predictor: Predictor) -> Predictor:
    """The predictor without memory, and without dropping labels that are features of the point."""
    model = dataclasses.replace(predictor.model, drop_seen=False)
    return dataclasses.replace(predictor, model=model, memory=None)


def _recall_ks(num_labels: int) -> list[int]:
    """The k of recall@k."""
    return [k for k in _KS if k <= num_labels]


def lowest_recall(recalls: Mapping[int, float]) -> tuple[int, float]:
    """The k of at most 10 whose recall@k is lowest, and that recall."""
    k = min((k for k in recalls if k <= 10), key=lambda k: recalls[k])
    return k, recalls[k]

"""Compares the recall and speed of an index, or of rounded rows, with exact search."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.prediction.predictor import Predictor

__all__ = ["lowest_recall", "measure_recall", "recall"]

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


def measure_recall(exact: Predictor, other: Predictor, features: csr_matrix) -> dict[str, Any]:
    """Measures recall@k and points per second over the first points of a set.

    Args:
      exact: the model, without an index.
      other: the same with an index, or with rounded feature rows and class rows.
      features: CSR [n, d], raw.

    Returns:
      `points`; `memory`, False: the votes of a memory are left out of the comparison; `recall`: k
      -> the fraction of the exact top k that are among the other's top k; `timed_k`, the k of the
      following; `queries_per_second` of the other and `exact_queries_per_second`, both with the
      time to compute the queries.
    """
    features, exact, other = features[:_MAX_POINTS], _search_only(exact), _search_only(other)
    num_labels = exact.model.spec.num_labels
    ks = [k for k in _KS if k <= num_labels]
    best, _ = exact.predict(features, max(ks))
    # A search for more labels examines more candidates, so each k of an index has its own search.
    searched = ks if other.index is not None else [max(ks)] * len(ks)
    found = {k: other.predict(features, k)[0] for k in set(searched)}
    shares = {k: recall(found[of][:, :k], best[:, :k]) for k, of in zip(ks, searched, strict=True)}
    timed_k, rates = min(_TIMED_K, num_labels), []
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


def lowest_recall(recalls: Mapping[int, float]) -> tuple[int, float]:
    """The k of at most 10 whose recall@k is lowest, and that recall."""
    k = min((k for k in recalls if k <= 10), key=lambda k: recalls[k])
    return k, recalls[k]

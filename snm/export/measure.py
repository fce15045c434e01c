"""Compares the recall and speed of an index with exact search over all labels."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.export.index import IndexedPredictor

__all__ = ["least_recall", "measure", "recall"]

_POINTS = 2048
_KS = (1, 5, 10, 100)
_TIMED_K = 5


def recall(found: NDArray, exact: NDArray) -> float:
    """The fraction of the exact top labels, int [n, k], that are among those found, int [n, k].

    Example:
      >>> import numpy as np
      >>> recall(np.array([[1, 2], [3, -1]]), np.array([[2, 1], [3, 4]]))
      0.75
    """
    hits = (found[:, :, None] == exact[:, None, :]).any(axis=1)
    return float(hits.mean())


def measure(searched: IndexedPredictor, features: csr_matrix) -> dict[str, Any]:
    """Measures recall@k and queries per second over the first points of a set.

    Args:
      searched: the index.
      features: CSR [n, d], raw.

    Returns:
      `points`; `memory`, False: what is compared are the answers of the class rows, without the
      votes of a memory; `recall`: k -> the fraction of the exact top k that a search for k labels
      finds; `timed_k`, the k of the following; `queries_per_second` of the index and
      `exact_queries_per_second`, both without the time to compute the queries.
    """
    features = features[:_POINTS]
    # Only the search is measured: labels that are features of the point are not dropped, and a
    # memory does not vote.
    every = dataclasses.replace(searched.predictor.model, drop_seen=False)
    predictor = dataclasses.replace(searched.predictor, model=every, memory=None)
    num_labels = predictor.model.head.num_labels
    ks = [k for k in _KS if k <= num_labels]
    timed_k = min(_TIMED_K, num_labels)
    queries = np.concatenate(list(predictor.queries(features)))
    best, _ = predictor.predict(features, max(ks))
    # A search for more labels examines more of them, so each k has its own.
    shares = {k: recall(searched.search(queries, k)[0], best[:, :k]) for k in ks}
    predictor.predict(features, timed_k)  # compiles
    exact = _seconds(lambda: predictor.predict(features, timed_k))
    exact -= _seconds(lambda: list(predictor.queries(features)))
    return {
        "points": len(queries),
        "memory": False,
        "recall": shares,
        "timed_k": timed_k,
        "queries_per_second": len(queries) / _seconds(lambda: searched.search(queries, timed_k)),
        "exact_queries_per_second": len(queries) / max(exact, 1e-9),
    }


def least_recall(recalls: Mapping[int, float]) -> tuple[int, float]:
    """The k of at most 10 whose recall@k is lowest, and that recall."""
    k = min((k for k in recalls if k <= 10), key=lambda k: recalls[k])
    return k, recalls[k]


def _seconds(work: Callable[[], Any]) -> float:
    clock = time.perf_counter()
    work()
    return time.perf_counter() - clock

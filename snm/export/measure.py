"""Compares the recall and speed of an index with exact search over all labels."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.export.index import IndexedPredictor

__all__ = ["measure", "recall"]

_POINTS = 2048
_KS = (1, 5, 10, 100)


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
      votes of a memory; `recall`: k -> the fraction of the exact top k that the index finds;
      `queries_per_second` of the index and `exact_queries_per_second`, both without the time to
      compute the queries.
    """
    features = features[:_POINTS]
    # Only the search is measured: labels that are features of the point are not dropped, and a
    # memory does not vote.
    every = dataclasses.replace(searched.predictor.model, drop_seen=False)
    predictor = dataclasses.replace(searched.predictor, model=every, memory=None)
    ks = [k for k in _KS if k <= predictor.model.head.num_labels]
    queries = np.concatenate(list(predictor.queries(features)))
    seconds, best = {}, {}
    for name in ("index", "exact"):
        for turn in range(2):  # the first one compiles and warms up
            clock = time.perf_counter()
            if name == "index":
                best[name], _ = searched.search(queries, max(ks))
            else:
                best[name], _ = predictor.predict(features, max(ks))
            if turn:
                seconds[name] = time.perf_counter() - clock
    clock = time.perf_counter()
    for _ in predictor.queries(features):
        pass
    query_seconds = time.perf_counter() - clock
    exact = max(seconds["exact"] - query_seconds, 1e-9)
    return {
        "points": len(queries),
        "memory": False,
        "recall": {k: recall(best["index"][:, :k], best["exact"][:, :k]) for k in ks},
        "queries_per_second": len(queries) / seconds["index"],
        "exact_queries_per_second": len(queries) / exact,
    }

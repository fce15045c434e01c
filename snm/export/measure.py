"""How well and how fast an index searches, beside exact search over all labels."""

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
    """Share of the exact best labels, int [n, k], that are among those found, int [n, k].

    Example:
      >>> import numpy as np
      >>> recall(np.array([[1, 2], [3, -1]]), np.array([[2, 1], [3, 4]]))
      0.75
    """
    hits = (found[:, :, None] == exact[:, None, :]).any(axis=1)
    return float(hits.mean())


def measure(searched: IndexedPredictor, features: csr_matrix) -> dict[str, Any]:
    """Recall@k and queries a second over the first points of a set.

    Args:
      searched: the index.
      features: CSR [n, d], raw.

    Returns:
      `points`; `recall`: k -> share of the exact best k that the index finds; `queries_per_second`
      of the index, and `exact_queries_per_second`, both without making the queries.
    """
    features = features[:_POINTS]
    # The search alone is looked at: an index knows of no point what it has seen.
    every = dataclasses.replace(searched.predictor.model, drop_seen=False)
    predictor = dataclasses.replace(searched.predictor, model=every)
    ks = [k for k in _KS if k <= predictor.model.head.num_labels]
    queries = np.concatenate(list(predictor.queries(features)))
    seconds, best = {}, {}
    for name in ("index", "exact"):
        for turn in range(2):  # the first one compiles, and wakes what sleeps
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
    making = time.perf_counter() - clock
    exact = max(seconds["exact"] - making, 1e-9)
    return {
        "points": len(queries),
        "recall": {k: recall(best["index"][:, :k], best["exact"][:, :k]) for k in ks},
        "queries_per_second": len(queries) / seconds["index"],
        "exact_queries_per_second": len(queries) / exact,
    }

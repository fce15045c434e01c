"""Exports a memory of neighbours: its arrays, and how its points vote."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from snm.memory.memory import NUM_FOUND, Memory
from snm.memory.neighbors import MAX_READ

__all__ = ["by_feature_arrays", "stored_arrays", "voting_entries"]


def stored_arrays(memory: Memory) -> dict[str, np.ndarray]:
    """The arrays of the stored points.

    Returns:
      features_data float32, features_indices int32 and features_indptr int64 [n + 1], a CSR matrix
      [n, d] of weighted features; labels_indices int32 and labels_indptr int64 [n + 1], a CSR
      matrix [n, K] of ones; rows int64 [n], the indices of the points in the training set, -1 for
      points of an earlier one and -2 for names of labels; queries
      float16 [n, members * dim] of length 1, if the settings use them; weights float32 [n], the
      multipliers of the points' votes, if these are not all 1.
    """
    arrays = {
        "features_data": memory.features.data.astype(np.float32),
        "features_indices": memory.features.indices.astype(np.int32),
        "features_indptr": memory.features.indptr.astype(np.int64),
        "labels_indices": memory.labels.indices.astype(np.int32),
        "labels_indptr": memory.labels.indptr.astype(np.int64),
        "rows": memory.rows,
    }
    if memory.queries is not None:
        arrays["queries"] = np.ascontiguousarray(memory.queries)
    if memory.weights is not None:
        arrays["weights"] = memory.weights
    return arrays


def by_feature_arrays(memory: Memory) -> dict[str, np.ndarray]:
    """The transposed features, which a search for neighbours reads.

    Returns:
      by_feature_data float32, by_feature_indices int32 and by_feature_indptr [d + 1], a CSR matrix
      [d, n]: the transpose of the features, divided by the length of each point.
    """
    parts = ("data", "indices", "indptr")
    return {f"by_feature_{part}": getattr(memory.by_feature, part) for part in parts}


def voting_entries(memory: Memory) -> dict[str, Any]:
    """The entries of a manifest for a memory: its settings, and the formula of its votes."""
    return {
        "points": len(memory.rows),
        "found": NUM_FOUND,
        "read": MAX_READ,
        **dataclasses.asdict(memory.settings),
        "votes": {
            "of features": "c_i = (x . f_i) / (|x| |f_i|), where f_i are the features of point i; "
            "the `found` points of highest c_i > 0 are kept, and of ties for the last places some",
            "of rare features": "unless every point has every feature, another x chooses these "
            "points: (1) sort the features of x by the number of stored points that have them, "
            "fewest first; (2) of these, keep the first ones whose numbers sum to at most `read`, "
            "but at least one that a stored point has, and set the others to 0; (3) keep the "
            "`found` points of highest c_i by this x; (4) c_i of the kept points is that of the "
            "whole x",
            "of queries": "e_i = (z . queries_i) / |z|, where z is multiplier * q of each member, "
            "side by side",
            "similarity": "s_i = feature_share * c_i + (1 - feature_share) * e_i",
            "weights": "of the `neighbors` kept points of highest s_i: w_i = max(s_i, 0) ** power"
            f"{'' if memory.weights is None else ' * weights_i'}, divided by the sum of these",
            "score": "score of label l + weight * sqrt(the sum of w_i over points i with label l)",
        },
    }

"""Additional training points of a recommender: other splits of the same items.

If features and labels are the same items, the features of a point show which items occur together,
as its labels do. Additional points use this: half of the features become labels. Hiding items of a
basket and predicting them is how denoising autoencoders are trained for recommendation
(Wu et al., 2016; Liang et al., 2018).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.batches.streams import Stream
from snm.data.csr import row_starts, rows_of_entries
from snm.data.dataset import Points

__all__ = ["add_splits"]

_HIDDEN = 0.5  # fraction of the features of a point that become labels


def add_splits(
    points: Points, rows: NDArray[np.int64] | None, splits: int, seed: int
) -> tuple[Points, NDArray[np.int64] | None]:
    """Adds points in which a random half of the features are labels too.

    A point with features keeps at least one.

    Args:
      points: n points whose features and labels are the same items; labels past the last feature
        are later items.
      rows: int64 [m], the rows to train on; None is all.
      splits: number of additional splits of each point.
      seed: seed of the random halves.

    Returns:
      n (1 + splits) points, of which i, i + n, i + 2 n ... have the items of point i, and the rows
      of these to train on. The arguments themselves if `splits` is 0.
    """
    if not splits:
        return points, rows
    split_points = points
    for n in range(1, splits + 1):
        features, labels = _split(
            points, np.random.default_rng(Stream.SPLITS.seed_sequence(seed, n))
        )
        split_points = split_points.concatenate(
            replace(points, features=features, labels=labels, filter=None)
        )
    if rows is not None:
        rows = np.concatenate([rows + n * points.num_points for n in range(1 + splits)])
    return split_points, rows


def _split(points: Points, rng: np.random.Generator) -> tuple[csr_matrix, csr_matrix]:
    features = points.features
    counts = np.diff(features.indptr)
    owner = rows_of_entries(features.indptr)
    hidden = rng.random(features.nnz) < _HIDDEN
    none_left = np.bincount(owner[~hidden], minlength=points.num_points) == 0
    hidden[features.indptr[:-1][none_left & (counts > 0)]] = False
    parts = [
        csr_matrix(
            (features.data[keep], features.indices[keep], row_starts(keep)[features.indptr]),
            shape=features.shape,
        )
        for keep in (~hidden, hidden)
    ]
    parts[1].resize(points.labels.shape)
    parts[1].data[:] = 1  # a value of -1 would cancel a label
    labels = csr_matrix(parts[1] + points.labels)
    labels.data[:] = 1
    return parts[0], labels

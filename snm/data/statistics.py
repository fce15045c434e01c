"""Computes statistics of a data set: sizes, averages, label frequencies, duplicate rows."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.data.csr import count_ids, rows_of_entries
from snm.data.dataset import Dataset, Points
from snm.data.mapped import row_blocks

__all__ = ["describe", "dominant_feature", "duplicate_rows", "duplicate_test_rows"]

_DOMINANT = 0.5  # mean fraction of the squared length of points in one feature
_ENTRIES = 1 << 19  # entries whose keys are made at once, with several times their memory


def describe(dataset: Dataset) -> dict[str, Any]:
    """Computes statistics of a data set as plain Python values, ready for JSON or a table.

    The first keys are the columns of Table 1 of Reddi et al., "Stochastic Negative Mining for
    Learning with Large Output Spaces" (AISTATS 2019). Averages include points without labels or
    features and labels without points.

    Returns:
      a dict with the keys

      - name, sha256: those of the data set;
      - features, labels, train_points, test_points: sizes (test_points is 0 without a test set);
      - points_per_label, labels_per_point, nonzeros_per_point: averages on train;
      - train_without_labels, train_without_features, test_without_labels, test_without_features:
        numbers of such rows;
      - label_frequency_deciles: quantiles 0, 0.1, ..., 1 of the number of training points of a
        label, not interpolated;
      - labels_never_in_train: number of labels without a training point;
      - labels_only_in_test: number of these labels that have a test point;
      - empty_features: number of features that no training point has;
      - duplicate_test_rows, duplicate_test_share: number of test rows whose features equal those
        of a training row, and their share of the test rows (0 without a test set);
      - filter_pairs: number of (row, label) pairs that evaluation on the test set ignores.
    """
    train, test = dataset.train, dataset.test
    frequency = dataset.label_frequency()
    in_feature = count_ids(train.features.indices, train.num_features)
    not_in_train = frequency == 0
    only_in_test = duplicates = 0
    if test is not None:
        in_test = np.bincount(test.labels.indices, minlength=train.num_labels) > 0
        only_in_test = int(np.count_nonzero(not_in_train & in_test))
        duplicates = int(np.count_nonzero(duplicate_test_rows(test.features, train.features)))
    test_points = 0 if test is None else test.num_points
    return {
        "name": dataset.name,
        "sha256": dataset.sha256,
        "features": train.num_features,
        "labels": train.num_labels,
        "train_points": train.num_points,
        "test_points": test_points,
        "points_per_label": train.points_per_label,
        "labels_per_point": train.labels.nnz / train.num_points,
        "nonzeros_per_point": train.features_per_point,
        **_empty_rows("train", train),
        **_empty_rows("test", test),
        "label_frequency_deciles": np.quantile(
            frequency, np.linspace(0, 1, 11), method="inverted_cdf"
        ).tolist(),
        "labels_never_in_train": int(np.count_nonzero(not_in_train)),
        "labels_only_in_test": only_in_test,
        "empty_features": int(np.count_nonzero(in_feature == 0)),
        "duplicate_test_rows": duplicates,
        "duplicate_test_share": duplicates / test_points if test_points else 0.0,
        "filter_pairs": 0 if test is None or test.filter is None else len(test.filter),
    }


def dominant_feature(features: csr_matrix) -> str | None:
    """A warning if one feature dominates the length of the rows; None otherwise.

    Rows are divided by their length, so a number in another unit, such as a price among words,
    makes all other features small.

    Args:
      features: CSR [n, d].

    Example:
      >>> dominant_feature(csr_matrix(np.array([[1, 0, 90], [0, 1, 70]]))).partition(":")[0]
      'feature 2 makes up 100% of the squared length of points on average'
    """
    if not features.shape[0] or not features.nnz:
        return None
    shares = np.zeros(features.shape[1])
    for first, last in row_blocks(features.indptr, _ENTRIES):
        entries = slice(features.indptr[first], features.indptr[last])
        squares = np.square(features.data[entries], dtype=np.float64)
        rows = rows_of_entries(features.indptr[first : last + 1])
        lengths = np.bincount(rows, squares, minlength=last - first)
        lengths[lengths == 0] = 1
        block_shares = squares / lengths[rows]
        shares += np.bincount(features.indices[entries], block_shares, minlength=len(shares))
    feature = int(np.argmax(shares))
    share = shares[feature] / features.shape[0]
    if share <= _DOMINANT:
        return None
    return (
        f"feature {feature} makes up {share:.0%} of the squared length of points on average: put "
        "it into bins, or scale it"
    )


def _empty_rows(part: str, points: Points | None) -> dict[str, int]:
    counts = {"labels": 0, "features": 0}
    if points is not None:
        for what in counts:
            counts[what] = int(np.count_nonzero(np.diff(getattr(points, what).indptr) == 0))
    return {f"{part}_without_{what}": count for what, count in counts.items()}


def duplicate_test_rows(test: csr_matrix, train: csr_matrix) -> NDArray[np.bool_]:
    """Which test rows have exactly the features of some training row.

    Rows are compared by the bytes of their sorted ids and values. A Python set compares the full
    bytes, so hash collisions do not matter. Stored zeros count as absent. A row without features
    is not a duplicate.

    Args:
      test: CSR [n_test, d], the features of the test points.
      train: CSR [n, d], those of the training points.

    Returns:
      bool [n_test].
    """
    test_keys = _row_keys(test)
    candidates, seen = set(test_keys) - {b""}, set[bytes]()
    for first, last in row_blocks(train.indptr, _ENTRIES):
        seen |= candidates.intersection(_row_keys(train[first:last]))
    return np.array([key in seen for key in test_keys], bool)


def duplicate_rows(features: csr_matrix) -> NDArray[np.bool_]:
    """Which rows of CSR [n, d] equal an earlier row: bool [n]; False for rows without features."""
    seen: set[bytes] = set()
    is_duplicate = np.zeros(features.shape[0], bool)
    for number, key in enumerate(_row_keys(features)):
        if key:
            is_duplicate[number] = key in seen
            seen.add(key)
    return is_duplicate


def _row_keys(features: csr_matrix) -> list[bytes]:
    """One byte string per row, equal for two rows exactly if the rows are equal."""
    if not features.data.all():
        features = features.copy()
        features.eliminate_zeros()
    # An entry takes 8 bytes, its id and its value, so equal bytes mean equal rows.
    entries = np.empty((features.nnz, 2), np.uint32)
    entries[:, 0] = features.indices
    entries[:, 1] = features.data.astype(np.float32, copy=False).view(np.uint32)
    packed = entries.tobytes()
    ends = (features.indptr.astype(np.int64) * 8).tolist()
    return [packed[first:last] for first, last in pairwise(ends)]

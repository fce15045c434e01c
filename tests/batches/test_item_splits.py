"""Further splits of a point's items: what stays, what becomes a label, and which rows they are."""

import numpy as np
import pytest
from scipy import sparse

from snm.batches.item_splits import add_splits
from snm.data.dataset import Points


def points(count=200, items=40, seed=0):
    """Points of up to 8 items, the first of which are features and at most 2 labels."""
    rng = np.random.default_rng(seed)
    features, labels = (np.zeros((count, items), np.float32) for _ in range(2))
    for row in range(count):
        chosen = rng.permutation(items)[:8]
        some = rng.integers(0, 7)
        features[row, chosen[:some]] = rng.integers(1, 5, some)
        labels[row, chosen[6 : 6 + rng.integers(0, 3)]] = 1
    return Points(sparse.csr_matrix(features), sparse.csr_matrix(labels))


def test_none_changes_nothing():
    given, rows = points(), np.arange(5)
    assert add_splits(given, rows, 0, seed=1) == (given, rows)


def test_every_item_is_a_feature_or_a_label():
    given = points()
    made, rows = add_splits(given, None, 2, seed=1)
    assert rows is None and made.num_points == 600
    assert made.features.dtype == made.labels.dtype == np.float32
    features, labels = made.features.toarray(), made.labels.toarray()
    before, own = given.features.toarray(), given.labels.toarray()
    np.testing.assert_array_equal(features[:200], before)
    np.testing.assert_array_equal(labels[:200], own)
    for first in (200, 400):
        part = slice(first, first + 200)
        kept = features[part] > 0
        np.testing.assert_array_equal(features[part], np.where(kept, before, 0))
        np.testing.assert_array_equal(labels[part], own + ((before > 0) & ~kept))
        some = (before > 0).any(axis=1)
        np.testing.assert_array_equal(kept.any(axis=1), some)
        # Of about 600 features, of which one a point must stay.
        assert 0.35 < 1 - kept.sum() / (before > 0).sum() < 0.5
    assert (features[200:400] != features[400:]).any()
    for matrix in (made.features, made.labels):
        assert matrix.has_canonical_format and matrix.has_sorted_indices


def test_rows_are_those_of_every_split():
    rows = np.array([3, 7, 8])
    _, found = add_splits(points(10), rows, 2, seed=0)
    np.testing.assert_array_equal(found, [3, 7, 8, 13, 17, 18, 23, 27, 28])


def test_the_seed_decides():
    given = points()
    first, again, other = (add_splits(given, None, 1, seed)[0].features for seed in (0, 0, 1))
    assert (first != again).nnz == 0
    assert (first != other).nnz > 0


def test_a_label_that_is_a_feature_too_counts_once():
    both = sparse.csr_matrix(np.ones((50, 4), np.float32))
    made, _ = add_splits(Points(both, both), None, 1, seed=0)
    assert made.labels.data.max() == pytest.approx(1)


def test_a_negative_value_keeps_its_label():
    """A rating of -1 of an item that is a label as well."""
    features = sparse.csr_matrix(np.full((50, 4), -1, np.float32))
    labels = sparse.csr_matrix(np.ones((50, 4), np.float32))
    made, _ = add_splits(Points(features, labels), None, 1, seed=0)
    np.testing.assert_array_equal(made.labels[50:].toarray(), 1)

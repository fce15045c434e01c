"""Points: what they refuse, and baskets of items."""

import numpy as np
import pytest
from scipy import sparse

from snm.data.dataset import Points
from snm.errors import InputError


def test_points_of_different_lengths():
    features, labels = sparse.csr_matrix((2, 5)), sparse.csr_matrix((2, 4))
    for wrong in (features.tocsc(), features.toarray()):
        found = f"found a {type(wrong).__name__}, expected scipy.sparse.csr_matrix"
        with pytest.raises(InputError, match=f"^features: {found}"):
            Points(wrong, labels)
        with pytest.raises(InputError, match=f"^labels: {found}"):
            Points(features, wrong)
    with pytest.raises(InputError, match="2 rows of features, 3 of labels"):
        Points(sparse.csr_matrix((2, 5)), sparse.csr_matrix((3, 4)))


def test_a_pair_of_the_filter_that_is_out_of_range():
    """A label past the last would be one of the next point."""
    features, labels = sparse.csr_matrix((2, 5)), sparse.csr_matrix((2, 4))
    for pair in ([0, 4], [2, 0], [-1, 0], [0, -1]):
        with pytest.raises(InputError, match=r"^filter: found rows .* expected below 2 and 4"):
            Points(features, labels, np.array([[0, 0], pair]))
    for pairs in (np.array([[1, 3]]), np.zeros((0, 2), np.int64)):
        assert Points(features, labels, pairs).take(np.array([1])).num_points == 1


def test_no_point_has_no_feature():
    assert Points(sparse.csr_matrix((0, 5)), sparse.csr_matrix((0, 4))).features_per_point == 0


def test_a_basket_holds_features_and_labels():
    features = sparse.csr_matrix(np.array([[3, 0, 0, 0], [0, 0, 2, 1], [0, 0, 0, 0]], np.float32))
    labels = sparse.csr_matrix(np.array([[0, 1, 0, 1], [1, 0, 0, 0], [0, 0, 0, 0]], np.float32))
    found = Points(features, labels).baskets()
    np.testing.assert_array_equal(
        found.features.toarray(), [[3, 1, 0, 1], [1, 0, 2, 1], [0, 0, 0, 0]]
    )
    np.testing.assert_array_equal(found.labels.toarray(), [[1, 1, 0, 1], [1, 0, 1, 1], [0] * 4])
    assert found.features.dtype == found.labels.dtype == np.float32
    assert found.features.has_canonical_format


def test_a_basket_with_labels_that_came_later():
    features, labels = np.float32([[0, 2], [1, 0]]), np.float32([[1, 0, 0, 1], [0, 0, 1, 0]])
    found = Points(sparse.csr_matrix(features), sparse.csr_matrix(labels)).baskets()
    assert found.features.toarray().tolist() == [[1, 2], [1, 0]]
    assert found.labels.toarray().tolist() == [[1, 1, 0, 1], [1, 0, 1, 0]]


def test_a_basket_needs_a_label_for_each_item():
    points = Points(sparse.csr_matrix((2, 5)), sparse.csr_matrix((2, 4)))
    with pytest.raises(InputError, match="found 5 features, 4 labels, expected the same items"):
        points.baskets()

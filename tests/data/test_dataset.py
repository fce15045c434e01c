"""Points and data sets: what they refuse, baskets of items, splits, and how they are shown."""

import dataclasses
import re

import numpy as np
import pytest
from data.toy_folders import TEST, TRAIN
from scipy import sparse

from snm.data.dataset import Dataset, Points
from snm.data.load import load
from snm.errors import InputError


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "array", "csr_array"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, bool, np.int64])
def test_matrices_of_each_form_become_csr(form, dtype):
    features, labels = np.array([[0, 1, 0], [1, 0, 1]], dtype), np.array([[1, 0], [0, 1]], dtype)

    def converted(matrix):
        if form == "array" or dtype is np.float16:  # of which SciPy has no matrices
            return matrix
        if form == "csr_array":
            return sparse.csr_array(matrix)
        return getattr(sparse, f"{form}_matrix")(matrix)

    points = Points(converted(features), converted(labels))
    for matrix, given in ((points.features, features), (points.labels, labels)):
        assert isinstance(matrix, sparse.csr_matrix) and matrix.dtype == np.float32
        np.testing.assert_array_equal(matrix.toarray(), given.astype(np.float32))


def test_a_csr_matrix_is_not_copied():
    features = sparse.csr_matrix(np.eye(3, dtype=np.float32))
    assert Points(features, features).features is features


def test_what_is_no_matrix_of_numbers():
    features, labels = np.ones((2, 5)), np.ones((2, 4))
    for wrong, found in (
        ([[1, 2]], "a list"),
        (np.ones(2), "an array of float64 and 1 dimension"),
        (np.array([["a"]]), "an array of <U1 and 2 dimensions"),
        (sparse.csr_matrix(np.ones((2, 5), complex)), "an array of complex128 and 2 dimensions"),
    ):
        with pytest.raises(InputError, match=rf"^features: found {found}, expected .*\[n, d\]"):
            Points(wrong, labels)
        with pytest.raises(InputError, match=rf"^labels: found {found}, expected .*\[n, K\]"):
            Points(features, wrong)


def test_points_of_different_lengths():
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


def test_a_filter_and_weights_may_be_lists():
    features, labels = sparse.eye(3, format="csr"), sparse.eye(3, format="csr")
    points = Points(features, labels, [(0, 1)], [1, 0, 2.5], [1, 1, 2])
    assert points.filter.dtype == np.int64 and points.filter.tolist() == [[0, 1]]
    assert points.weights.dtype == points.label_weights.dtype == np.float32
    assert points.weights.tolist() == [1, 0, 2.5] and points.label_weights.tolist() == [1, 1, 2]
    assert points.take(np.array([2, 0])).filter.tolist() == [[1, 1]]
    for none in ([], np.empty(0, np.int64), np.empty((0, 2))):
        assert Points(features, labels, none).filter.shape == (0, 2)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"filter": [(0.5, 1)]}, "filter: found an array of float64, expected pairs of a row and"),
        (
            {"filter": [0, 1]},
            r"filter: found shape \(2,\), expected pairs of a row and a label, \[",
        ),
        ({"filter": [(0, 1), (2,)]}, "filter: found lists of different lengths, expected pairs"),
        ({"filter": [(0, -1)]}, "filter: found rows 0 to 0, labels -1 to -1, expected below 3"),
        ({"weights": "heavy"}, "weights of points: found a str, expected one weight a point"),
        ({"weights": [1, "2", 3]}, "weights of points: found an array of <U.*, expected one"),
        ({"weights": [1, 1e300, 1]}, "weights of points: found inf of point 1, expected a finite"),
        (
            {"weights": [1, 1e-60, 1]},
            "weights of points: found 1e-60, which float32 cannot hold, expected one weight",
        ),
        ({"label_weights": np.full(3, 1e-60)}, "weights of labels: found 1e-60, which float32"),
        ({"label_weights": [1, None, 1]}, "weights of labels: found an array of object, expected"),
        ({"label_weights": [1, 2]}, r"weights of labels: found shape \(2,\) for 3 labels"),
    ],
)
def test_what_is_no_filter_or_weight(more, said):
    features, labels = sparse.eye(3, format="csr"), sparse.eye(3, format="csr")
    with pytest.raises(InputError, match=f"^{said}"):
        Points(features, labels, **more)


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


def test_split_is_a_seeded_partition():
    n = 50
    features = sparse.csr_matrix(np.arange(1, n + 1, dtype=np.float32)[:, None])
    labels = sparse.csr_matrix(np.eye(n, dtype=np.float32))
    pairs = np.stack([np.arange(n), np.arange(n)[::-1]], axis=1)
    data = Dataset("toy", Points(features, labels, pairs), None, None, "0" * 64)
    split = data.split(0.3, seed=1)
    train, held = (part.features.toarray()[:, 0].astype(int) for part in (split.train, split.test))
    assert len(held) == 15
    assert sorted([*train, *held]) == list(range(1, n + 1))
    assert sorted(held) == list(held)
    for part in (split.train, split.test):
        value = part.features.toarray()[:, 0].astype(int)
        assert part.labels.indices.tolist() == (value - 1).tolist()
        rows, others = part.filter[:, 0], part.filter[:, 1]
        assert sorted(rows) == list(range(part.num_points))
        assert (value[rows] - 1 + others == n - 1).all()
    again = data.split(0.3, seed=1).test.features.toarray()[:, 0]
    assert again.tolist() == held.tolist()
    assert data.split(0.3, seed=2).test.features.toarray()[:, 0].tolist() != held.tolist()
    for fraction in (0, 1, -0.1, 0.001, 0.999, float("nan")):
        with pytest.raises(InputError, match="validation_fraction"):
            data.split(fraction, seed=0)


def test_data_are_shown_in_one_line(tmp_path):
    """Names of labels, which may be millions, are not."""
    (tmp_path / "train.txt").write_text(TRAIN)
    (tmp_path / "test.txt").write_text(TEST)
    (tmp_path / "labels.txt").write_text("one\ntwo\nthree\nfour\n")
    data = load(tmp_path, cache=None)
    sizes = "5 features, 4 labels"
    assert repr(data) == f"Dataset({data.name!r}: 3 training and 2 test points, {sizes})"
    assert repr(data.train) == f"Points(3 points, {sizes})"


def test_the_hash_of_a_data_set_in_memory():
    """It tells data sets apart in all that training reads, and no others."""
    features, labels, other = np.eye(3), np.eye(3, 2), np.eye(3)[::-1]
    train, weights = Points(features, labels), np.ones(3, np.float32)
    pairs = np.array([[0, 1]])
    made = [
        Dataset("a", train),
        Dataset("a", Points(other, labels)),
        Dataset("a", Points(features, labels[::-1])),
        Dataset("a", Points(np.eye(3, 4), labels)),
        Dataset("a", Points(features, labels, weights=weights)),
        Dataset("a", Points(features, labels, weights=2 * weights)),
        Dataset("a", Points(features, labels, weights=weights, mean_weight=2.0)),
        Dataset("a", Points(features, labels, label_weights=weights[:2])),
        Dataset("a", Points(features, labels, pairs)),
        Dataset("a", train, train),
        Dataset("a", train, Points(other, labels)),
        Dataset("a", train, None, ("x", "y")),
        Dataset("a", train, None, ("y", "x")),
    ]
    assert len({data.sha256 for data in made}) == len(made)
    assert all(re.fullmatch("[0-9a-f]{64}", data.sha256) for data in made)
    same = Points(sparse.coo_matrix(features), labels.astype(bool))
    assert Dataset("b", same, None, None, "").sha256 == made[0].sha256
    assert Dataset("b", same, None, ["x", "y"]).sha256 == made[11].sha256
    assert dataclasses.replace(made[0], test=train).sha256 == made[0].sha256
    assert Dataset("a", train, None, None, "given").sha256 == "given"


def test_test_points_of_other_sizes():
    train = Points(np.eye(3), np.eye(3, 2))
    for test, said in (
        (Points(np.eye(3, 4), np.eye(3, 2)), "test features: found 4 columns, expected 3, as in"),
        (Points(np.eye(3), np.eye(3, 1)), "test labels: found 1 column, expected 2, as in train"),
    ):
        with pytest.raises(InputError, match=f"^{said}"):
            Dataset("a", train, test)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("a",), "found 1 name, expected 2, one a label"),
        (("a", "b", "c"), "found 3 names, expected 2, one a label"),
        (("a", "b\nc"), r"found 'b\\nc' of label 1, expected texts of one line"),
        (("a", "b\r"), r"found 'b\\r' of label 1, expected texts of one line"),
        (("a", 3), "found 3 of label 1, expected texts of one line"),
    ],
)
def test_names_that_no_file_of_names_could_hold(names, said):
    with pytest.raises(InputError, match=f"^label_names: {said}"):
        Dataset("a", Points(np.eye(3), np.eye(3, 2)), None, names)

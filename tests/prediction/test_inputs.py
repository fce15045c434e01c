"""What a predictor is asked, and how it shows itself."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.sparse import csr_matrix

import snm
from snm.data.vectorizer import Vectorizer
from snm.errors import InputError
from snm.prediction.inputs import as_rows

WORDS = Vectorizer("counts", 3, vocabulary=("deep", "graph", "of"))


def test_matrices_and_texts_become_rows():
    dense = np.eye(3, dtype=np.float32)
    swapped = dense.astype(dense.dtype.newbyteorder())
    for given in (dense, csr_matrix(dense), jnp.asarray(dense), swapped):
        np.testing.assert_array_equal(as_rows(given, 3, None).toarray(), dense)
    texts = ["graph of a graph", "else"]
    for given in (texts, tuple(texts), np.array(texts), np.array(texts, object)):
        assert as_rows(given, 3, WORDS).toarray().tolist() == [[0, 2, 1], [0] * 3]


def test_a_feature_twice_is_added_up():
    """A file or a request cannot hold one twice; rows of SciPy can."""
    given = csr_matrix((np.ones(3, np.float32), [2, 0, 2], [0, 3]), shape=(1, 3))
    found = as_rows(given, 3, None)
    assert found.indices.tolist() == [0, 2] and found.data.tolist() == [1, 2]
    assert given.nnz == 3  # the caller's own


def test_lists_of_numbers():
    given = [[0, 2, 0], [1.5, 0, -1]]
    assert as_rows(given, 3, None).toarray().tolist() == given
    rows = [np.array(row) for row in given]
    assert as_rows(rows, 3, WORDS).toarray().tolist() == given


def test_a_stored_zero_is_no_feature():
    """A user does not have an item 0 times: its label may be an answer."""
    stored = np.array([1, 0, 2, -2], np.float32), [0, 1, 2, 2], [0, 4]
    given = csr_matrix(stored, shape=(1, 3))
    found = as_rows(given, 3, None)
    assert found.indices.tolist() == [0] and found.data.tolist() == [1]
    assert given.nnz == 4 and as_rows(given[:0], 3, None).shape == (0, 3)


@pytest.mark.parametrize(
    ("given", "words", "said"),
    [
        (np.eye(4), None, "features: found 4 columns, expected 3, as in training"),
        ("one text", WORDS, "texts: found one text, expected a list of texts"),
        (["a text"], None, "texts: found a model of features"),
        (np.array(["a text"]), None, "texts: found a model of features"),
        ([[1, 2]], None, "features: found 2 columns, expected 3"),
        ([[1, 2, 3], [1]], None, "features: found a list of others, expected lists of 3 numbers"),
        ([None, "a text"], WORDS, "texts: found None at index 0, expected a text"),
        (["a text", None], WORDS, "texts: found None at index 1, expected a text"),
        ([None], WORDS, "texts: found None at index 0, expected a text"),
        (np.array(["a", None], object), WORDS, "texts: found None at index 1, expected a text"),
        (np.array([3], object), WORDS, "texts: found an array of other objects"),
        (["a text", 3], WORDS, "texts: found a value of type int at index 1, expected a text"),
        ([[1, 2, 3], None], None, "features: found None at index 1, expected a row of 3 numbers"),
        (None, WORDS, "features: found a value of type NoneType, expected a list of texts"),
        (np.eye(1), None, "features: found 1 column, expected 3, as in training"),
        (np.array([[1, np.nan, 0]]), None, "features: found a value that is not finite in row 0, "),
        (np.array([[1, 2, 0], [0, 0, -np.inf]]), None, "not finite in row 1, column 2, expected"),
        (np.zeros((2, 3, 1)), None, "features: found an array of float64 and 3 dimensions"),
        (np.array([[1, 2, "a"]], object), None, "features: found an array of object and 2 dim"),
        (np.array([["a", "b", "c"]]), WORDS, "features: found an array of <U1 and 2 dimensions"),
        (np.ones((1, 3), complex), None, "features: found an array of complex128 and 2 dim"),
        (
            csr_matrix(np.ones((1, 3), complex)),
            None,
            "features: found an array of complex128 and 2",
        ),
    ],
)
def test_what_cannot_be_asked(given, words, said):
    with pytest.raises(InputError, match=said):
        as_rows(given, 3, words)


def test_a_predictor_shows_its_sizes(tiny_run):
    shown = repr(snm.load(tiny_run / "run"))
    assert shown.startswith("Predictor(") and shown.count("\n") == 0 and len(shown) < 100
    assert "labels" in shown and "features" in shown and "member" in shown


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float16, np.float64, bool])
def test_what_a_row_holds_twice_is_added_up_in_float32(dtype):
    """In bytes, 200 and 100 would be 44; of True and True, the sum is 2."""
    ids, starts = np.array([0, 0, 1]), np.array([0, 3])
    values = np.array([200, 100, 5]).astype(dtype)
    rows = as_rows(csr_matrix((values, ids, starts), shape=(1, 3)), 3, None)
    assert rows.dtype == np.float32 and rows.toarray().tolist() == [
        [2, 1, 0] if dtype is bool else [300, 5, 0]
    ]


@pytest.mark.parametrize("dtype", [np.uint8, ">i2", np.float16, np.float64, np.longdouble, bool])
def test_an_array_of_each_type_of_numbers(dtype):
    rows = as_rows(np.array([[0, 1, 0], [1, 0, 1]], dtype), 3, None)
    assert rows.dtype == np.float32 and rows.toarray().tolist() == [[0, 1, 0], [1, 0, 1]]


def test_what_overflows_float32_is_not_finite():
    with pytest.raises(InputError, match="a value that is not finite"):
        as_rows(np.array([[1e300, 1, 0]]), 3, None)

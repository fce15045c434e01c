"""What a predictor is asked, and how it shows itself."""

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
    for given in (dense, csr_matrix(dense)):
        np.testing.assert_array_equal(as_rows(given, 3, None).toarray(), dense)
    assert as_rows(["graph of a graph", "else"], 3, WORDS).toarray().tolist() == [
        [0, 2, 1],
        [0] * 3,
    ]


@pytest.mark.parametrize(
    ("given", "words", "said"),
    [
        (np.eye(4), None, "features: found 4 columns, expected 3, as in training"),
        ("one text", WORDS, "texts: found one text, expected a list of texts"),
        (["a text"], None, "texts: found a model of features"),
    ],
)
def test_what_cannot_be_asked(given, words, said):
    with pytest.raises(InputError, match=said):
        as_rows(given, 3, words)


def test_a_predictor_shows_its_sizes(tiny_run):
    shown = repr(snm.load(tiny_run / "run"))
    assert shown.startswith("Predictor(") and shown.count("\n") == 0 and len(shown) < 100
    assert "labels" in shown and "features" in shown and "member" in shown

"""Features as the words that a package for texts reads."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from snm.compare.peers.words import are_counts, as_words


def test_counts_repeat_a_word_up_to_ten_times() -> None:
    x = csr_matrix([[2.0, 0.0, 1.0], [0.0, 0.0, 0.0], [0.0, 40.0, 0.0]])
    assert list(as_words(x, counted=True)) == ["0 0 2", "", " ".join(["1"] * 10)]


def test_other_values_give_one_word_per_feature() -> None:
    x = csr_matrix(([0.3, -7.0, 0.0], ([0, 0, 1], [4, 2, 1])), shape=(2, 5))
    assert list(as_words(x.tocsr(), counted=False)) == ["2 4", ""]


@pytest.mark.parametrize(
    ("values", "expected"),
    [([1, 2, 1000], True), ([1, 0.5], False), ([-1, 2], False), ([2019, 1], False),
     ([np.inf], False), ([], True)],
)  # fmt: skip
def test_are_counts(values: list[float], expected: bool) -> None:
    assert are_counts(csr_matrix(np.array([values], np.float32))) is expected

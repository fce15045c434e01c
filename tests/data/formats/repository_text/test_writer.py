"""What is written reads back."""

import itertools

import numpy as np
import pytest
from data.formats.text_files import GOOD, same, written
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from snm.data.formats.repository_text.reader import read_text
from snm.data.formats.repository_text.writer import write_text
from snm.errors import InputError


@st.composite
def points(draw):
    n, d, k = (draw(st.integers(1, 6)) for _ in range(3))
    value = st.floats(width=32, allow_nan=False, allow_infinity=False)
    features = draw(st.lists(st.dictionaries(st.integers(0, d - 1), value), min_size=n, max_size=n))
    labels = draw(st.lists(st.sets(st.integers(0, k - 1)), min_size=n, max_size=n))

    def csr(rows, values, width):
        indptr = np.cumsum([0, *map(len, rows)])
        ids = list(itertools.chain.from_iterable(rows))
        return sparse.csr_matrix((np.array(values, np.float32), ids, indptr), shape=(n, width))

    flat = [v for row in features for v in row.values()]
    count = sum(map(len, labels))
    return csr(features, flat, d), csr(labels, np.ones(count), k)


@settings(deadline=None)
@given(points(), st.sampled_from(["x.txt", "x.txt.gz"]))
def test_what_is_written_reads_back_bit_for_bit(tmp_path_factory, matrices, name):
    path = tmp_path_factory.mktemp("round") / name
    write_text(path, *matrices)
    matrices[0].eliminate_zeros()
    for matrix, back in zip(matrices, read_text(path), strict=True):
        same(matrix, back)
    assert list(path.parent.iterdir()) == [path]


def test_write_leaves_the_old_file_when_it_fails(tmp_path):
    path = written(tmp_path, GOOD)
    features, labels = read_text(path)
    with pytest.raises(InputError, match="3 rows of features and 2 of labels"):
        write_text(path, features, labels[:2])
    assert path.read_text() == GOOD
    with pytest.raises(InputError, match="not finite"):
        write_text(path, features * np.float32(np.inf), labels)
    assert path.read_text() == GOOD
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(InputError, match="no such file"):
        write_text(tmp_path / "none" / "train.txt", features, labels)

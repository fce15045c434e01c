"""Copies of a data set beside each other."""

import numpy as np
import pytest

import snm
from experiments.sets.copies import main
from snm.data.formats.repository_text.writer import write_text
from snm.errors import InputError


def test_copies_share_nothing_and_are_each_the_data_set(tmp_path):
    made = snm.generate(points=40, test_points=10, features=30, labels=20, seed=0)
    (tmp_path / "data").mkdir()
    for name, points in (("train", made.train), ("test", made.test)):
        write_text(tmp_path / f"data/{name}.txt", points.features, points.labels)
    main(str(tmp_path / "data"), tmp_path / "copies", times=3, test_points=4)
    found = snm.load_data(tmp_path / "copies")
    assert (found.train.num_points, found.test.num_points) == (120, 12)
    assert (found.train.num_features, found.train.num_labels) == (90, 60)
    dense = found.train.labels.toarray()
    for copy in range(3):
        rows, columns = slice(40 * copy, 40 * copy + 40), slice(20 * copy, 20 * copy + 20)
        np.testing.assert_array_equal(dense[rows, columns], made.train.labels.toarray())
    assert dense.sum() == 3 * made.train.labels.nnz
    last = found.test.features[8:].toarray()
    np.testing.assert_array_equal(last[:, 60:], made.test.features[:4].toarray())
    assert not last[:, :60].any()
    with pytest.raises(InputError, match=r"copies: found a folder that exists, expected a new one"):
        main(str(tmp_path / "data"), tmp_path / "copies")

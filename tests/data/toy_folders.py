"""A data set of five points as a folder, and what loading it must give."""

import numpy as np

TRAIN = "3 5 4\n1,3 0:1 4:2\n 2:1\n0 1:1\n"
TEST = "2 5 4\n3 4:1\n2 0:1 2:2\n"
TRAIN_X = [[1, 0, 0, 0, 2], [0, 0, 1, 0, 0], [0, 1, 0, 0, 0]]
TRAIN_Y = [[0, 1, 0, 1], [0, 0, 0, 0], [1, 0, 0, 0]]
TEST_X = [[0, 0, 0, 0, 1], [1, 0, 2, 0, 0]]
TEST_Y = [[0, 0, 0, 1], [0, 0, 1, 0]]


def put(folder, **files):
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def one_file(folder):
    return put(folder, **{"train.txt": TRAIN, "test.txt": TEST})


def check(data):
    assert data.train.features.toarray().tolist() == TRAIN_X
    assert data.train.labels.toarray().tolist() == TRAIN_Y
    assert data.test.features.toarray().tolist() == TEST_X
    assert data.test.labels.toarray().tolist() == TEST_Y
    for points in (data.train, data.test):
        for matrix in (points.features, points.labels):
            assert matrix.dtype == np.float32
            assert matrix.format == "csr"
            assert matrix.has_sorted_indices
        assert (points.num_features, points.num_labels) == (5, 4)
    assert (data.train.num_points, data.test.num_points) == (3, 2)

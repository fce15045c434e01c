"""Statistics: a data set that is counted by hand, then the real data sets."""

import json
import re

import numpy as np
import pytest
from command_line import call
from real_data import real_data_folder
from scipy import sparse

from snm.data import statistics
from snm.data.dataset import Dataset, Points
from snm.data.load import load
from snm.data.statistics import describe, dominant_feature, duplicate_test_rows


def points(features, labels, **more):
    return Points(*(sparse.csr_matrix(np.array(m, np.float32)) for m in (features, labels)), **more)


def toy():
    train = points(
        [[1, 0, 2, 0], [0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 3, 0]],
        [[1, 1, 0], [0, 0, 0], [1, 0, 0], [1, 0, 0]],
    )
    test = points(
        [[1, 0, 2, 0], [1, 0, 1, 0], [0, 0, 0, 0], [2, 0, 0, 0], [0, 0, 0, 5]],
        [[1, 0, 0], [0, 0, 1], [0, 0, 0], [0, 1, 0], [0, 0, 1]],
        filter=np.array([[0, 1]]),
    )
    return Dataset("toy", train, test, None, "0" * 64)


def test_counted_by_hand():
    assert describe(toy()) == {
        "name": "toy",
        "sha256": "0" * 64,
        "features": 4,
        "labels": 3,
        "train_points": 4,
        "test_points": 5,
        "points_per_label": 4 / 3,
        "labels_per_point": 1.0,
        "nonzeros_per_point": 1.0,
        "train_without_labels": 1,
        "train_without_features": 1,
        "test_without_labels": 1,
        "test_without_features": 1,
        # frequencies 0, 1, 3: linear between them
        "label_frequency_deciles": [0, 0, 0, 0, 1, 1, 1, 3, 3, 3, 3],
        "labels_never_in_train": 1,
        "labels_only_in_test": 1,
        "empty_features": 2,
        "duplicate_test_rows": 1,  # and one without features, as a training point
        "duplicate_test_share": 0.2,
        "filter_pairs": 1,
    }
    json.dumps(describe(toy()))


def test_the_table_says_what_deciles_are(monkeypatch, capsys):
    """A line each, so that no width breaks a number; the frequencies are 0, 1 and 3."""
    monkeypatch.setattr("snm.data.load.load", lambda name: toy())
    call("data", "stats", "toy")
    shown = re.sub(r"[│\s]+", " ", capsys.readouterr().out)
    lines = [
        "the rarest label has 0",
        *(f"{share}% of the labels have at most 0" for share in (10, 20, 30)),
        *(f"{share}% of the labels have at most 1" for share in (40, 50, 60)),
        *(f"{share}% of the labels have at most 3" for share in (70, 80, 90)),
        "the most frequent label has 3",
    ]
    assert "decile" not in shown and "training points of a label the rarest" in shown
    assert all(f" {line} " in shown for line in lines)


def test_without_test_points():
    alone = Dataset("toy", toy().train, None, None, "")
    stats = describe(alone)
    assert (stats["test_points"], stats["duplicate_test_rows"]) == (0, 0)


def test_stored_zeros_are_absent_in_duplicates():
    stored = sparse.csr_matrix((np.array([1, 0], np.float32), [0, 1], [0, 2]), shape=(1, 2))
    plain = sparse.csr_matrix(np.array([[1, 0]], np.float32))
    label = sparse.csr_matrix(np.ones((1, 1), np.float32))
    for train, test in ((stored, plain), (plain, stored)):
        data = Dataset("toy", Points(train, label), Points(test, label), None, "")
        assert duplicate_test_rows(data.test.features, data.train.features).tolist() == [True]
        assert stored.nnz == 2


@pytest.mark.parametrize("blocks", [1 << 19, 7])
def test_duplicates_against_a_brute_force(monkeypatch, blocks):
    monkeypatch.setattr(statistics, "_ENTRIES", blocks)
    rng = np.random.default_rng(0)
    train, test = (rng.integers(0, 2, (40, 5)) for _ in range(2))
    labels = np.ones((40, 1))
    data = Dataset("toy", points(train, labels), points(test, labels), None, "")
    expected = [row.any() and any((row == other).all() for other in train) for row in test]
    assert 0 < sum(expected) < 40
    assert duplicate_test_rows(data.test.features, data.train.features).tolist() == expected


def test_real_statistics():
    """The figures in the data set's README, and its 29% of repeated rows."""
    for name, unlabelled, repeated in [
        ("delicious", 14, 0.29),
        ("citeulike-t-14k", 0, 0.01),
        ("gowalla", 0, 0),
    ]:
        stats = describe(load(real_data_folder(name), cache=None))
        assert stats["train_without_labels"] + stats["test_without_labels"] == unlabelled
        assert round(stats["duplicate_test_share"], 2) == repeated


@pytest.mark.parametrize("blocks", [1 << 19, 7])
def test_a_feature_in_another_unit_is_named(monkeypatch, blocks):
    monkeypatch.setattr(statistics, "_ENTRIES", blocks)
    rng = np.random.default_rng(0)
    words = rng.random((50, 20)) * (rng.random((50, 20)) < 0.3)
    assert dominant_feature(sparse.csr_matrix(words)) is None
    rows = np.column_stack([words, rng.uniform(1, 6, 50)])
    rows[3] = 0
    squares = rows**2 / np.maximum((rows**2).sum(axis=1, keepdims=True), 1e-30)
    said = dominant_feature(sparse.csr_matrix(rows))
    assert said.startswith(f"feature 20 makes up {squares[:, 20].sum() / 50:.0%} of")
    assert dominant_feature(sparse.csr_matrix((3, 4))) is None

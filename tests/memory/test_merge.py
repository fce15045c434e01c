"""Two memories in one, and their votes."""

import dataclasses

import numpy as np
from scipy.sparse import csr_matrix

from snm.memory.memory import Memory, MemorySettings
from snm.memory.merge import merge_memories

SETTINGS = MemorySettings(neighbors=3, power=1.0, feature_share=0.5, weight=2.0)


def memory(features, labels, first_row=0):
    """Points whose query is the number of the point and 1."""
    rows = first_row + np.arange(len(features))
    queries = np.stack([rows, np.ones(len(rows))], axis=1).astype(np.float16)
    features, labels = (csr_matrix(np.asarray(x, np.float32)) for x in (features, labels))
    return Memory(features, labels, queries, rows, SETTINGS)


def rows_of(found):
    """A line for each point: its number, features, labels and query."""
    return [
        (int(row), *(x.toarray()[i].tolist() for x in (found.features, found.labels)), query)
        for i, (row, query) in enumerate(zip(found.rows, found.queries.tolist(), strict=True))
    ]


def test_new_points_follow_the_old_ones_and_labels_may_be_more():
    old = memory([[1, 2], [0, 3]], [[1, 0], [0, 1]])
    new = memory([[5, 0]], [[1, 0, 1]], first_row=7)
    assert rows_of(merge_memories(old, new)) == [
        (0, [1, 2], [1, 0, 0], [0, 1]),
        (1, [0, 3], [0, 1, 0], [1, 1]),
        (7, [5, 0], [1, 0, 1], [7, 1]),
    ]
    assert merge_memories(old, new).settings == SETTINGS
    assert old.labels.shape == (2, 2)


def test_a_point_told_again_gives_way():
    old = memory([[1, 2], [1, 2], [1, 3], [0, 2]], [[1, 0], [0, 1], [1, 0], [1, 0]])
    new = memory([[1, 2], [0, 2]], [[1, 0, 1], [0, 1, 1]], first_row=10)
    # The second has another label, the third other values, the last other labels.
    assert merge_memories(old, new).rows.tolist() == [1, 2, 3, 10, 11]


def test_a_point_takes_the_place_of_one_alone():
    """Of several that are alike, of the one with all of its labels, if there is one."""
    alike = [1, 0, 2]
    old = memory([alike] * 5, [[1, 0, 0], [1, 1, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]])
    for labels, left in (
        ([[1, 1, 0]], [0, 2, 3, 4]),
        ([[1, 1, 0]] * 3, [2, 4]),  # two have all of its labels; the third takes the first's place
        ([[1, 1, 1]], [1, 2, 3, 4]),
        ([[0, 0, 0]], [0, 1, 2, 3, 4]),
        ([[1, 1, 1]] * 9, []),
    ):
        new = memory([alike] * len(labels), labels, 10)
        found = merge_memories(old, new).rows.tolist()
        assert found == [*left, *range(10, 10 + len(labels))]


def test_votes_are_those_of_all_points():
    """The added points are stored as if they had always been there."""
    rng = np.random.default_rng(0)
    features = (rng.random((40, 12)) * (rng.random((40, 12)) < 0.4)).astype(np.float32)
    labels = (rng.random((40, 6)) < 0.3).astype(np.float32)
    labels[:25, 5] = 0  # a new label
    whole = memory(features, labels)
    found = merge_memories(
        memory(features[:25], labels[:25, :5]), memory(features[25:], labels[25:], 25)
    )
    points = csr_matrix((rng.random((8, 12)) * (rng.random((8, 12)) < 0.5)).astype(np.float32))
    queries = rng.normal(size=(8, 2)).astype(np.float32)
    added = found.additions(points, queries).toarray()
    np.testing.assert_allclose(added, whole.additions(points, queries).toarray(), rtol=1e-6)
    assert added[:, 5].any()


def test_without_queries():
    alone = {"queries": None, "settings": dataclasses.replace(SETTINGS, feature_share=1.0)}
    old = dataclasses.replace(memory([[1, 2]], [[1, 0]]), **alone)
    found = merge_memories(old, dataclasses.replace(memory([[3, 0]], [[0, 1]]), **alone))
    assert found.queries is None and found.features.toarray().tolist() == [[1, 2], [3, 0]]


def test_weights_follow_their_points():
    old, new = memory([[1, 2], [0, 3]], [[1, 0], [0, 1]]), memory([[1, 2]], [[1, 1]], first_row=7)
    assert merge_memories(old, new).weights is None
    weighted = dataclasses.replace(old, weights=np.array([0.5, 2], np.float32))
    assert merge_memories(weighted, new).weights.tolist() == [2, 1]
    other = dataclasses.replace(new, weights=np.array([3], np.float32))
    assert merge_memories(old, other).weights.tolist() == [1, 3]

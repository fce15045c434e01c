"""The nearest stored points, against all cosines in float64."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix, random

from snm.memory import neighbors
from snm.memory.neighbors import StoredPoints, _blocks, _keep_rare_features, nearest, unit_rows


@pytest.mark.parametrize("dense", [False, True])
def test_nearest_are_those_of_all_cosines(dense, monkeypatch):
    rng = np.random.default_rng(5)
    stored = random(3000, 40, 0.2, "csr", np.float32, rng)
    asked = random(30, 40, 0.2, "csr", np.float32, rng)
    if dense:
        monkeypatch.setattr(neighbors, "_MAX_BLOCK", 7 * 3000)  # blocks of 7 rows
        stored = csr_matrix(rng.normal(0.3, 1, (3000, 40)).astype(np.float32))
    found = nearest(unit_rows(asked), unit_rows(stored).T.tocsr(), 20)
    x, q = stored.toarray().astype(np.float64), asked.toarray().astype(np.float64)
    lengths = np.outer(np.linalg.norm(q, axis=1), np.linalg.norm(x, axis=1))
    cosines = np.divide(q @ x.T, lengths, out=np.zeros(lengths.shape), where=lengths > 0)
    expected = -np.sort(-cosines, axis=1)[:, :20]
    np.testing.assert_allclose(-np.sort(-found.cosines, axis=1), expected, atol=1e-6)
    rows = np.arange(len(cosines))[:, None]
    np.testing.assert_allclose(cosines[rows, found.ids], found.cosines, atol=1e-6)
    assert all(len(set(ids)) == 20 for ids in found.ids.tolist())


@pytest.mark.parametrize("cores", [1, 3])
@pytest.mark.parametrize("block", [1 << 20, 2000, 1])  # one block, several, and one for each point
def test_blocks_and_cores_change_nothing(cores, block, monkeypatch):
    rng = np.random.default_rng(6)
    among = StoredPoints(random(400, 40, 0.2, "csr", np.float32, rng))
    asked = random(100, 40, 0.2, "csr", np.float32, rng)
    monkeypatch.setattr(neighbors, "MAX_READ", 300)  # most points have more to read
    expected = among.similar(asked, 20)
    monkeypatch.setattr(neighbors, "_MAX_BLOCK", block)
    monkeypatch.setattr(neighbors, "_MIN_BLOCK", 1)
    monkeypatch.setattr(neighbors, "num_cores", lambda: cores)
    found = among.similar(asked, 20)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.cosines, expected.cosines)


def test_blocks_hold_few_entries(monkeypatch):
    """Of long points among short ones, too, and of rows of results where points have no entries."""
    monkeypatch.setattr(neighbors, "num_cores", lambda: 2)
    for entries in (
        np.full(1_000_000, 200),
        np.array([5] * 1000 + [300_000] * 9),
        np.zeros(0, int),
    ):
        blocks = _blocks(entries)
        assert sum(block.stop - block.start for block in blocks) == len(entries)
        assert all(entries[block].sum() <= 1 << 20 for block in blocks)


def test_few_or_no_neighbours_are_padded():
    stored = csr_matrix(np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0]], np.float32))
    asked = csr_matrix(np.array([[1, 0, 0], [0, 0, 1]], np.float32))
    found = nearest(asked, unit_rows(stored).T.tocsr(), 3)
    cosines = dict(zip(found.ids[0].tolist(), found.cosines[0].tolist(), strict=True))
    assert cosines == {0: 1, 2: pytest.approx(0.5**0.5), -1: 0}
    assert (
        found.ids[0, 2] == -1 and found.ids[1].tolist() == [-1] * 3 and not found.cosines[1].any()
    )


def test_a_search_reads_the_rarest_features_first():
    """Features of 5, 1, 2 and 0 stored points: a point reads at most 3 entries, or one feature."""
    frequency = np.array([5, 1, 2, 0])
    asked = csr_matrix(
        np.array([[1, 2, 3, 4], [1, 0, 0, 4], [1, 0, 3, 0], [0, 0, 0, 0]], np.float32)
    )
    counts = frequency[asked.indices]
    read = _keep_rare_features(asked, counts, 3)
    expected = [[0, 2, 3, 4], [1, 0, 0, 4], [0, 0, 3, 0], [0, 0, 0, 0]]
    np.testing.assert_array_equal(read.toarray(), expected)
    np.testing.assert_array_equal(_keep_rare_features(asked, counts, 8).toarray(), asked.toarray())


def _frequent(rng: np.random.Generator, points: int) -> csr_matrix:
    """Words as in texts: a feature's frequency falls with its rank, and its value rises."""
    drawn = rng.random((points, 300)) < np.linspace(1, 0.1, 300) ** 6
    return csr_matrix((drawn * (0.2 + np.arange(300) / 300)).astype(np.float32))


def test_similar_points_have_the_cosines_of_all_features(monkeypatch):
    rng = np.random.default_rng(8)
    stored, asked = _frequent(rng, 500), _frequent(rng, 40)
    among = StoredPoints(stored)
    whole = nearest(unit_rows(asked), among.by_feature, 30)
    reads = np.diff(among.by_feature.indptr)[asked.indices].sum() / 40
    monkeypatch.setattr(neighbors, "MAX_READ", int(reads / 3))
    found = among.similar(asked, 30)
    x, q = stored.toarray().astype(np.float64), asked.toarray().astype(np.float64)
    cosines = q @ x.T / np.outer(np.linalg.norm(q, axis=1), np.linalg.norm(x, axis=1))
    rows = np.arange(40)[:, None]
    np.testing.assert_allclose(found.cosines, cosines[rows, found.ids], atol=1e-6)
    shared = [np.isin(found.ids[row], whole.ids[row]).mean() for row in range(40)]
    assert 0.6 < np.mean(shared) < 1  # less is read, and most are found
    # Where little is read anyway, and where all features are dense, neighbours are those of all.
    monkeypatch.setattr(neighbors, "MAX_READ", 1 << 40)
    np.testing.assert_array_equal(among.similar(asked, 30).ids, whole.ids)
    monkeypatch.setattr(neighbors, "MAX_READ", 1)
    dense = csr_matrix(rng.normal(0, 1, (50, 8)).astype(np.float32))
    exact = nearest(unit_rows(dense[:5]), StoredPoints(dense).by_feature, 7)
    np.testing.assert_array_equal(StoredPoints(dense).similar(dense[:5], 7).ids, exact.ids)


def test_similar_points_of_few_are_padded(monkeypatch):
    monkeypatch.setattr(neighbors, "MAX_READ", 1)
    stored = csr_matrix(np.array([[3, 4], [1, 0], [0, 0]], np.float32))
    found = StoredPoints(stored).similar(csr_matrix(np.array([[1, 1], [0, 0]], np.float32)), 3)
    np.testing.assert_array_equal(found.ids, [[0, -1, -1], [-1, -1, -1]])  # by feature 1
    np.testing.assert_allclose(found.cosines, [[1.4 / 2**0.5, 0, 0], [0, 0, 0]], atol=1e-6)

"""The nearest stored points, against all cosines in float64."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix, random

from snm.memory import neighbors
from snm.memory.neighbors import _highest, nearest, unit_rows


@pytest.mark.parametrize("dense", [False, True])
def test_nearest_are_those_of_all_cosines(dense, monkeypatch):
    rng = np.random.default_rng(5)
    stored = random(3000, 40, 0.2, "csr", np.float32, rng)
    asked = random(30, 40, 0.2, "csr", np.float32, rng)
    if dense:
        monkeypatch.setattr(neighbors, "_BLOCK_COSINES", 7 * 3000)  # blocks of 7 rows
        stored = csr_matrix(rng.normal(0.3, 1, (3000, 40)).astype(np.float32))
    found = nearest(unit_rows(asked), unit_rows(stored).T.tocsr(), 20)
    x, q = stored.toarray().astype(np.float64), asked.toarray().astype(np.float64)
    lengths = np.outer(np.linalg.norm(q, axis=1), np.linalg.norm(x, axis=1))
    cosines = np.divide(q @ x.T, lengths, out=np.zeros(lengths.shape), where=lengths > 0)
    expected = -np.sort(-cosines, axis=1)[:, :20]
    np.testing.assert_allclose(found.cosines, expected, atol=1e-6)
    rows = np.arange(len(cosines))[:, None]
    np.testing.assert_allclose(cosines[rows, found.ids], expected, atol=1e-6)


def test_the_number_of_cores_changes_nothing(monkeypatch):
    rng = np.random.default_rng(6)
    stored = unit_rows(random(400, 40, 0.2, "csr", np.float32, rng)).T.tocsr()
    asked = unit_rows(random(100, 40, 0.2, "csr", np.float32, rng))
    found = []
    for cores in (1, 3):  # blocks of 100 and of 34 points
        monkeypatch.setattr(neighbors, "num_cores", lambda cores=cores: cores)
        found.append(nearest(asked, stored, 20))
    np.testing.assert_array_equal(found[0].ids, found[1].ids)
    np.testing.assert_array_equal(found[0].cosines, found[1].cosines)


def test_few_or_no_neighbours_are_padded():
    stored = csr_matrix(np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0]], np.float32))
    asked = csr_matrix(np.array([[1, 0, 0], [0, 0, 1]], np.float32))
    found = nearest(asked, unit_rows(stored).T.tocsr(), 3)
    np.testing.assert_array_equal(found.ids, [[0, 2, -1], [-1, -1, -1]])
    np.testing.assert_allclose(found.cosines, [[1, 0.5**0.5, 0], [0, 0, 0]], atol=1e-7)


@pytest.mark.parametrize("count", [1, 7, 200])
@pytest.mark.parametrize("size", [201, 3300, 20_000])
@pytest.mark.parametrize("kind", ["random", "ties", "high where no sample is", "low there"])
def test_the_highest_values(count, size, kind):
    rng = np.random.default_rng(size + count)
    values = rng.random(size, dtype=np.float32)
    if kind == "ties":
        values = np.rint(3 * values)
    elif kind != "random":
        values[::16] += -1 if kind == "high where no sample is" else 1
    found = _highest(values, count)
    assert len(np.unique(found)) == count
    np.testing.assert_array_equal(np.sort(values[found]), np.sort(values)[-count:])

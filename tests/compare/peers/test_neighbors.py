import numpy as np
import pytest
from scipy.sparse import csr_matrix

from snm.compare.peers.neighbors import NEIGHBORS, neighbors
from snm.memory import neighbors as search


def by_definition(x: np.ndarray, y: np.ndarray, x_test: np.ndarray, count: int) -> np.ndarray:
    """Dense float64: the sum of label rows of the nearest points times their cosines."""

    def unit(rows: np.ndarray) -> np.ndarray:
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)

    cosines = unit(x_test) @ unit(x).T
    votes = np.zeros((len(x_test), y.shape[1]))
    for row, cosine in enumerate(cosines):
        nearest = np.argsort(-cosine, kind="stable")[:count]
        votes[row] = cosine[nearest] @ y[nearest]
    return votes


@pytest.mark.parametrize("block", [1, 1 << 20])
def test_votes_by_definition(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    x = rng.random((200, 30)) * (rng.random((200, 30)) < 0.2)
    y = (rng.random((200, 12)) < 0.2).astype(float)
    x_test = rng.random((17, 30)) * (rng.random((17, 30)) < 0.2)
    x_test[4] = 0  # nothing is like a point without features
    monkeypatch.setattr(search, "_MAX_BLOCK", block)
    found, _, _ = neighbors(
        csr_matrix(x), csr_matrix(y), csr_matrix(x_test), k=5, seed=0, threads=1
    )
    votes = by_definition(x, y, x_test, NEIGHBORS)
    for row, answer in enumerate(found):
        best = np.sort(votes[row])[::-1][:5]
        known = answer[answer >= 0]
        np.testing.assert_allclose(votes[row, known], best[: len(known)], rtol=1e-6)
        assert (best[len(known) :] == 0).all()
    assert (found[4] == -1).all()

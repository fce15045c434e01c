import itertools

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from snm.config import evidence
from snm.config.evidence import evidence_lost, neighbors_lost
from snm.data.dataset import Points


def by_definition(x: np.ndarray, y: np.ndarray) -> float:
    """Loops over points and their labels, and enumerates the halves of their features."""
    means = []
    for point in range(len(x)):
        others = np.arange(len(x)) != point
        features = np.flatnonzero(x[point])
        lost = []
        for label in np.flatnonzero(y[point]):
            chance = y[others, label].mean()
            evidence = []
            for feature in features:
                having = others & (x[:, feature] > 0)
                share = y[having, label].mean() if having.any() else 0.0
                evidence.append(max(0.0, share - chance))
            halves = [
                max((e for e, kept in zip(evidence, keep, strict=True) if kept), default=0.0)
                for keep in itertools.product([False, True], repeat=len(features))
            ]
            lost.append(max(evidence, default=0.0) - np.mean(halves))
        if lost:
            means.append(np.mean(lost))
    return float(np.mean(means))


def problem(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.random((120, 25)) * (rng.random((120, 25)) < 0.12)
    y = (rng.random((120, 9)) < 0.2).astype(float)
    y[:, 0] = x[:, 3] > 0  # feature 3 names label 0
    return x, y


def points(x: np.ndarray, y: np.ndarray) -> Points:
    return Points(csr_matrix(x, dtype=np.float32), csr_matrix(y))


@pytest.mark.parametrize("seed", range(3))
def test_is_the_definition(seed: int) -> None:
    x, y = problem(seed)
    assert evidence_lost(points(x, y)) == pytest.approx(by_definition(x, y), abs=1e-12)


def test_counts_evenly_spaced_points_of_large_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = problem(7)
    data = points(x, y)
    # 40 of the 120 points: every third.
    products = 40 * data.features.nnz * data.labels.nnz / 120**2
    monkeypatch.setattr(evidence, "_PAIRS", products * 1.0001)
    assert evidence_lost(data) == pytest.approx(by_definition(x[::3], y[::3]), abs=1e-12)


def test_of_points_with_many_labels_some_labels_count(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    x, y = problem(5)
    y = np.concatenate([y, (rng.random((120, 31)) < 0.8).astype(float)], axis=1)
    data = points(x, y)
    products = 30 * data.features.nnz * data.labels.nnz / 120**2
    monkeypatch.setattr(evidence, "_PAIRS", products * 1.0001)
    monkeypatch.setattr(evidence, "_MIN_LABELS", 1)
    # A quarter of the labels leaves room for all 120 points.
    expected = by_definition(x, y[:, ::4])
    for entries in (1 << 22, 1):
        monkeypatch.setattr(evidence, "_ENTRIES", entries)
        assert evidence_lost(data) == pytest.approx(expected, abs=1e-12)
    # A few labels of a point count in any case, and points are left out instead.
    monkeypatch.setattr(evidence, "_MIN_LABELS", 0.5 * data.labels.nnz / 120)
    assert evidence_lost(data) == pytest.approx(by_definition(x[::2], y[::2, ::2]), abs=1e-12)


def test_extremes() -> None:
    one = np.repeat(np.eye(4), 5, axis=0)
    # The only feature names the label, which 4 of the 19 other points have; half of the time it is
    # left out.
    assert evidence_lost(points(one, one)) == pytest.approx((1 - 4 / 19) / 2)
    # Ten features say the same: a half of them says it too.
    many = np.repeat(one, 10, axis=1)
    assert evidence_lost(points(many, one)) == pytest.approx((1 - 4 / 19) / 2**10)
    assert evidence_lost(points(np.eye(6), np.eye(6))) == 0.0  # no other point has either
    assert evidence_lost(points(one, np.zeros((20, 3)))) == 0.0


def votes_of_neighbors(x: np.ndarray, y: np.ndarray, kept: np.ndarray) -> float:
    """The share of points whose ten most similar others, by what is kept of it, vote rightly."""
    idf = np.log((1 + len(x)) / (1 + (x > 0).sum(axis=0))) + 1
    stored, asked = (x > 0) * idf, (x > 0) * kept * idf
    right = []
    for point in np.flatnonzero(y.any(axis=1)):
        lengths = np.linalg.norm(stored, axis=1) * np.linalg.norm(asked[point])
        cosines = stored @ asked[point] / np.where(lengths > 0, lengths, 1)
        cosines[point] = 0
        nearest = np.argsort(-cosines, kind="stable")[:10]
        shares = cosines[nearest] @ y[nearest]
        right.append(shares.max() > 0 and y[point, shares.argmax()] > 0)
    return float(np.mean(right))


def test_neighbors_lost_is_the_definition() -> None:
    rng = np.random.default_rng(3)
    x = (rng.random((150, 40)) < 0.2) * rng.random((150, 40))
    y = (x[:, :6] > 0) & (x[:, 6:12] > 0)  # two features together
    data = points(x, y.astype(float))
    rows = np.flatnonzero(y.any(axis=1))
    features = data.features[rows]
    rng, halves = np.random.default_rng(0), []
    for _ in range(4):
        kept = np.ones(x.shape, bool)
        dropped = rng.random(features.nnz) < 0.5
        kept[rows[features.nonzero()[0][dropped]], features.nonzero()[1][dropped]] = False
        halves.append(votes_of_neighbors(x, y, kept))
    expected = votes_of_neighbors(x, y, np.ones(x.shape)) - np.mean(halves)
    assert neighbors_lost(data) == pytest.approx(expected, abs=1.5 / len(rows))  # near ties
    assert expected > 0.1


def test_neighbors_lose_where_only_all_features_together_decide() -> None:
    """Six digits of base 3, and the class is the first two times the last two of them."""
    rng = np.random.default_rng(0)
    digits = rng.integers(3, size=(3000, 6))
    x = np.eye(3)[digits].reshape(3000, 18)
    classes = digits[:, 0] + 3 * digits[:, 1] + 9 * digits[:, 4] + 27 * digits[:, 5]
    together = neighbors_lost(points(x, np.eye(81)[classes]))
    # Any third of a point's twelve words names its class.
    words = np.repeat(np.eye(40)[rng.integers(40, size=3000)], 12, axis=1)
    words *= rng.random(words.shape) < 0.5
    alone = neighbors_lost(points(words, words[:, ::12] > 0))
    assert together > 0.4 and abs(alone) < 0.05
    assert neighbors_lost(points(x, np.zeros((3000, 2)))) == 0.0

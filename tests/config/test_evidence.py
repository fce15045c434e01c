import itertools

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from snm.config import evidence
from snm.config.evidence import evidence_lost
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

"""The choice of a memory's settings, against the scores that a predictor would give."""

import dataclasses

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.memory.choose import ModelAnswers, SettingsGain, Voters, _Merged, choose
from snm.memory.memory import NUM_FOUND, Memory
from snm.memory.neighbors import nearest, unit_rows

POINTS, STORED, FEATURES, LABELS = 300, 400, 40, 25


class Problem:
    """Points whose labels are those of a nearby stored point, and a model that knows some."""

    def __init__(self, knows: float, copies: float, seed: int = 0, num_labels: int = LABELS):
        rng = np.random.default_rng(seed)
        kept = rng.random((STORED, FEATURES)) < 0.15
        self.stored = csr_matrix((rng.random((STORED, FEATURES)) * kept).astype(np.float32))
        labels = np.zeros((STORED, num_labels), np.float32)
        labels[np.arange(STORED), rng.integers(num_labels, size=STORED)] = 1
        self.labels = csr_matrix(labels)
        source = rng.integers(STORED, size=POINTS)
        noise = rng.random((POINTS, FEATURES)) * (rng.random((POINTS, FEATURES)) < 0.03)
        self.features = csr_matrix(self.stored[source] + csr_matrix(noise.astype(np.float32)))
        truth = labels[source].copy()
        other = rng.random(POINTS) >= copies
        truth[other] = np.roll(truth[other], 1, axis=1)
        self.truth = csr_matrix(truth)
        self.scores = (rng.normal(size=truth.shape) + knows * truth).astype(np.float32)

    def tried(
        self,
        told: int | None = None,
        weights: NDArray[np.float32] | None = None,
        own: csr_matrix | None = None,
    ) -> SettingsGain:
        order = np.argsort(-self.scores, axis=1, kind="stable")[:, :told]
        best = np.take_along_axis(self.scores, order, axis=1)
        found = nearest(unit_rows(self.features), unit_rows(self.stored).T.tocsr(), NUM_FOUND)
        return choose(
            ModelAnswers(order.astype(np.int32), best, self.truth, own),
            Voters(found, found.cosines, self.labels, weights),
        ).tried

    def memory(self, tried: SettingsGain, weights: NDArray[np.float32] | None = None) -> Memory:
        rows = np.arange(STORED)
        return Memory(self.stored, self.labels, None, rows, tried.settings, weights)

    def precision(self, scores: np.ndarray) -> list[float]:
        best = np.argsort(-scores, axis=1, kind="stable")
        hits = np.take_along_axis(self.truth.toarray(), best, axis=1)
        return [100 * float(hits[:, :k].mean()) for k in (1, 3, 5)]


@pytest.mark.parametrize("weighed", [False, True])
def test_precision_is_that_of_the_added_scores(weighed: bool) -> None:
    made = Problem(knows=1.5, copies=0.8)
    weights = None
    if weighed:
        weights = np.random.default_rng(1).choice([0.1, 1, 5], STORED).astype(np.float32)
    tried = made.tried(weights=weights)
    memory = made.memory(tried, weights)
    # Both cosines are those of features here, so that any share of them is the same.
    added = memory.additions(made.features, None).toarray()
    assert tried.before == pytest.approx(made.precision(made.scores))
    assert tried.precision == pytest.approx(made.precision(made.scores + added))
    assert tried.gain == pytest.approx(np.mean(tried.precision) - np.mean(tried.before))
    assert tried.sure_gain > 5


def test_labels_beyond_those_that_the_model_tells_count_as_its_last(monkeypatch) -> None:
    """Neighbours name more labels than the choice looks at, most beyond the model's 8."""
    monkeypatch.setattr("snm.memory.choose._SEARCH_STEPS", (("neighbors", (100, 200)),))
    made = Problem(knows=1.5, copies=0.8, num_labels=150)
    tried = made.tried(told=8)
    added = made.memory(tried).additions(made.features, None)
    assert np.median(np.diff(added.indptr)) > 60
    scores = np.maximum(made.scores, np.sort(made.scores, axis=1)[:, -8:][:, :1])
    assert tried.precision == pytest.approx(made.precision(scores + added.toarray()))
    assert tried.sure_gain > 5


def test_few_answers_are_the_first_of_many() -> None:
    """Few are found one by one, many by sorting; also with ties, and where labels are few."""
    rng = np.random.default_rng(0)
    labels = np.where(rng.random((40, 12)) < 0.5, np.arange(12), -1)
    scores = rng.integers(3, size=labels.shape).astype(np.float64)
    merged = _Merged(labels, scores, np.zeros_like(scores), labels >= 0)
    for few, many in zip(merged.best(1.0, 5), merged.best(1.0, 12), strict=True):
        np.testing.assert_array_equal(few, many[:, :5])
    assert (np.sum(labels >= 0, axis=1) < 5).any()


def test_does_not_pay_where_neighbours_know_nothing() -> None:
    for seed in range(5):
        assert Problem(knows=3.0, copies=0.0, seed=seed).tried().sure_gain <= 0


@pytest.mark.parametrize("value", [0.5, 1.0, 3.0])
def test_labels_of_ones_own_are_never_answers(value: float) -> None:
    made = Problem(knows=1.5, copies=0.8)
    everything = csr_matrix(np.full((POINTS, LABELS), value, np.float32))
    tried = made.tried(own=everything)  # nothing is left for the memory to say
    assert tried.gain == 0 and tried.precision == tried.before


def test_no_other_value_of_one_setting_is_better() -> None:
    """By the mean gain of a point less two standard errors of it."""
    made = Problem(knows=1.5, copies=0.8)
    tried = made.tried()
    truth = made.truth.toarray()

    def of_points(scores: np.ndarray) -> np.ndarray:
        hits = np.take_along_axis(truth, np.argsort(-scores, axis=1, kind="stable"), axis=1)
        return 100 * np.mean([hits[:, :k].mean(axis=1) for k in (1, 3, 5)], axis=0)

    def sure_gain(**change: float) -> float:
        other = dataclasses.replace(tried, settings=dataclasses.replace(tried.settings, **change))
        added = made.memory(other).additions(made.features, None).toarray()
        gains = of_points(made.scores + added) - of_points(made.scores)
        return float(gains.mean() - 2 * gains.std() / np.sqrt(POINTS))

    assert sure_gain() == pytest.approx(tried.sure_gain)
    others = [{"neighbors": count} for count in (10, 30, 100, 200)]
    others += [{"power": power} for power in (1.0, 2.0, 4.0, 8.0, 16.0)]
    others += [{"weight": tried.settings.weight / factor} for factor in (2.0, 4.0)]
    better = [change for change in others if sure_gain(**change) > tried.sure_gain + 1e-4]
    assert better == []

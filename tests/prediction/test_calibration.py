"""Probabilities from scores, against the probabilities that made the answers."""

import dataclasses
import json

import numpy as np
import pytest
import tiny
from scipy.optimize import minimize

import snm
from snm.prediction.calibration import Calibration, Curve, _fit_logistic, _inputs
from snm.runs.typed_json import parse_json


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def answers(truth, points=2000, k=10, seed=0):
    """Scores, best first, and whether each is right, by the probability that `truth` gives."""
    rng = np.random.default_rng(seed)
    scores = -np.sort(-rng.normal(2, 2, (points, 1)) - rng.normal(0, 1, (points, k)), axis=1)
    p = truth(scores, np.arange(k)[None, :], scores[:, :1])
    return scores, rng.random(scores.shape) < p, p


TRUTHS = {
    "of the score": ("logistic", lambda s, r, best: sigmoid(1.5 * s - 4)),
    "of rank and best score too": (
        "logistic",
        lambda s, r, best: sigmoid(0.9 * s - 0.5 * np.log1p(r) - 0.3 * best - 1),
    ),
    "a best answer that is right less often than its score says": (
        "logistic",
        lambda s, r, best: sigmoid(1.2 * s - 2 - 0.4 * (r == 0)),
    ),
    "a step": ("isotonic", lambda s, r, best: np.where(s > 2, 0.6, 0.1)),
}


@pytest.mark.parametrize("what", TRUTHS)
def test_probabilities_are_those_that_made_the_answers(what):
    method, truth = TRUTHS[what]
    found = Calibration.fit(*answers(truth)[:2])
    assert found.ranked.method == method and found.answers == 20_000
    scores, _, p = answers(truth, seed=1)
    told = found(scores)
    assert told.dtype == np.float32 and told.shape == scores.shape
    assert np.abs(told - p).mean() < 0.02
    assert (np.diff(told, axis=1) <= 1e-6).all()  # in the order of the scores
    # Of a score alone: right on average over each tenth of the scores, whatever the ranks.
    alone = found(scores, ranked=False)
    for tenth in np.array_split(np.argsort(scores, axis=None), 10):
        assert abs(alone.ravel()[tenth].mean() - p.ravel()[tenth].mean()) < 0.05
    np.testing.assert_array_equal(alone, found(scores[:, ::-1], ranked=False)[:, ::-1])
    np.testing.assert_allclose(found(3 * scores, members=3), told, rtol=1e-5)


def test_no_answer_is_certain():
    """A wrong answer far above all others costs a loss that is finite."""
    rng = np.random.default_rng(0)
    scores = np.sort(rng.normal(size=(40, 3)), axis=1)[:, ::-1].copy()
    right = rng.random((40, 3)) < 1 / (1 + np.exp(-4 * scores))
    scores[7, 0], right[7, 0] = 4000.0, False
    found = Calibration.fit(scores, right)
    for curve in (found.ranked, found.alone):
        p = np.array(curve.probabilities)
        assert (p > 0).all() and (p < 1).all()


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("slope", [1.5, -1.5])
def test_the_logistic_function_is_the_best_that_does_not_fall_with_the_score(slope, alone):
    """Against a bounded minimum of the same loss, found by differences of float64 values."""
    scores, right, _ = answers(lambda s, r, best: sigmoid(slope * s - 1), points=300, k=3)
    x, y = _inputs(scores).reshape(-1, 4), right.ravel().astype(float)
    counts = np.random.default_rng(1).uniform(0.5, 2, len(y))
    ones = counts @ y
    targets = np.where(y > 0, (ones + 1) / (ones + 2), 1 / (counts.sum() - ones + 2))

    def loss(line):
        z = x @ line[:4] + line[4]
        return counts @ (np.logaddexp(0, z) - targets * z)

    none = [(0, 0)] * 3 if alone else [(None, None)] * 3
    best = minimize(loss, np.zeros(5), bounds=[(0, None), *none, (None, None)]).fun
    weights, offset = _fit_logistic(x, y, counts, alone=alone)
    assert weights[0] >= 0 and (weights[0] == 0) == (slope < 0)
    assert not alone or not weights[1:].any()
    assert loss(np.append(weights, offset)) == pytest.approx(best, rel=1e-5)


def test_few_points():
    scores, right, p = answers(TRUTHS["of the score"][1], points=60, k=5)
    found = Calibration.fit(scores, right)
    assert found.ranked.method == found.alone.method == "logistic"
    assert np.abs(found(scores) - p).mean() < 0.1
    two = Calibration.fit(np.array([[1.0], [2.0]]), np.array([[False], [True]]))
    assert 0 < two(np.array([[1.0]]))[0, 0] < two(np.array([[2.0]]))[0, 0] < 1


def test_what_tells_nothing():
    scores = np.ones((4, 2))
    assert Calibration.fit(scores, np.ones((4, 2), bool)) is None
    assert Calibration.fit(scores, np.zeros((4, 2), bool)) is None
    # Equal scores: the share that is right.
    right = np.zeros((100, 1), bool)
    right[:25] = True
    assert Calibration.fit(np.ones((100, 1)), right)(np.ones(1)) == pytest.approx(0.26, abs=0.01)


def test_missing_answers_do_not_count():
    scores, right, _ = answers(TRUTHS["of the score"][1], points=300)
    more = np.concatenate([scores, np.full((300, 2), -np.inf)], axis=1)
    also = np.concatenate([right, np.zeros((300, 2), bool)], axis=1)
    assert Calibration.fit(more, also) == Calibration.fit(scores, right)
    told = Calibration.fit(scores, right)(more)
    assert np.isfinite(told).all() and (told[:, -1] < 1e-4).all()


def test_it_can_be_written_and_read():
    found = Calibration.fit(*answers(TRUTHS["a step"][1], points=300)[:2])
    assert parse_json(Calibration, json.loads(json.dumps(dataclasses.asdict(found))), "") == found


@pytest.mark.parametrize("what", TRUTHS)
def test_a_point_of_weight_2_counts_twice(what):
    method, truth = TRUTHS[what]
    scores, right, _ = answers(truth, points=399)
    # Multiples of 3, so that a point comes again in its own one of three folds.
    weights = 1 + (np.arange(399) < 198) + (np.arange(399) < 99)
    again = np.concatenate([np.arange(count) for count in (399, 198, 99)])
    weighted = Calibration.fit(scores, right, weights.astype(np.float32))
    repeated = Calibration.fit(scores[again], right[again])
    assert weighted.ranked.method == repeated.ranked.method == method
    some = answers(truth, points=50, seed=1)[0]
    np.testing.assert_allclose(weighted(some), repeated(some), atol=4e-4)
    assert np.abs(weighted(some) - Calibration.fit(scores, right)(some)).max() > 2e-3


@pytest.mark.parametrize("what", TRUTHS)
def test_weights_of_any_size_leave_a_doubt(what):
    """At 1e30 the least probability was below the precision of 1, and its log loss infinite."""
    scores, right, _ = answers(TRUTHS[what][1], points=399)
    weights = np.where(np.arange(399) < 100, 1e30, 1.0)
    for weight in (weights, np.full(399, 1e30)):
        found = Calibration.fit(scores, right, weight.astype(np.float32))(scores)
        assert ((found > 0) & (found < 1)).all()


def test_the_answers_among_some_labels_have_probabilities_of_the_score_alone(tiny_run):
    """Their rank says nothing of the rank among all labels."""
    knots = (-5.0, 9.0)
    ranked, alone = (
        Curve("logistic", (1.0, 0, 0, 0), knots, told, (-9.0, 9.0))
        for told in ((0.1, 0.9), (0.3, 0.5))
    )
    model = snm.load(tiny_run / "run")
    model = dataclasses.replace(model, calibration=Calibration(9, ranked, alone))
    features = snm.load_data(tiny_run / "data").test.features
    for labels in ([3, 7], [[3, 7]] * tiny.TEST_POINTS):
        _, scores = model.predict(features, 2, labels)
        _, told = model.predict_proba(features, 2, labels)
        np.testing.assert_allclose(told, np.interp(scores, knots, (0.3, 0.5)), rtol=1e-5)


def test_a_point_worse_than_any_of_the_fit_has_no_likely_labels():
    """1 to 3 right answers lie 3 above the others, without an error: s - s_1 tells them apart."""
    rng = np.random.default_rng(5)
    right = np.arange(4) < rng.integers(1, 4, (200, 1))
    best = rng.uniform(5, 9, (200, 1))
    below = np.sort(rng.random((200, 4)), axis=1) + np.where(right, 0, 3)
    scores = best - below + below[:, :1]
    found = Calibration.fit(scores, right)
    assert found.ranked.best_scores == (best.min(), best.max())
    assert found(scores)[right].min() > 0.9 and found(scores)[~right].max() < 0.1
    assert found(np.array([[-2.0, -2.1, -2.2, -2.3]])).max() < 0.1
    again = parse_json(Calibration, json.loads(json.dumps(dataclasses.asdict(found))), "")
    assert again == found

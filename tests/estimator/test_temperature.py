"""The temperature of the probabilities of one class a point."""

import copy
import pickle

import numpy as np
import pytest
from scipy.special import log_softmax, softmax
from sklearn.base import clone
from sklearn.metrics import log_loss

from snm import SNMClassifier
from snm.estimator.temperature import fit_temperature

PARAMS = dict(dim=8, members=2, epochs=30, input_dropout=0.0)


def points(count, seed):
    """Points around six centres, with features of chance; a fifth have a random class."""
    rng = np.random.default_rng(seed)
    of = rng.integers(0, 6, count)
    X = np.eye(60)[of] + rng.normal(0, 0.3, (count, 60))  # a fit learns the noise by heart
    return X, np.where(rng.random(count) < 0.2, rng.integers(0, 6, count), of)


def test_the_temperature_of_scores_that_were_scaled():
    """Classes are drawn by the softmax of scores, so that three times these need 3."""
    rng = np.random.default_rng(0)
    scores = rng.normal(0, 2, (20000, 5))
    drawn = (softmax(scores, axis=1).cumsum(axis=1) > rng.random((20000, 1))).argmax(axis=1)
    right = drawn[:, None] == np.arange(5)
    assert fit_temperature(3 * scores, right) == pytest.approx(3, rel=0.05)
    # It is where the log loss is least.
    few = slice(200)
    found = fit_temperature(scores[few], right[few])
    tried = (found, 0.8 * found, 1.25 * found)
    losses = [-log_softmax(scores[few] / t, axis=1)[right[few]].mean() for t in tried]
    assert losses[0] < min(losses[1:])


def test_weights_of_points_count():
    scores = np.array([[2.0, 0.0], [2.0, 0.0]]).repeat(50, axis=0)
    right = np.array([[True, False], [False, True]]).repeat(50, axis=0)
    weights = np.array([3.0, 1.0]).repeat(50)
    # The class of the higher score has a share of 3/4: 2 / T = log 3, but for Platt's targets.
    found = fit_temperature(scores, right, weights)
    assert found == pytest.approx(2 / np.log(3), rel=0.05)


def test_points_that_are_all_right_leave_a_doubt():
    scores = np.array([[1.0, 0.0, 0.0]]).repeat(50, axis=0)
    right = np.array([[True, False, False]]).repeat(50, axis=0)
    p = softmax(scores[0] / fit_temperature(scores, right))
    # The least loss is at the targets: 51/52 and a third of 1/52 for the class.
    assert p[0] == pytest.approx((51 + 1 / 3) / 52, abs=1e-3)


@pytest.fixture(scope="module")
def fitted():
    X, y = points(600, 0)
    return SNMClassifier(**PARAMS).fit(X, y)


def test_probabilities_are_less_wrong(fitted):
    X, y = points(1000, 1)
    p = fitted.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_array_equal(fitted.classes_[p.argmax(axis=1)], fitted.predict(X))
    plain = copy.deepcopy(fitted)
    plain._temperature = None
    assert log_loss(y, p) < log_loss(y, plain.predict_proba(X)) - 0.02


def test_copies_have_it(fitted):
    X, y = points(50, 2)
    expected = fitted.predict_proba(X)
    for other in (copy.deepcopy(fitted), pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(other.predict_proba(X), expected)
    again = clone(fitted).fit(*points(600, 0))
    assert again._temperature == fitted._temperature
    assert again.partial_fit(X, y)._temperature == fitted._temperature  # the best guess there is
    again.set_params(memory="off").fit(*points(600, 0))
    assert again._temperature is None  # no points are held out

"""`predict_proba` of the classifier: an array of all classes, as scikit-learn's scorers read it."""

import dataclasses

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

from snm import SNMClassifier
from snm.errors import InputError
from snm.estimator import predict_mixin

CENTRES = np.eye(3) * 3
FEW = dict(dim=8, members=2, epochs=3, input_dropout=0.0)


def points(count):
    """Points around three centres, and the numbers of these."""
    rng = np.random.default_rng(0)
    of = rng.integers(0, 3, count)
    return CENTRES[of] + rng.normal(size=(count, 3)), of


def test_one_class_a_point_by_hand():
    """The softmax of the mean scores of the members, in the order of the classes."""
    X, of = points(60)
    y = np.array(["c", "a", "b"])[of]
    model = SNMClassifier(**FEW).fit(X, y)
    p = model.predict_proba(X)
    names, scores = model.decision_topk(X, 3)
    for number in range(60):
        parts = dict(zip(names[number], np.exp(scores[number] / 2), strict=True))
        expected = [parts[name] / sum(parts.values()) for name in ("a", "b", "c")]
        np.testing.assert_allclose(p[number], expected, rtol=1e-5)
    np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(X))
    np.testing.assert_array_equal(model.classes_, ["a", "b", "c"])
    model.predictor_ = dataclasses.replace(model.predictor_, block_rows=16)
    np.testing.assert_allclose(model.predict_proba(X), p, rtol=1e-5)


@pytest.mark.parametrize(
    ("scoring", "targets", "chance"),
    [
        ("neg_log_loss", lambda of: of, -np.log(3)),
        ("roc_auc", lambda of: of == 1, 0.5),
    ],
)
def test_scorers_of_scikit_learn(scoring, targets, chance):
    X, of = points(90)
    found = cross_val_score(
        SNMClassifier(**FEW), X, targets(of), scoring=scoring, cv=2, error_score="raise"
    )
    assert (found > chance).all()


def test_several_labels_a_point():
    """The entries are those of `proba_topk`, put in the order of the classes."""
    X, of = points(240)
    indicator = np.stack([of == 0, of > 0, of == 2], axis=1).astype(int)
    model = SNMClassifier(**FEW, memory="on").fit(X, indicator)
    p = model.predict_proba(X[:9])
    columns, expected = model.proba_topk(X[:9], 3)
    assert p.shape == (9, 3)
    for number in range(9):
        np.testing.assert_array_equal(p[number, columns[number]], expected[number])
    found = cross_val_score(
        SNMClassifier(**FEW, memory="on"), np.repeat(X, 2, axis=0), np.repeat(indicator, 2, axis=0),
        scoring="roc_auc", cv=2, error_score="raise",
    )  # fmt: skip
    assert (found > 0.5).all()
    without = SNMClassifier(**FEW).fit(X[:60], indicator[:60])
    with pytest.raises(InputError, match="predict_proba: found a model without probabilities"):
        without.predict_proba(X)


def test_what_gives_no_probabilities(monkeypatch):
    X, of = points(60)
    margins = SNMClassifier(**FEW, loss="bowl", mined=1).fit(X, of)
    with pytest.raises(InputError, match="scores of the loss bowl, which are no logarithms"):
        margins.predict_proba(X)
    monkeypatch.setattr(predict_mixin, "_MAX_ENTRIES", 179)
    with pytest.raises(InputError, match="60 points x 3 classes, expected at most 179 entries"):
        SNMClassifier(**FEW).fit(X, of).predict_proba(X)

"""The estimator's memory of neighbours is that of `snm train`."""

import dataclasses
import json
import pickle

import numpy as np
import pytest
import tiny
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import f1_score

import snm
from snm import SNMClassifier
from snm.errors import InputError
from snm.estimator.targets import Targets
from snm.memory import choose

# The settings of `tiny.REMEMBERING`, with a member that sees the points that choose the memory.
PARAMS = dict(dim=8, members=2, batch_size=16, sampled=40, mined=3, input_dropout=0.0, epochs=2,
              learning_rate=1.0, schedule="constant", weighting="tfidf",
              settings={"steps_per_dispatch": 2, "class_init": "random"})  # fmt: skip


@pytest.fixture(scope="module")
def data():
    """600 points whose labels are well told by their neighbours."""
    return snm.generate(points=600, test_points=150, features=120, labels=60, seed=5,
                        labels_per_point=2, nonzeros_per_point=8)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _with_queries():
    """Features and queries tell who votes: by features alone, a memory keeps no queries."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choose, "_SEARCH_STEPS", choose._SEARCH_STEPS[1:])
        yield


@pytest.fixture(scope="module")
def fitted(data):
    return SNMClassifier(**PARAMS).fit(data.train.features, data.train.labels)


def test_a_fit_is_a_run_without_its_folder(fitted, data, tmp_path):
    snm.train(data, tiny.REMEMBERING, tmp_path / "run")
    record = json.loads((tmp_path / "run" / "memory.json").read_text())
    assert record["used"]
    del record["seconds"]
    found = json.loads(json.dumps(fitted.memory_))
    assert {name: found[name] for name in record} == record
    for mine, theirs in zip(fitted.decision_topk(data.test.features, k=5),
                            snm.load(tmp_path / "run").predict(data.test.features, k=5),
                            strict=True):  # fmt: skip
        np.testing.assert_array_equal(mine, theirs)


def test_answers_are_those_of_the_model_and_the_memory(fitted, data):
    whole = fitted.predictor_
    alone = dataclasses.replace(whole, memory=None)
    labels, scores = alone.predict(data.test.features, 60)
    dense = np.zeros((150, 60))
    np.put_along_axis(dense, labels, scores, axis=1)
    queries = np.concatenate(list(alone.queries(data.test.features)))
    weighted = alone.weighting.apply(data.test.features)
    dense += whole.memory.additions(weighted, queries).toarray()
    found, scores = fitted.decision_topk(data.test.features, k=60)
    np.testing.assert_allclose(np.take_along_axis(dense, found, 1), scores, rtol=1e-4, atol=1e-4)
    best = dense.argmax(axis=1)
    hits = data.test.labels.toarray()[np.arange(150), best]
    assert fitted.score(data.test.features, data.test.labels) == np.mean(hits)
    assert (fitted.set_params(labels_per_point=1).predict(data.test.features).indices == best).all()
    without = clone(fitted).set_params(memory="off").fit(data.train.features, data.train.labels)
    assert without.memory_ is None and without.predictor_.memory is None
    assert np.mean(hits) > without.score(data.test.features, data.test.labels)


def test_a_pickle_answers_with_the_same_bits(fitted, data):
    expected = fitted.decision_topk(data.test.features)
    again = pickle.loads(pickle.dumps(fitted))
    for mine, theirs in zip(again.decision_topk(data.test.features), expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert again.memory_ == fitted.memory_
    assert clone(fitted).get_params() == fitted.get_params()


@pytest.mark.slow
def test_partial_fit_stores_its_points(fitted, data):
    model = pickle.loads(pickle.dumps(fitted))
    X, Y = data.train.features, data.train.labels
    model.partial_fit(data.test.features[:100], data.test.labels[:100])
    memory = model.predictor_.memory
    old = memory.rows[:-100]
    assert (memory.rows[-100:] == np.arange(600, 700)).all()
    assert old[-1] == 599 and len(old) >= 590  # a few may be told again
    # What is stored are the queries of the model as it is now, of the old points too.
    now = np.concatenate(list(model.predictor_.queries(X)))[old]
    now /= np.linalg.norm(now, axis=1, keepdims=True)
    np.testing.assert_allclose(memory.queries[:-100], now, atol=1e-3)
    assert np.abs(fitted.predictor_.memory.queries[old] - now).max() > 0.01
    # A neighbour of itself, a point answers with its own labels more often.
    seen, labels = data.test.features[:100], data.test.labels[:100]
    assert model.score(seen, labels) > fitted.score(seen, labels) + 0.2
    # The same points again are stored once.
    model.partial_fit(X, Y)
    assert len(model.predictor_.memory.rows) == len(memory.rows)
    # Points without a feature are not.
    model.partial_fit(sparse.csr_matrix(X[:20].shape), Y[:20])
    assert len(model.predictor_.memory.rows) == len(memory.rows)


def test_partial_fit_alone_makes_none(data):
    X, Y = data.train.features, data.train.labels
    model = SNMClassifier(**{**PARAMS, "members": 1}).partial_fit(X, Y)
    assert model.memory_ is None and model.predictor_.memory is None
    with pytest.raises(InputError, match="memory: found 'on' in the first call of partial_fit"):
        SNMClassifier(**PARAMS, memory="on").partial_fit(X, Y)


def test_points_of_early_stopping_choose_and_are_not_stored(data):
    model = SNMClassifier(
        **{**PARAMS, "members": 1}, memory="on", early_stopping=True, validation_fraction=0.2
    ).fit(data.train.features, data.train.labels)
    assert model.memory_["held_out"] == 120
    assert model.memory_["used"] and model.memory_["points"] == 480
    assert model.config_.validation_fraction == 0


def test_on_is_refused_where_points_are_too_few(data):
    with pytest.raises(InputError, match=r"^memory on: found 199 training points"):
        SNMClassifier(**PARAMS, memory="on").fit(data.train.features[:199], data.train.labels[:199])


def test_a_threshold_is_refused_where_points_are_too_few(data):
    model = SNMClassifier(**{**PARAMS, "memory": None}, threshold=0.3)
    said = "^threshold: found 199 training points, expected at least 200, of which some"
    with pytest.raises(InputError, match=said):
        model.fit(data.train.features[:199], data.train.labels[:199])


def test_labels_to_choose_from(fitted, data):
    features = data.test.features
    labels, scores = fitted.decision_topk(features, labels=[40, 3, 17])
    expected, of_expected = fitted.predictor_.predict(features, 3, [3, 17, 40])
    np.testing.assert_array_equal(labels, expected)
    np.testing.assert_array_equal(scores, of_expected)
    for wrong, said in (
        ([60], "the class 60"),
        ([], "no label"),
        (["x"], "the class "),
        ([[1], [60]], f"2 lists, expected {features.shape[0]}, one a point"),
        ([1, [2]], "lists of classes and other things"),
    ):
        with pytest.raises(InputError, match=f"labels: found {said}"):
            fitted.decision_topk(features, labels=wrong)
    with pytest.raises(InputError, match="k: found 3, expected 1 to 2, the number of labels"):
        fitted.decision_topk(features, 3, labels=[1, 2])


def test_labels_of_each_point(fitted, data):
    features, own = data.test.features[:3], [[40, 3, 17], (5, 6), np.array([7, 8, 9, 10])]
    for ask, expected in (
        (fitted.decision_topk, fitted.predictor_.predict),
        (fitted.proba_topk, fitted.predictor_.predict_proba),
    ):
        for found, of_ids in (
            (ask(features, 2, own), expected(features, 2, own)),
            (ask(features, labels=own), expected(features, 2, own)),
            (ask(features, 2, exclude=own), expected(features, 2, exclude=own)),
            (ask(features, exclude=[3, 17]), expected(features, exclude=[3, 17])),
            (ask(features, 2, range(9), own), expected(features, 2, range(9), own)),
            (ask(features, exclude=[]), expected(features)),
        ):
            np.testing.assert_array_equal(found[0], of_ids[0])
            np.testing.assert_array_equal(found[1], of_ids[1])
    with pytest.raises(
        InputError, match="k: found 3, expected 1 to 2, the number of labels of row 1"
    ):
        fitted.decision_topk(features, 3, own)
    with pytest.raises(InputError, match="labels: found none that row 1 may have"):
        fitted.decision_topk(features, labels=own, exclude=[5, 6])
    with pytest.raises(InputError, match="exclude: found the class 60"):
        fitted.decision_topk(features, exclude=[60])


def test_probabilities(fitted, data):
    model = pickle.loads(pickle.dumps(fitted))
    labels, p = model.proba_topk(data.test.features, 5)
    expected, of_run = model.predictor_.predict_proba(data.test.features, 5)
    np.testing.assert_array_equal(labels, expected)
    np.testing.assert_array_equal(p, of_run)
    right = np.take_along_axis(data.test.labels.toarray(), labels, axis=1)
    assert abs(p.mean() - right.mean()) < 0.05
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.proba_topk(data.test.features, 5)[1], p)
    model.partial_fit(data.train.features, data.train.labels)
    with pytest.raises(InputError, match="probabilities: found an estimator after partial_fit, wh"):
        model.proba_topk(data.test.features)
    model.threshold = 0.5
    with pytest.raises(InputError, match="threshold: found an estimator after partial_fit, which"):
        model.predict(data.test.features)


def test_a_threshold_in_place_of_labels_per_point(fitted, data):
    features, truth = data.test.features, data.test.labels.toarray()
    try:
        model = fitted.set_params(threshold="micro-f1")
        found = model.predict(features)
        labels, _ = model.predictor_.predict_proba(features, threshold="micro-f1")
        dense = np.zeros((150, 61))
        np.put_along_axis(dense, np.where(labels < 0, 60, labels), 1, axis=1)
        np.testing.assert_array_equal(found.toarray(), dense[:, :60])
        best = f1_score(truth, found.toarray(), average="micro")
        assert best > f1_score(truth, model.set_params(threshold=0.5).predict(features).toarray(),
                               average="micro") + 0.02  # fmt: skip
        with pytest.raises(InputError, match="threshold: found often, expected a probability"):
            model.set_params(threshold="often").predict(features)
    finally:
        fitted.set_params(threshold=None)


def test_a_threshold_alone_makes_fit_tell_probabilities(data):
    """With one member, 18 passes and so few points, `auto` would try no memory."""
    few = {**PARAMS, "members": 1, "epochs": 18, "memory": None}
    features, labels = data.train.features, data.train.labels
    model = SNMClassifier(**few, threshold=0.3).fit(features, labels)
    _, p = model.proba_topk(features[:50], 5)
    assert (np.diff(model.predict(features[:50]).indptr) >= (p >= 0.3).sum(axis=1)).all()
    with pytest.raises(InputError, match="probabilities: found a model without probabilities"):
        SNMClassifier(**few).fit(features, labels).proba_topk(features[:50])


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        ([["a"], ["b", "c"]], [["c", "a"], []]),
        (np.array([[1, 0, 0], [0, 1, 1]]), [[1, 0, 1], [0, 0, 0]]),
    ],
)
def test_a_point_may_have_no_answer(y, expected):
    found = Targets.of(y).decode(np.array([[2, 0, -1], [-1, -1, -1]]))
    assert [list(row) for row in found] == expected


def test_its_folder_answers_with_the_memory(fitted, data, tmp_path):
    """And with the probabilities; columns of an indicator have no names."""
    fitted.export(tmp_path / "model")
    found = snm.load(tmp_path / "model")
    assert found.memory is not None and found.label_names is None
    labels, likely = fitted.proba_topk(data.test.features, k=4)
    ids, again = found.predict_proba(data.test.features, k=4)
    np.testing.assert_array_equal(ids, labels)
    np.testing.assert_array_equal(again, likely)

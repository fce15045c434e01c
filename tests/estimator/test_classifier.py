"""SNMClassifier is the trainer behind scikit-learn's interface: fits, answers and weights."""

import dataclasses
import pickle

import numpy as np
import pytest
import tiny
from estimator.small_fits import SMALL
from scipy import sparse
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score
from sklearn.utils.class_weight import compute_class_weight

import snm
from snm import SNMClassifier
from snm.errors import InputError
from snm.estimator import fit_mixin
from snm.estimator.inputs import canonical_csr
from snm.estimator.targets import Targets


@pytest.fixture(scope="module")
def fitted(data):
    model = SNMClassifier(epochs=3, weighting="tfidf", **SMALL)
    return model.fit(data.train.features, data.train.labels)


def test_a_fit_is_a_run_without_its_folder(fitted, data, tiny_run):
    """The same settings give the same bits as `snm.train`."""
    labels, scores = snm.load(tiny_run / "run").predict(data.test.features, k=4)
    found = fitted.decision_topk(data.test.features, k=4)
    np.testing.assert_array_equal(found[0], labels)
    np.testing.assert_array_equal(found[1], scores)
    config = snm.read_config(tiny_run / "run" / "config.toml")
    assert fitted.config_ == dataclasses.replace(config, checkpoint_every=0)  # no folder, none
    assert len(fitted.loss_curve_) == 6  # 12 steps, two a dispatch


@pytest.mark.slow
def test_members_are_those_of_a_run(data, tmp_path):
    config = dataclasses.replace(tiny.CONFIG, members=2, epochs=1, class_init="centroid")
    snm.train(data, config, tmp_path / "run")
    _, scores = snm.load(tmp_path / "run").predict(data.test.features, k=4)
    params = {**SMALL, "members": 2, "epochs": 1, "weighting": "tfidf"}
    params["settings"] = {"steps_per_dispatch": 2}  # class rows start at centroids by default
    model = SNMClassifier(**params).fit(data.train.features, data.train.labels)
    np.testing.assert_array_equal(model.decision_topk(data.test.features, k=4)[1], scores)


def test_every_form_of_targets_is_the_same_labels(fitted, data):
    X, Y = data.train.features, data.train.labels
    names = np.array([f"label {j:02}" for j in range(tiny.LABELS)])
    forms = {
        "dense": Y.toarray().astype(int),
        "lists": [list(names[Y[i].indices]) for i in range(len(Y.indptr) - 1)],
        "sets": [set(names[Y[i].indices]) for i in range(len(Y.indptr) - 1)],
        "written out": Y.toarray().astype(int).tolist(),
    }
    slots, scores = fitted.decision_topk(data.test.features, k=2)
    expected = np.zeros((tiny.TEST_POINTS, tiny.LABELS), int)
    np.put_along_axis(expected, slots, 1, axis=1)  # two labels a point on train
    assert (fitted.predict(data.test.features).toarray() == expected).all()
    assert sparse.issparse(fitted.predict(data.test.features))
    model = clone(fitted).fit(X.toarray(), forms["lists"])
    np.testing.assert_array_equal(model.decision_topk(data.test.features, k=2)[1], scores)
    for form, y in forms.items():
        targets = Targets.of(y)
        assert (targets.matrix(y) != Y).nnz == 0
        answers = targets.decode(slots)
        if form in ("lists", "sets"):
            assert [list(row) for row in answers] == [list(names[row]) for row in slots]
        else:
            assert answers.dtype == int and (answers == expected).all()


def test_one_class_a_point():
    X = np.repeat(np.eye(4), 8, axis=0)
    y = np.repeat(["d", "b", "a", "c"], 8)
    model = SNMClassifier(dim=8, members=1, epochs=20).fit(X, y)
    assert model.classes_.tolist() == ["a", "b", "c", "d"]
    assert model.predict(np.eye(4)).tolist() == ["d", "b", "a", "c"]
    assert model.score(X, y) == accuracy_score(y, model.predict(X)) == 1.0
    # Three of four right, of weights 1, 2, 3 and 4.
    assert model.score(np.eye(4), ["d", "b", "a", "never seen"], sample_weight=[1, 2, 3, 4]) == 0.6
    labels, scores = model.decision_topk(np.eye(4), k=4)
    assert labels[:, 0].tolist() == ["d", "b", "a", "c"] and (np.diff(scores) <= 0).all()


def test_stored_zeros_are_no_features():
    given = sparse.csr_matrix(([0, 2, 0], [0, 1, 3], [0, 2, 3]), shape=(2, 4), dtype=np.float32)
    found = canonical_csr(given)
    assert (found.indices.tolist(), found.indptr.tolist()) == ([1], [0, 1, 1])
    assert given.nnz == 3  # the caller's stay


def test_weights_of_points(fitted, data):
    """Equal weights change no bit, a weight of 0 is no point, and a heavy point is heard."""
    X, Y = data.train.features, data.train.labels
    expected = fitted.decision_topk(data.test.features, k=4)[1]
    some = np.arange(tiny.POINTS) % 10 < 8
    absent = clone(fitted).fit(X[some], Y[some])
    weighted = clone(fitted).fit(X, Y, sample_weight=some.astype(int))
    scores = [model.decision_topk(data.test.features, k=4)[1] for model in (absent, weighted)]
    np.testing.assert_array_equal(*scores)
    alike, y = np.ones((12, 3)), ["a"] * 8 + ["b"] * 4
    for weight, answer in ((1, "a"), (9, "b")):
        model = SNMClassifier(dim=8, members=1, epochs=20)
        model.fit(alike, y, sample_weight=[1] * 8 + [weight] * 4)
        assert model.predict(alike[:1]) == [answer]
    model = clone(fitted).partial_fit(X, Y, sample_weight=some)
    absent = clone(fitted).partial_fit(X[some], Y[some])
    scores = [one.decision_topk(data.test.features, k=4)[1] for one in (absent, model)]
    np.testing.assert_array_equal(*scores)
    # fit divides weights by their mean; a part of partial_fit is as heavy as it is said to be.
    double = clone(fitted).fit(X, Y, sample_weight=np.full(tiny.POINTS, 2.0))
    np.testing.assert_array_equal(double.decision_topk(data.test.features, k=4)[1], expected)
    parts = [clone(fitted).partial_fit(X, Y, sample_weight=np.full(tiny.POINTS, weight))
             for weight in (1e-9, 1e-10, 1.0)]  # fmt: skip
    lightest, light, plain = (one.decision_topk(data.test.features, k=4)[1] for one in parts)
    np.testing.assert_allclose(lightest, light, atol=1e-5)
    assert np.abs(plain - light).max() > 0.1


@pytest.mark.parametrize(
    "weights, said",
    [
        (np.ones(3), r"sample_weight.shape == \(3,\)"),
        (-np.ones(tiny.POINTS), "sample_weight: found -1.0, expected numbers of at least 0"),
        (np.full(tiny.POINTS, np.nan), "NaN"),
        (np.zeros(tiny.POINTS), "only zeros|non-zero"),  # ours, or that of newer scikit-learn
    ],
)
def test_weights_that_cannot_be_used(data, weights, said):
    with pytest.raises(ValueError, match=said):
        SNMClassifier(**SMALL).fit(data.train.features, data.train.labels, sample_weight=weights)


def test_a_file_of_weights_trains_as_sample_weight(data, tmp_path):
    weights = np.random.default_rng(0).choice([0.25, 1, 3], tiny.POINTS).astype(np.float32)
    folder = tiny.write(tmp_path / "data")
    (folder / "weights.txt").write_text("".join(f"{weight}\n" for weight in weights))
    snm.train(folder, tiny.CONFIG, tmp_path / "run")
    _, scores = snm.load(tmp_path / "run").predict(data.test.features, k=4)
    model = SNMClassifier(epochs=3, weighting="tfidf", **SMALL)
    model.fit(data.train.features, data.train.labels, sample_weight=weights)
    np.testing.assert_array_equal(model.decision_topk(data.test.features, k=4)[1], scores)
    log = (tmp_path / "run" / "log.jsonl").read_text()
    assert "weights of points: 0.25 to 3" in log
    # Other weights are other data.
    (folder / "weights.txt").write_text("2\n" * tiny.POINTS)
    with pytest.raises(InputError, match=r"found a run on other content of .*which has changed"):
        snm.train(folder, tiny.CONFIG, tmp_path / "run")


def test_labels_per_point(fitted, data):
    model = pickle.loads(pickle.dumps(fitted)).set_params(labels_per_point=3)
    assert (np.diff(model.predict(data.test.features).indptr) == 3).all()
    with pytest.raises(InputError, match="labels_per_point"):
        model.set_params(labels_per_point=0).predict(data.test.features)


def test_weights_of_classes(fitted, data, tmp_path):
    """Weights of 1 change no bit, a file is the same, and a heavy class is heard."""
    X, Y = data.train.features, data.train.labels
    expected = fitted.decision_topk(data.test.features, k=4)[1]
    ones = clone(fitted).set_params(class_weight=np.ones(tiny.LABELS)).fit(X, Y)
    np.testing.assert_array_equal(ones.decision_topk(data.test.features, k=4)[1], expected)
    weights = np.random.default_rng(0).choice([0.25, 1, 3], tiny.LABELS).astype(np.float32)
    weighted = clone(fitted).set_params(class_weight=weights).fit(X, Y)
    folder = tiny.write(tmp_path / "data")
    (folder / "label_weights.txt").write_text("".join(f"{weight}\n" for weight in weights))
    snm.train(folder, tiny.CONFIG, tmp_path / "run")
    _, scores = snm.load(tmp_path / "run").predict(data.test.features, k=4)
    found = weighted.decision_topk(data.test.features, k=4)[1]
    np.testing.assert_array_equal(found, scores)
    assert not np.array_equal(found, expected)
    assert "weights of labels: 0.25 to 3" in (tmp_path / "run" / "log.jsonl").read_text()
    alike, y = np.ones((12, 3)), ["a"] * 8 + ["b"] * 4
    for weight, answer in ((None, "a"), ({"b": 5}, "b"), ([1, 5], "b")):
        model = SNMClassifier(dim=8, members=1, epochs=20, class_weight=weight).fit(alike, y)
        assert model.predict(alike[:1]) == [answer]
    model = SNMClassifier(dim=8, members=1, epochs=1, class_weight={"b": 5})
    model.partial_fit(alike, y, classes=["a", "b"])
    with pytest.raises(InputError, match="class_weight in partial_fit: found 'balanced'"):
        model.set_params(class_weight="balanced").partial_fit(alike, y)


def test_classes_of_an_indicator_are_its_columns():
    """Names would be lost, so that a second call with them would find other classes."""
    y = np.eye(3, dtype=int)
    assert Targets.of(y, classes=[2, 0, 1]).classes.tolist() == [0, 1, 2]
    for named in (["a", "b", "c"], [1, 2, 3]):
        with pytest.raises(InputError, match="classes: found names, with an indicator y, expect"):
            Targets.of(y, classes=named)


def test_nested_lists_of_zeros_and_ones_are_an_indicator():
    """As scikit-learn reads them; as lists of labels, each point would have every label."""
    one_a_point = [[1, 0], [0, 1], [0, 1]]
    targets = Targets.of(one_a_point)
    assert targets.form == "dense"
    assert targets.matrix(one_a_point).toarray().tolist() == one_a_point
    # Lists of labels may be like that in a part of the points, where their form is known.
    for known in (Targets.of([[0, 1], [2]]), Targets.of([[0, 1], [1, 0]], classes=[0, 1, 2])):
        assert known.form == "lists"
        assert known.matrix([[0, 1], [1, 0]]).toarray().tolist() == [[1, 1, 0], [1, 1, 0]]
    assert Targets.of([[0], [1]]).form == "lists"


def test_balanced_weights_are_those_of_scikit_learn():
    y = np.array(["b", "a", "c", "a", "a", "c"])
    targets = Targets.of(y)
    expected = compute_class_weight("balanced", classes=targets.classes, y=y)
    labels = targets.matrix(y)
    np.testing.assert_allclose(targets.weights("balanced", labels), expected, rtol=1e-6)
    # Several labels a point: each label has the same sum of weights. One without points has 1.
    lists = Targets.of([["a", "b"], ["a"], ["a", "c"]], classes=["a", "b", "c", "d"])
    labels = lists.matrix([["a", "b"], ["a"], ["a", "c"]])
    found = lists.weights("balanced", labels)
    np.testing.assert_allclose(found, [5 / (4 * 3), 5 / 4, 5 / 4, 1], rtol=1e-6)
    assert lists.weights({"d": 2, "a": 0.5}, labels).tolist() == [0.5, 1, 1, 2]
    assert lists.weights(None, labels) is None


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ("even", "found 'even', expected `balanced`, a mapping"),
        ({"z": 1}, "found the class 'z', expected some of the classes of y"),
        ([1, 2, 3], r"found shape \(3,\), expected one weight a class, 2 of them"),
        ({"a": 0}, "found 0.0, expected finite numbers above 0"),
        (object(), "found <object.*>, expected `balanced`, a mapping"),
    ],
)
def test_weights_of_classes_that_cannot_be_used(weights, said):
    model = SNMClassifier(**SMALL, class_weight=weights)
    with pytest.raises(InputError, match=f"class_weight: {said}"):
        model.fit(np.eye(4), ["a", "b", "a", "b"])


def test_a_fit_that_is_refused_leaves_nothing_of_the_one_before(data):
    model = SNMClassifier(**SMALL, epochs=1).fit(data.train.features, data.train.labels)
    wide = csr_matrix(np.ones((tiny.POINTS, 31), np.float32))
    model.set_params(epochs=-1)
    with pytest.raises(ValueError, match="epochs"):
        model.fit(wide, data.train.labels)
    for call in (model.predict, pickle.loads(pickle.dumps(model)).predict):
        with pytest.raises(NotFittedError):
            call(data.test.features)


def test_a_pass_after_a_failed_fit_is_refused(data, monkeypatch):
    """It would train a new model, without a word that the first is lost."""
    model = SNMClassifier(**SMALL, epochs=1)
    with monkeypatch.context() as patch:
        patch.setattr(fit_mixin, "fit_members", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            model.fit(data.train.features, data.train.labels)
    with pytest.raises(ValueError, match="parameters, for the last fit failed, expected another"):
        model.partial_fit(data.train.features, data.train.labels)
    model.fit(data.train.features, data.train.labels).partial_fit(
        data.train.features, data.train.labels
    )


def test_the_first_part_needs_a_label(data):
    """Without one there are no parameters, and the next call said that a fit had failed."""
    model, X = SNMClassifier(**SMALL, epochs=1), data.train.features[:3]
    with pytest.raises(ValueError, match="y: found no label in the first call of partial_fit"):
        model.partial_fit(X, [[], [], []], classes=["a", "b"])
    names = [f"{number}" for number in range(tiny.LABELS)]
    model.partial_fit(X, [["1"], [], ["2"]], classes=names).partial_fit(X, [[], [], []])


def test_an_interrupted_pass_leaves_the_model_as_it_was(data, monkeypatch):
    X, Y = data.train.features, data.train.labels

    def interrupt(*args, **settings):
        fit_members(*args, **settings)  # consumes the parameters
        raise KeyboardInterrupt

    fit_members = fit_mixin.fit_members
    model = SNMClassifier(**SMALL, epochs=1)
    with monkeypatch.context() as patch:
        patch.setattr(fit_mixin, "fit_members", interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(X, Y)
        with pytest.raises(NotFittedError):
            model.predict(X)
    model.partial_fit(X, Y)
    other = pickle.loads(pickle.dumps(model))
    before = model.decision_topk(X)[1]
    with monkeypatch.context() as patch:
        patch.setattr(fit_mixin, "fit_members", interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(X, Y)
    np.testing.assert_array_equal(model.decision_topk(X)[1], before)
    after = model.partial_fit(X, Y).decision_topk(X)[1]
    np.testing.assert_array_equal(after, other.partial_fit(X, Y).decision_topk(X)[1])


@pytest.mark.parametrize("seed", [-1, 2**31])
def test_a_random_state_that_is_no_seed(data, seed):
    with pytest.raises(ValueError, match=f"random_state: found {seed}, expected 0 to 2147483647"):
        SNMClassifier(**SMALL, random_state=seed).fit(data.train.features, data.train.labels)


def test_labels_of_several_types_are_refused():
    several = r"^y: found labels of several types, int and str, expected names, or numbers$"
    with pytest.raises(InputError, match=several):
        SNMClassifier(**SMALL).fit(np.eye(3), [["a", 1], ["a"], ["b"]])
    with pytest.raises(InputError, match=several):
        SNMClassifier(**SMALL).fit(np.eye(3), np.array(["a", 1, "b"], object))
    with pytest.raises(InputError, match=r"^y: found labels that are tuples"):
        SNMClassifier(**SMALL).fit(np.eye(3), [[("a", 1)], [("b", 2)], [("a", 1)]])


def test_classes_of_another_type_are_unknown():
    targets = Targets.of([["a"], ["b"], ["a"], ["b"]])
    with pytest.raises(InputError, match="labels: found the class 1, expected some of the known"):
        targets.columns([1], 4)
    assert targets.matrix([[1], [2], [1], [2]], unknown="drop").nnz == 0  # always a miss

"""SNMClassifier is the trainer behind scikit-learn's interface, and keeps scikit-learn's rules."""

import dataclasses
import pickle
import subprocess
import sys

import numpy as np
import pytest
import tiny
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.estimator_checks import parametrize_with_checks

import snm
from snm import SNMClassifier
from snm.errors import InputError
from snm.estimator.targets import Targets

# One shape of program for (nearly) all tests of this file.
SMALL = dict(dim=8, members=1, batch_size=16, sampled=8, mined=3, input_dropout=0.0,
             learning_rate=1.0, schedule="constant",
             settings={"steps_per_dispatch": 2, "class_init": "random"})  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tiny.dataset(tmp_path_factory.mktemp("estimator") / "tiny")


@pytest.fixture(scope="module")
def fitted(data):
    model = SNMClassifier(epochs=3, weighting="tfidf", **SMALL)
    return model.fit(data.train.features, data.train.labels)


# A point that is there twice is visited twice, in batches with other samples. In one batch the
# gradients are equal: tests/batches/test_weights.py.
REPEATED = {
    f"check_sample_weight_equivalence_on_{kind}_data": "repeated points are visited one by one"
    for kind in ("dense", "sparse")
}


# All of scikit-learn's own checks apply; no other is expected to fail.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [SNMClassifier(dim=8, members=1, input_dropout=0.0)],
    expected_failed_checks=lambda estimator: REPEATED,
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


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


def test_every_form_of_targets_trains_the_same_model(fitted, data):
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
    for form, y in forms.items():
        model = clone(fitted).fit(X.toarray(), y)
        np.testing.assert_array_equal(model.decision_topk(data.test.features, k=2)[1], scores)
        answers = model.predict(data.test.features)
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


def test_score_is_precision_at_1(fitted, data):
    best, _ = fitted.decision_topk(data.test.features, k=1)
    truth = data.test.labels.toarray()
    hits = [truth[i, best[i, 0]] for i in range(tiny.TEST_POINTS)]
    assert fitted.score(data.test.features, data.test.labels) == np.mean(hits)


def test_weights_of_points(fitted, data):
    """Weights of 1 change no bit, a weight of 0 is no point, and a heavy point is heard."""
    X, Y = data.train.features, data.train.labels
    expected = fitted.decision_topk(data.test.features, k=4)[1]
    ones = clone(fitted).fit(X, Y, sample_weight=np.ones(tiny.POINTS))
    np.testing.assert_array_equal(ones.decision_topk(data.test.features, k=4)[1], expected)
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
    with pytest.raises(InputError, match="found a run on other data"):
        snm.train(folder, tiny.CONFIG, tmp_path / "run")


def test_labels_per_point(fitted, data):
    model = pickle.loads(pickle.dumps(fitted)).set_params(labels_per_point=3)
    assert (np.diff(model.predict(data.test.features).indptr) == 3).all()
    with pytest.raises(InputError, match="labels_per_point"):
        model.set_params(labels_per_point=0).predict(data.test.features)


def test_a_pickle_answers_with_the_same_bits(fitted, data):
    again = pickle.loads(pickle.dumps(fitted))
    for mine, theirs in zip(again.decision_topk(data.test.features),
                            fitted.decision_topk(data.test.features), strict=True):  # fmt: skip
        np.testing.assert_array_equal(mine, theirs)


def test_early_stopping_keeps_the_best_epoch(data):
    """The same bits as training for as many epochs on the points that were not held out."""
    X, Y = data.train.features, data.train.labels
    params = {**SMALL, "members": 2, "learning_rate": 4.0}
    model = SNMClassifier(
        epochs=30, early_stopping=True, validation_fraction=0.3, n_iter_no_change=2, **params
    ).fit(X, Y)
    kept, watched = (parts := data.split(0.3, 0)).train, parts.test
    best = []
    for scores in model.validation_scores_:
        first_best = int(np.argmax(scores))
        # Two epochs without a better score, and no more.
        assert len(scores) == first_best + 3 or len(scores) == 30
        best.append(first_best + 1)
    assert min(map(len, model.validation_scores_)) < 30
    alone = {**params, "members": 1}
    same = SNMClassifier(epochs=best[0], **alone).fit(kept.features, kept.labels)
    assert same.score(watched.features, watched.labels) == max(model.validation_scores_[0])
    one = SNMClassifier(
        epochs=30, early_stopping=True, validation_fraction=0.3, n_iter_no_change=2, **alone
    ).fit(X, Y)
    np.testing.assert_array_equal(one.decision_topk(X)[1], same.decision_topk(X)[1])
    assert one.validation_scores_ == model.validation_scores_[:1]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"validation_fraction": 0.0}, "validation_fraction: found 0.0, expected a share"),
        ({"validation_fraction": 1}, "validation_fraction: found 1, expected a share"),
        ({"n_iter_no_change": 0}, "n_iter_no_change: found 0, expected a number of epochs"),
    ],
)
def test_early_stopping_refuses(data, params, message):
    model = SNMClassifier(early_stopping=True, **{**SMALL, **params})
    with pytest.raises(InputError, match=message):
        model.fit(data.train.features, data.train.labels)
    with pytest.raises(InputError, match="early_stopping: found True in partial_fit"):
        model.partial_fit(data.train.features, data.train.labels)


def test_partial_fit_goes_on(data):
    X, Y = data.train.features, data.train.labels
    model = SNMClassifier(weighting="l2", **SMALL)
    losses = [np.mean(model.partial_fit(X, Y).loss_curve_) for _ in range(6)]
    assert losses[-1] < 0.8 * losses[0]
    before = model.decision_topk(X, k=3)[1]
    empty = sparse.csr_matrix((tiny.POINTS, tiny.LABELS))
    np.testing.assert_array_equal(model.partial_fit(X, empty).decision_topk(X, k=3)[1], before)
    # After a fit it goes on from there.
    model = SNMClassifier(epochs=6, **SMALL).fit(X, Y)
    start = model.loss_curve_[0]
    assert np.mean(model.partial_fit(X, Y).loss_curve_) < 0.8 * start


def test_partial_fit_needs_to_know_the_classes(data):
    X = data.train.features
    y = [[f"{i % 3}"] for i in range(tiny.POINTS)]
    model = SNMClassifier(**{**SMALL, "sampled": 2, "mined": 2})
    with pytest.raises(InputError, match="all classes in the first call"):
        model.partial_fit(X, y)
    model.partial_fit(X, y, classes=["0", "1", "2", "unseen"])
    assert model.classes_.tolist() == ["0", "1", "2", "unseen"]
    with pytest.raises(InputError, match=r"classes: found others than before"):
        model.partial_fit(X, y, classes=["0", "1"])
    with pytest.raises(InputError, match=r"the class .*'9'.*, expected one of the known"):
        model.partial_fit(X, [["9"]] * tiny.POINTS)
    with pytest.raises(InputError, match="targets of the form 'sparse', expected 'lists'"):
        model.partial_fit(X, data.train.labels)


def test_texts_through_a_pipeline():
    topics = {"fruit": "apple pear plum", "tools": "hammer saw drill", "sea": "wave tide boat"}
    rng = np.random.default_rng(0)
    texts, labels = [], []
    for _ in range(60):
        names = sorted(rng.choice(list(topics), 2, replace=False))
        texts.append(" ".join(rng.choice(topics[name].split()) for name in names))
        labels.append(names)
    model = make_pipeline(TfidfVectorizer(), SNMClassifier(dim=8, members=1, epochs=20))
    model.fit(texts, labels)
    (answer,) = model.predict(["the saw and a wave"])
    assert sorted(answer) == ["sea", "tools"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
def test_grid_search(data):
    X, Y = data.train.features, data.train.labels
    grid = {"epochs": [1, 6]}
    search = GridSearchCV(SNMClassifier(**SMALL), grid, cv=2).fit(X, Y)
    assert search.best_params_ == {"epochs": 6}
    assert search.best_score_ > search.cv_results_["mean_test_score"][0]
    lists = [list(Y[i].indices) for i in range(tiny.POINTS)]
    again = GridSearchCV(SNMClassifier(**SMALL), grid, cv=KFold(2), refit=False)
    scores = again.fit(X, lists).cv_results_["mean_test_score"]
    # The same but for a label that one fold lacks, which lists then do not tell of.
    np.testing.assert_allclose(scores, search.cv_results_["mean_test_score"], atol=0.05)
    # scikit-learn refuses lists where it makes the folds itself, and takes sets.
    sets = [set(row) for row in lists]
    by_number = GridSearchCV(SNMClassifier(**SMALL), grid, cv=2, refit=False).fit(X, sets)
    np.testing.assert_array_equal(by_number.cv_results_["mean_test_score"], scores)


def test_parameters_are_kept_as_they_are_given():
    model = SNMClassifier(dim=7, settings={"ramp_rho": 2.0})
    assert clone(model).get_params() == model.get_params()
    assert model.get_params()["dim"] == 7 and model.get_params()["settings"] == {"ramp_rho": 2.0}
    with pytest.raises(NotFittedError):
        model.predict(np.eye(3))


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"settings": {"ramp_ro": 1}}, "settings: ramp_ro: .*for example ramp_rho"),
        ({"settings": {"patience": 3}}, "settings: patience: found a setting of runs"),
        ({"dim": 8, "settings": {"dim": 9}}, "settings: dim: found another value"),
        ({"preset": "big"}, "preset: found 'big', expected one of default, fast, paper"),
        ({"learning_rate": -1.0}, "^learning_rate: found -1.0, expected a number above 0"),
        (
            {"weighting": "best"},
            "^weighting: found 'best', expected auto or tfidf or l2 or standard or none",
        ),
    ],
)
def test_settings_that_cannot_be_used(data, params, said):
    with pytest.raises(InputError, match=said):
        SNMClassifier(**params).fit(data.train.features, data.train.labels)


def test_targets_that_cannot_be_used(data):
    X = data.train.features
    with pytest.raises(InputError, match="at least 2 classes"):
        SNMClassifier().fit(X, ["one"] * tiny.POINTS)
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        SNMClassifier().fit(X, np.linspace(0, 1, tiny.POINTS))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        SNMClassifier().fit(X, ["a", "b"])
    with pytest.raises(InputError, match="lists of labels and other things"):
        SNMClassifier().fit(X, [["a"]] * (tiny.POINTS - 1) + ["b"])


def test_scikit_learn_is_imported_when_it_is_used():
    code = (
        "import sys\n"
        "sys.modules['sklearn'] = None\n"  # as if it were not installed
        "import snm\n"
        "assert not {'jax', 'scipy'} & set(sys.modules)\n"
        "try: snm.SNMClassifier\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "SNMClassifier needs scikit-learn: pip install 'snm[sklearn]'\n"


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

"""Dense features far from 0: `--weighting auto` standardizes them, and all doors follow."""

import dataclasses
import tomllib

import numpy as np
import pytest
import tiny
from command_line import call
from export.exported import arrays_in
from scipy import sparse
from sklearn.datasets import load_wine

import snm
from snm.config.resolve import resolve
from snm.data.dataset import Dataset, Points
from snm.errors import InputError
from snm.estimator.parameters import with_weighting

POINTS, FEATURES, LABELS = 400, 12, 20
CONFIG = dataclasses.replace(tiny.CONFIG, dim=16, epochs=6, checkpoint_every=1000, memory="off")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Points around the centre of their label; features between 0 and some hundred, few are 0."""
    folder = tmp_path_factory.mktemp("dense") / "data"
    folder.mkdir()
    rng = np.random.default_rng(0)
    centres = rng.normal(0, 1, (LABELS, FEATURES))
    units = 10 ** rng.permutation(np.linspace(0, 1, FEATURES))
    for part in ("trn", "tst"):
        label = rng.integers(LABELS, size=POINTS)
        values = np.maximum(
            units * (5 + centres[label] + rng.normal(0, 0.3, (POINTS, FEATURES))), 0
        )
        values[rng.random(values.shape) < 0.02] = 0
        np.save(folder / f"X.{part}.npy", values.astype(np.float32))
        one = sparse.csr_matrix((np.ones(POINTS), (range(POINTS), label)), (POINTS, LABELS))
        sparse.save_npz(folder / f"Y.{part}.npz", one)
    return folder


def trained(data, place, **settings):
    result = snm.train(data, dataclasses.replace(CONFIG, **settings), place)
    return result["metrics"]["P@1"]


@pytest.fixture(scope="module")
def run(data, tmp_path_factory):
    place = tmp_path_factory.mktemp("dense") / "run"
    assert trained(data, place) > 80
    return place


def test_auto_standardizes(run):
    assert tomllib.loads((run / "config.toml").read_text())["weighting"] == "standard"


@pytest.mark.parametrize("weighting", ["l2", pytest.param("tfidf", marks=pytest.mark.slow)])
def test_others_do_not_learn(data, tmp_path, weighting):
    assert trained(data, tmp_path / "run", weighting=weighting) < 60


def test_a_mesh_learns_the_same(data, run, tmp_path):
    assert trained(data, tmp_path / "mesh", mesh="data=2,label=2") > 80
    features = snm.load_data(data).test.features
    one, two = snm.load(run), snm.load(tmp_path / "mesh")
    np.testing.assert_array_equal(one.weighting.mean, two.weighting.mean)
    assert np.mean(one.predict(features, 1)[0] == two.predict(features, 1)[0]) > 0.95


def test_answers_do_not_depend_on_the_other_points(data, run):
    features = snm.load_data(data).test.features
    model = snm.load(run)
    labels, scores = model.predict(features, 3)
    alone = [model.predict(features[row], 3) for row in (0, 17)]
    np.testing.assert_array_equal(labels[[0, 17]], np.concatenate([one[0] for one in alone]))
    np.testing.assert_allclose(
        scores[[0, 17]], np.concatenate([one[1] for one in alone]), rtol=1e-5
    )


@pytest.mark.parametrize("form", ["npz", "hub"])
def test_exports_follow(data, run, tmp_path, form):
    features = snm.load_data(data).test.features
    call("export", run, "--to", form, "--out", tmp_path / "out")
    if form == "hub":
        labels, _ = snm.load(tmp_path / "out").predict(features, 3)
        np.testing.assert_array_equal(labels, snm.load(run).predict(features, 3)[0])
        return
    arrays = arrays_in(tmp_path / "out" / "model.npz")
    x = (features.toarray() - arrays["mean"]) / arrays["spread"]  # the formula of the manifest
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    expected = snm.load(run).weighting.apply(features).toarray()
    np.testing.assert_allclose(x, expected, rtol=1e-4, atol=1e-5)


def test_the_estimator_follows(data):
    dataset = snm.load_data(data)
    settings = {"steps_per_dispatch": 2, "class_init": "random"}
    model = snm.SNMClassifier(dim=16, members=1, batch_size=16, sampled=8, mined=3, epochs=6,
                              input_dropout=0.0, learning_rate=1.0, schedule="constant",
                              settings=settings)  # fmt: skip
    y = dataset.train.labels.indices
    model.fit(dataset.train.features.toarray(), y)
    assert model.config_.weighting == "standard"
    assert (
        np.mean(model.predict(dataset.test.features.toarray()) == dataset.test.labels.indices) > 0.8
    )
    few = sparse.random(40, 30, 0.1, "csr", random_state=0)
    assert with_weighting(snm.preset("fast"), few, in_parts=False).weighting == "l2"


def test_sparse_features_with_a_negative_value(tmp_path):
    dataset = tiny.dataset(tmp_path / "tiny")
    assert resolve(tiny.CONFIG, dataset).weighting == "tfidf"
    for part in (dataset.train, dataset.test):
        before = part.features.data[7]
        part.features.data[7] = -1
        assert resolve(tiny.CONFIG, dataset).weighting == "l2"
        part.features.data[7] = before


def test_items_of_a_point_stay_sparse():
    """Where labels among the features of a point are no answers, a dense point would have none."""
    rng = np.random.default_rng(0)
    items = rng.random((200, 20)) < 0.5
    labels = rng.random(items.shape) < 0.2
    x, y = (sparse.csr_matrix(one.astype(np.float32)) for one in (items & ~labels, labels))
    dataset = Dataset("items", Points(x, y), None, None, "0" * 64)
    found = resolve(tiny.CONFIG, dataset)
    assert (found.seen, found.weighting) == ("drop", "tfidf")
    with pytest.raises(InputError, match="weighting standard: found seen drop"):
        resolve(dataclasses.replace(tiny.CONFIG, weighting="standard"), dataset)


def test_the_first_points_of_partial_fit_are_too_few_to_standardize():
    X, y = load_wine(return_X_y=True)
    asked = snm.preset("fast")
    few, enough = (sparse.csr_matrix(X[:points]) for points in (29, 30))
    assert with_weighting(asked, few, in_parts=True).weighting == "l2"
    assert with_weighting(asked, enough, in_parts=True).weighting == "standard"
    assert with_weighting(asked, few, in_parts=False).weighting == "standard"
    model = snm.SNMClassifier(preset="fast", dim=8, random_state=0)
    with pytest.warns(UserWarning, match="feature 12 makes up"):  # the one in the largest unit
        model.partial_fit(X[:29], y[:29], classes=[0, 1, 2])
    assert model.config_.weighting == "l2"


def test_measurements_in_different_units():
    """The wine data of scikit-learn: 13 features with means from 0.4 to 750."""
    X, y = load_wine(return_X_y=True)
    model = snm.SNMClassifier(preset="fast", dim=32, random_state=0)
    assert model.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9

"""Class rows at the start, compared with centroids in float64."""

import dataclasses

import numpy as np
import pytest
import tiny
from scipy.sparse import csr_matrix

import snm
from snm.config.resolve import resolve
from snm.data.dataset import Points
from snm.data.weighting import Weighting
from snm.model.model import init_state
from snm.prediction.predictor import Predictor
from snm.prediction.programs import jitted_queries
from snm.tables.rounding import as_float
from snm.trainer.start import centroids as module
from snm.trainer.start.prepare import prepare
from snm.trainer.start.warm_start import starting_state

# Neither the features nor the labels can be cut into 4 equal parts.
DATA = snm.generate(points=150, test_points=10, features=101, labels=43, seed=3)
BARE = 17  # a label that loses its points


def points() -> Points:
    labels = DATA.train.labels.tolil()
    labels[:, BARE] = 0
    return Points(DATA.train.features, csr_matrix(labels))


def dataset_of(train):
    return dataclasses.replace(DATA, train=train, test=None)


def started(**changes):
    """The initial state, `init_state` alone, and the queries [n, dim] of its feature rows."""
    settings = dataclasses.replace(
        snm.preset("default"), dim=16, members=1, batch_size=32, mined=4, sampled=16, **changes
    )
    train = points()
    weighting = Weighting.fit("tfidf", train.features)
    prepared = prepare(resolve(settings, DATA), dataset_of(train), weighting)
    plain = init_state(prepared.model)
    queries = np.concatenate(list(Predictor(prepared.model, plain, weighting)
                                  .queries(train.features)))  # fmt: skip
    return starting_state(prepared, None), plain, queries / prepared.model.score_scale, train


@pytest.mark.parametrize(
    ("place", "changes"),
    [
        ("host", dict()),
        ("host", dict(encoder="relu")),
        ("host", dict(table_dtype="bfloat16")),
        ("step", dict(encoder="relu")),
        ("step", dict(positives="one")),
        ("step", dict(data_on="device")),
        ("step", dict(table_dtype="bfloat16")),
    ],
)
def test_a_class_row_starts_at_the_centroid_of_its_points(place, changes, monkeypatch):
    if place == "step":
        monkeypatch.setattr(module, "_MAX_VALUES_ON_HOST", 0)
    monkeypatch.setattr(module, "ROWS", 64)  # three blocks, the last of 22 points
    check(changes)


@pytest.mark.parametrize("positives", ["one", "all"])
def test_class_rows_on_a_mesh_start_at_the_same_centroids(positives):
    check(dict(mesh="data=2,label=4", positives=positives))


def check(changes):
    """Compares the class rows with centroids in float64."""
    state, plain, queries, train = started(**changes)
    sums = train.labels.T.toarray().astype(np.float64) @ queries.astype(np.float64)
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    assert np.flatnonzero(lengths == 0).tolist() == [BARE]
    rows = np.asarray(as_float(state.head.table.rows))[: len(sums)]
    # Beside a query, the random row is a thousandth; bfloat16 rounds at every step.
    exact = changes.get("table_dtype") != "bfloat16"
    expected = sums / np.where(lengths, lengths, 1)
    some = np.arange(len(sums)) != BARE
    np.testing.assert_allclose(rows[some], expected[some], atol=3e-3 if exact else 0.05)
    before = np.asarray(as_float(plain.head.table.rows))[BARE]
    np.testing.assert_allclose(rows[BARE], before, atol=1e-6 if exact else 0.01)
    # Nothing else moved.
    np.testing.assert_allclose(
        np.asarray(as_float(state.features.rows))[:101], as_float(plain.features.rows), rtol=1e-6
    )
    assert not np.any(state.head.bias)


def test_random_class_rows_are_those_of_the_model():
    state, plain, _, _ = started(class_init="random")
    np.testing.assert_allclose(state.head.table.rows, plain.head.table.rows, rtol=1e-6)


def test_with_splits_a_centroid_has_the_split_points_too():
    """A recommender: half of a point's items become labels, and such points count."""
    rng = np.random.default_rng(0)
    items = csr_matrix((rng.random((60, 30)) < 0.3).astype(np.float32))
    train = Points(items, csr_matrix((rng.random((60, 30)) < 0.1).astype(np.float32)))
    asked = dataclasses.replace(tiny.CONFIG, score_scale=1.0, class_init="centroid", item_splits=1)
    settings = tiny.resolved(asked)
    prepared = prepare(settings, dataset_of(train), Weighting.fit("none", items))
    plain = init_state(prepared.model)
    features, labels = prepared.source.features, prepared.source.labels
    assert features.shape[0] > 60
    alone = Predictor(prepared.model, plain, Weighting.fit("none", features))
    queries = np.concatenate(list(alone.queries(features))).astype(np.float64)
    sums = labels.T.toarray() @ queries
    expected = sums / np.linalg.norm(sums, axis=1, keepdims=True)
    rows = np.asarray(starting_state(prepared, None).head.table.rows)
    np.testing.assert_allclose(rows, expected, atol=3e-3)


@pytest.mark.parametrize("most", [0, module._MAX_VALUES_ON_HOST], ids=["step", "host"])
def test_a_query_that_is_not_finite_changes_no_row(most, monkeypatch):
    """A step leaves out its batch, the host the point alone; training says later which it is."""
    monkeypatch.setattr(module, "_MAX_VALUES_ON_HOST", most)
    monkeypatch.setattr(module, "ROWS", 64)
    train = points()
    train = Points(train.features.copy(), train.labels)
    train.features.data[0] = np.inf
    settings = dataclasses.replace(
        snm.preset("default"), dim=16, weighting="none", members=1, batch_size=32
    )
    prepared = prepare(
        resolve(settings, DATA), dataset_of(train), Weighting.fit("none", train.features)
    )
    plain = np.asarray(init_state(prepared.model).head.table.rows)
    rows = np.asarray(starting_state(prepared, None).head.table.rows)
    assert np.isfinite(rows).all()
    moved = np.abs(rows - plain).max(axis=1) > 1e-3
    assert moved.sum() > 20 and not moved[BARE]


def test_members_and_answers_share_the_program_of_queries():
    jitted_queries.cache_clear()
    state, _, _, train = started()
    settings = dataclasses.replace(snm.preset("default"), dim=16, members=1, batch_size=32,
                                   mined=4, sampled=16)  # fmt: skip
    weighting = Weighting.fit("tfidf", train.features)
    prepared = prepare(
        resolve(dataclasses.replace(settings, seed=5), DATA), dataset_of(train), weighting
    )
    starting_state(prepared, None)
    list(Predictor(prepared.model, state, weighting).queries(train.features))
    assert jitted_queries(prepared.model, None)._cache_size() == 1

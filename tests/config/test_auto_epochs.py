"""How many epochs a training makes, and what depends on that: the rules on data sets."""

import dataclasses
import math

import pytest
import tiny

import snm
from snm.config import auto_epochs
from snm.config.resolve import resolve
from snm.config.settings import preset
from snm.trainer.memory.trial import split_for_memory


def test_few_epochs_have_no_dropout(monkeypatch):
    data = snm.generate(points=1000, test_points=0, features=60, labels=50, seed=0,
                        labels_per_point=2, nonzeros_per_point=5)  # fmt: skip
    random = dataclasses.replace(preset("default"), class_init="random")
    monkeypatch.setattr("snm.config.resolve.evidence_lost", lambda *_: 0.0)
    monkeypatch.setattr("snm.config.resolve.neighbors_lost", lambda *_: 0.0)
    monkeypatch.setattr(auto_epochs, "_VISITS", 400)
    monkeypatch.setattr(auto_epochs, "_MORE_VISITS", 1000)
    for two, one, of_centroids, of_random in (
        (1001, 1001, 3, 3), (1000, 1001, 2, 3), (1000, 1000, 1, 1)
    ):  # fmt: skip
        monkeypatch.setattr(auto_epochs, "_TWO_EPOCHS", two)
        monkeypatch.setattr(auto_epochs, "_ONE_EPOCH", one)
        found = resolve(preset("default"), data)
        assert (found.epochs, found.input_dropout) == (of_centroids, 0.0)
        assert resolve(random, data).epochs == of_random
    asked = resolve(dataclasses.replace(preset("default"), input_dropout=0.3), data)
    assert asked.input_dropout == 0.3
    for epochs, share in ((3, 0.0), (4, 0.5)):
        asked = dataclasses.replace(preset("default"), epochs=epochs)
        assert resolve(asked, data).input_dropout == share


def test_points_of_many_features_start_at_shorter_rows_and_are_visited_more_often(monkeypatch):
    long = snm.generate(points=3000, test_points=0, features=4000, labels=50, seed=0,
                        labels_per_point=2, nonzeros_per_point=160)  # fmt: skip
    features = long.train.features.nnz / 3000
    assert 130 < features < 160
    found = resolve(preset("default"), long)
    assert found.feature_init == pytest.approx(math.sqrt(32 / features))
    half = resolve(dataclasses.replace(preset("default"), input_dropout=0.5), long)
    assert half.feature_init == pytest.approx(math.sqrt(32 / (features / 2)))
    assert resolve(found, long) == found
    fast = resolve(preset("fast"), long)
    assert fast.feature_init == found.feature_init
    assert fast.epochs == 4 < round(features / 20)
    monkeypatch.setattr(auto_epochs, "_VISITS", 3000)  # else so few points are visited often anyway
    monkeypatch.setattr(auto_epochs, "_ONE_EPOCH", 3000)
    monkeypatch.setattr("snm.config.resolve.evidence_lost", lambda *_: 0.0)
    monkeypatch.setattr("snm.config.resolve.neighbors_lost", lambda *_: 0.0)
    found = resolve(preset("default"), long)
    assert (found.epochs, found.input_dropout) == (4, 0.0)
    dense = dataclasses.replace(preset("default"), weighting="standard")
    assert resolve(dense, long).epochs == 4  # as few_epochs
    # Values as they are given may be of any size; the paper's rows have length 1.
    for changes, length in [(dict(weighting="none"), 1.0), (dict(feature_init=0.7), 0.7)]:
        asked = dataclasses.replace(preset("default"), **changes)
        assert resolve(asked, long).feature_init == length
    assert resolve(preset("paper"), long).feature_init == 1.0


@pytest.mark.parametrize(
    ("points", "preset_name", "expected"),
    [(60, "fast", (30, 2, "off")), (199, "fast", (30, 2, "off")), (200, "fast", (30, 2, "on")),
     (600, "fast", (17, 2, "on")), (2_499, "fast", (4, 2, "on")), (2_500, "fast", (1, 1, "on")),
     (199, "default", (30, 3, "off")), (200, "default", (30, 3, "on"))],
)  # fmt: skip
def test_few_points_are_visited_10000_times(points, preset_name, expected):
    """4 epochs of 200 points in batches of 128 were 8 steps. From 200 on, 50 choose a memory."""
    data = snm.generate(points=points, test_points=0, features=500, labels=20, seed=0)
    found = resolve(preset(preset_name), data)
    assert (found.epochs, found.members, found.memory) == expected
    if found.memory == "on":
        _, held = split_for_memory(found, data)
        assert len(held) == max(50, round(points / 10))


def test_split_items_count_as_visits(monkeypatch):
    """600 points, each twice in an epoch: 7,200 visits are 6 epochs."""
    data = tiny.tastes()
    monkeypatch.setattr(auto_epochs, "_VISITS", 7_200)
    monkeypatch.setattr("snm.config.resolve.evidence_lost", lambda *_: 0.0)
    monkeypatch.setattr("snm.config.resolve.neighbors_lost", lambda *_: 0.0)
    found = resolve(preset("default"), data)
    assert (found.class_init, found.item_splits, found.epochs) == ("random", 1, 6)
    monkeypatch.setattr(auto_epochs, "_VISITS", 1_200)  # 1 epoch, but random rows get 3
    monkeypatch.setattr(auto_epochs, "_TWO_EPOCHS", 600)
    found = resolve(preset("default"), data)
    assert (found.epochs, found.input_dropout) == (3, 0.0)


def test_frequent_labels_on_frequent_features_are_visited_more_often(monkeypatch):
    monkeypatch.setattr(auto_epochs, "_VISITS", 8_000)
    monkeypatch.setattr(auto_epochs, "_MORE_VISITS", 24_000)
    sizes = dict(points=2000, test_points=0, seed=0, labels_per_point=4, nonzeros_per_point=20)
    for features, labels, epochs in (
        (100, 50, 12), (1000, 50, 4), (100, 500, 4)
    ):  # fmt: skip
        data = snm.generate(features=features, labels=labels, **sizes)
        of_label = data.train.labels.nnz / labels
        of_feature = data.train.features.nnz / features
        assert (of_label >= 100, of_feature >= 200) == (labels == 50, features == 100)
        found = resolve(preset("default"), data)
        assert (found.class_init, found.epochs) == ("centroid", epochs)

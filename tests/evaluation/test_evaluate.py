"""The evaluation of points in several blocks, against metrics of all answers at once."""

import dataclasses

import numpy as np
import pytest
import tiny

import snm
from snm.evaluation.evaluate import Measures, TrainCounts, evaluate_points
from snm.evaluation.metrics import KS, Metrics, propensities

A, B = 0.6, 2.6


@pytest.fixture(scope="module")
def model(tiny_run):
    return dataclasses.replace(snm.load(tiny_run / "run"), block_rows=7)


@pytest.fixture(scope="module")
def dataset(tiny_run):
    return snm.load_data(tiny_run / "data")


def expected_of(model, points, dataset):
    """Metrics of one block."""
    answers, _ = model.predict(points.features, max(KS))
    likely = propensities(dataset.label_frequency(), tiny.POINTS, A, B)
    return Metrics.start(tiny.LABELS, propensity=likely).update(answers, points.labels).result()


def test_repeats_and_propensities_of_several_blocks(model, dataset):
    points = dataset.test
    repeats = np.arange(tiny.TEST_POINTS) % 3 == 0
    train = TrainCounts(dataset.label_frequency(), tiny.POINTS)
    amazon = train._replace(a=A, b=B)
    found = evaluate_points(model, points, amazon, duplicates=repeats)
    assert found["metrics"] == pytest.approx(expected_of(model, points, dataset))
    fresh = points.take(np.flatnonzero(~repeats))
    assert found["without_repeats"] == pytest.approx(expected_of(model, fresh, dataset))
    other = evaluate_points(model, points, train, duplicates=np.zeros_like(repeats))
    assert other == evaluate_points(model, points, train)  # no point is a repeat
    other = other["metrics"]
    assert other["P@1"] == found["metrics"]["P@1"] and other["PSP@5"] != found["metrics"]["PSP@5"]


def test_without_counts_of_the_training_set(model, dataset):
    """What needs no frequency is the same, to the last bit and in the same order."""
    train = TrainCounts(dataset.label_frequency(), tiny.POINTS)
    measures, repeats = Measures(by_label=True, auc=True), np.arange(tiny.TEST_POINTS) % 3 == 0
    known, found = (
        evaluate_points(model, dataset.test, one, measures, duplicates=repeats)
        for one in (train, None)
    )
    assert list(found) == list(known)
    for part in ("metrics", "without_repeats"):
        left = [(key, one) for key, one in known[part].items() if not key.startswith("PS")]
        assert list(found[part].items()) == left and len(left) < len(known[part])
    assert found["by_label_frequency"] == [] and len(known["by_label_frequency"]) == 10
    of_known, of_found = known["by_label"], found["by_label"]
    assert list(of_found) == list(of_known) and of_found["train"] is None
    np.testing.assert_array_equal(of_known["train"], train.label_frequency)
    for name in ("k", "test", "answers", "right"):
        np.testing.assert_array_equal(of_found[name], of_known[name])


def test_propensities_are_those_of_the_settings(tmp_path):
    """PSP@1 by hand, with A and B of Amazon."""
    data = tiny.dataset(tmp_path / "data")
    config = dataclasses.replace(tiny.CONFIG, epochs=1, propensity_a=0.6, propensity_b=2.6)
    found = snm.train(data, config, tmp_path / "run")["metrics"]
    best = snm.load(tmp_path / "run").predict(data.test.features, 1)[0][:, 0]
    truth = data.test.labels.toarray()
    gains = 1 / propensities(data.label_frequency(), tiny.POINTS, 0.6, 2.6)
    own = (truth[np.arange(len(best)), best] * gains[best]).sum()
    assert found["PSP@1"] == pytest.approx(100 * own / (truth * gains).max(axis=1).sum())

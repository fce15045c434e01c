"""The evaluation of points in several blocks, against metrics of all answers at once."""

import dataclasses

import numpy as np
import pytest
import tiny

import snm
from snm.evaluation.evaluate import evaluate_points
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
    found = evaluate_points(
        model,
        points,
        dataset.label_frequency(),
        tiny.POINTS,
        propensity_a=A,
        propensity_b=B,
        duplicates=repeats,
    )
    assert found["metrics"] == pytest.approx(expected_of(model, points, dataset))
    fresh = points.take(np.flatnonzero(~repeats))
    assert found["without_repeats"] == pytest.approx(expected_of(model, fresh, dataset))
    other = evaluate_points(model, points, dataset.label_frequency(), tiny.POINTS)["metrics"]
    assert other["P@1"] == found["metrics"]["P@1"] and other["PSP@5"] != found["metrics"]["PSP@5"]


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

"""The calibration error by hand, and in an evaluation."""

import dataclasses

import numpy as np
import pytest

import snm
from snm.evaluation.evaluate import evaluate_points
from snm.evaluation.reliability import Reliability
from snm.prediction.calibration import Calibration, Curve


def test_by_hand():
    found = Reliability.start().update(np.array([0.12, 0.18, 0.9]), np.array([1, 0, 1]))
    found = found.update(np.array([[1.0]]), np.array([[False]])).result()
    # Bins 0.1 to 0.2 and 0.9 to 1: |0.30 - 1| and |1.9 - 1| of 4 answers.
    assert found["answers"] == 4 and found["ECE"] == pytest.approx((0.7 + 0.9) / 4)
    assert found["bins"] == [
        {"from": 0.1, "to": 0.2, "answers": 2, "probability": pytest.approx(0.15), "right": 0.5},
        {"from": 0.9, "to": 1.0, "answers": 2, "probability": pytest.approx(0.95), "right": 0.5},
    ]
    variances = 0.12 * 0.88 + 0.18 * 0.82, 0.9 * 0.1
    expected = np.sqrt(2 / np.pi * np.array(variances)).sum() / 4
    assert found["ECE_by_chance"] == pytest.approx(expected)
    assert Reliability.start().result() == {
        "answers": 0, "ECE": 0, "ECE_by_chance": 0, "bins": []
    }  # fmt: skip


def test_exact_probabilities_have_the_error_of_chance():
    rng = np.random.default_rng(0)
    found = []
    for _ in range(40):
        p = rng.random((500, 5))
        found.append(Reliability.start().update(p, rng.random(p.shape) < p).result())
    errors, chances = (np.mean([one[name] for one in found]) for name in ("ECE", "ECE_by_chance"))
    assert errors == pytest.approx(chances, rel=0.1)


@pytest.mark.parametrize("filtered", [False, True])
def test_of_an_evaluation(tiny_run, filtered):
    curve = Curve(
        "logistic", (1.0, 0.0, 0.0, 0.0), (-5.0, 0.0, 9.0), (0.05, 0.3, 0.95), (-1e9, 1e9)
    )
    model = snm.load(tiny_run / "run")
    test = snm.load_data(tiny_run / "data").test
    model = dataclasses.replace(model, block_rows=8, calibration=Calibration(9, curve, curve))
    labels, scores = model.predict(test.features, 20)
    pairs = np.stack([np.arange(20), labels[:, 1]], axis=1)
    if filtered:  # the second answers count neither as right nor as wrong
        test = dataclasses.replace(test, filter=pairs)
        labels, scores = np.delete(labels, 1, axis=1), np.delete(scores, 1, axis=1)
    right = np.take_along_axis(test.labels.toarray(), labels, axis=1)[:, :5] > 0
    truth = test.labels.toarray()
    if filtered:
        truth[pairs[:, 0], pairs[:, 1]] = 0
    some = truth.any(axis=1)
    p = np.interp(scores[:, :5], curve.knots, curve.probabilities)
    expected = Reliability.start().update(p[some], right[some]).result()
    found = evaluate_points(model, test, None)
    assert found["reliability"].pop("k") == 5
    assert found["reliability"]["answers"] == expected["answers"] == 5 * some.sum()
    assert found["reliability"]["ECE"] == pytest.approx(expected["ECE"], abs=1e-6)
    without = evaluate_points(dataclasses.replace(model, calibration=None), test, None)
    assert "reliability" not in without and without["metrics"] == found["metrics"]


def test_a_block_of_points_without_labels_tells_nothing(tiny_run):
    curve = Curve("logistic", (1.0, 0.0, 0.0, 0.0), (-5.0, 9.0), (0.1, 0.9), (-1e9, 1e9))
    model = dataclasses.replace(
        snm.load(tiny_run / "run"), block_rows=8, calibration=Calibration(9, curve, curve)
    )
    test = snm.load_data(tiny_run / "data").test
    labels = test.labels.tolil()
    labels[16:] = 0  # the last block of three
    last = dataclasses.replace(test, labels=labels.tocsr())
    found = evaluate_points(model, last, None)["reliability"]
    assert found == evaluate_points(model, test.take(np.arange(16)), None)["reliability"]
    assert found["answers"] > 0

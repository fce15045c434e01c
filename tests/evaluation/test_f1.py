"""F1 against scikit-learn's, and by hand; and in an evaluation."""

import dataclasses

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import f1_score

import snm
from snm.evaluation.evaluate import Measures, evaluate_points
from snm.evaluation.f1 import F1
from snm.prediction.calibration import Calibration, Curve
from snm.prediction.thresholds import Threshold


def dense_of(answers, num_labels):
    found = np.zeros((len(answers), num_labels + 1), int)
    np.put_along_axis(found, np.where(answers < 0, num_labels, answers), 1, axis=1)
    return found[:, :num_labels]


@pytest.mark.parametrize("seed", range(5))
def test_equals_scikit_learn_for_any_batches(seed):
    rng = np.random.default_rng(seed)
    truth = (rng.random((40, 9)) < 0.3).astype(np.float32)
    truth[:, 8] = 0  # no point carries it
    answers = np.array([rng.permutation(9)[:5] for _ in range(40)])
    answers[rng.random(answers.shape) < 0.4] = -1
    some = truth.any(axis=1)  # scikit-learn would count the others as wrong
    y, found = truth[some].astype(int), dense_of(answers, 9)[some]
    of = lambda average: 100 * f1_score(y, found, average=average, zero_division=0)  # noqa: E731
    start, labels = F1.start(9), sparse.csr_matrix(truth)
    whole = start.update(answers, labels).result()
    assert whole["micro-F1"] == pytest.approx(of("micro"), rel=1e-12)
    assert whole["F1"] == pytest.approx(of("samples"), rel=1e-12)
    carried = np.count_nonzero(y.any(axis=0))
    assert whole["macro-F1"] * carried / 9 == pytest.approx(of("macro"), rel=1e-12)
    assert whole["answers"] == pytest.approx(found.sum() / len(found))
    parts = start.update(answers[7:], labels[7:]).update(answers[:7], labels[:7])
    assert parts.result() == whole


def test_by_hand():
    # Point 0: one of two labels found, one wrong. Point 1: its label. Point 2 has none.
    labels = sparse.csr_matrix(np.array([[1, 1, 0], [0, 1, 0], [0, 0, 0]], np.float32))
    answers = np.array([[0, 2], [1, -1], [0, 1]])
    expected = {
        "micro-F1": 200 * 2 / 6,
        "macro-F1": 100 * (1 + 2 / 3) / 2,
        "F1": 75.0,
        "answers": 1.5,
    }
    assert F1.start(3).update(answers, labels).result() == pytest.approx(expected)
    none = F1.start(3).result()
    assert none == {"micro-F1": 0, "macro-F1": 0, "F1": 0, "answers": 0}
    with pytest.raises(ValueError, match=r"labels \[n, 3\], found \(2, 2\) and \(3, 3\)"):
        F1.start(3).update(answers[:2], labels)


@pytest.mark.parametrize("filtered", [False, True])
def test_of_an_evaluation(tiny_run, filtered):
    """The answers of a whole search, cut here."""
    curve = Curve(
        "logistic", (1.0, 0.0, 0.0, 0.0), (-5.0, 0.0, 9.0), (0.05, 0.3, 0.95), (-1e9, 1e9)
    )
    model = snm.load(tiny_run / "run")
    test = snm.load_data(tiny_run / "data").test
    own = Threshold(0.4, 12, (3, 4), (0.2, 0.9))
    calibration = Calibration(9, curve, curve, {"micro-f1": own})
    model = dataclasses.replace(model, block_rows=8, calibration=calibration)
    labels, scores = model.predict(test.features, 20)
    truth = test.labels.toarray()
    if filtered:  # the second answers count neither as right nor as wrong
        pairs = np.stack([np.arange(20), labels[:, 1]], axis=1)
        test = dataclasses.replace(test, filter=np.roll(pairs[::-1], 7, axis=0))  # in any order
        labels, scores = np.delete(labels, 1, axis=1), np.delete(scores, 1, axis=1)
        truth[pairs[:, 0], pairs[:, 1]] = 0
    p = np.interp(scores, curve.knots, curve.probabilities).astype(np.float32)
    least = np.where(labels == 3, 0.2, np.where(labels == 4, 0.9, 0.4)).astype(np.float32)
    some = truth.any(axis=1)
    found = evaluate_points(model, test, None, Measures(thresholds=["micro-f1", "0.3"]))
    plain = evaluate_points(model, test, None)
    told = found.pop("at_threshold")
    assert found == plain  # the other answers are those without a threshold
    assert [one["threshold"] for one in told] == ["micro-f1", "0.3"]
    for one, kept in zip(told, (p >= least, p >= np.float32(0.3)), strict=True):
        width = 12 if one["threshold"] == "micro-f1" else 20
        answers = dense_of(np.where(kept, labels, -1)[:, :width], 20)[some]
        y = truth[some].astype(int)
        assert one["micro-F1"] == pytest.approx(100 * f1_score(y, answers, average="micro"))
        assert one["F1"] == pytest.approx(
            100 * f1_score(y, answers, average="samples", zero_division=0)
        )

"""Thresholds against all that there are, one by one, on small problems."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from snm.errors import InputError
from snm.prediction.calibration import Calibration, Curve
from snm.prediction.thresholds import (
    GOALS,
    HeldOut,
    Threshold,
    best_threshold,
    find_threshold,
    fit_thresholds,
)
from snm.runs.typed_json import parse_json

K = 6


def f1(hits, answers, true):
    return 2 * hits / (answers + true) if hits else 0.0


def scored(kept, held, goal, k=None):
    """The F1 of answers that stay, from its definition: bool [m, c] -> a number."""
    truth = [set(row.indices.tolist()) for row in held.truth]
    kept = [
        {x for x, stays in zip(row[:k].tolist(), of_row, strict=False) if stays and x >= 0}
        for row, of_row in zip(held.labels, kept, strict=True)
    ]
    both = list(zip(kept, truth, strict=True))
    if goal == "micro":
        return f1(sum(len(a & b) for a, b in both), sum(map(len, kept)), sum(map(len, truth)))
    if goal == "points":
        return np.mean([f1(len(a & b), len(a), len(b)) for a, b in both])

    def of_label(x):
        hits = sum(x in a and x in b for a, b in both)
        return f1(hits, sum(x in a for a in kept), sum(x in b for b in truth))

    found = np.array([of_label(x) for x in range(K)])
    return found if goal == "labels" else found.mean()


@st.composite
def problems(draw):
    """Probabilities of few values, so that many are equal; at least one answer is right."""
    points = draw(st.integers(1, 12))
    width = draw(st.integers(1, K))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    values = np.sort(rng.random(draw(st.integers(1, 9)))).astype(np.float32)
    p = -np.sort(-rng.choice(values, (points, width)), axis=1)
    labels = np.array([rng.permutation(K)[:width] for _ in range(points)])
    if draw(st.booleans()):
        labels[rng.random(labels.shape) < 0.2] = -1
    truth = rng.random((points, K)) < draw(st.floats(0.05, 0.9))
    truth[np.arange(points), rng.integers(K, size=points)] = True  # held-out points have labels
    labels[0, 0] = np.flatnonzero(truth[0])[0]
    labels[0, 1:][labels[0, 1:] == labels[0, 0]] = -1
    right = np.take_along_axis(truth, np.maximum(labels, 0), axis=1) & (labels >= 0)
    return HeldOut(labels, p, right, sparse.csr_matrix(truth.astype(np.float32)))


@settings(max_examples=120, deadline=None)
@given(problems())
def test_no_threshold_is_better(held):
    every = [*np.unique(held.probabilities), 2.0]
    found = fit_thresholds(held)
    assert set(found) == set(GOALS)
    for name, goal, k in (
        ("micro-f1", "micro", None),
        ("f1@1", "points", 1),
        ("f1@3", "points", 3),
    ):
        best = max(scored(held.probabilities >= least, held, goal, k) for least in every)
        kept = found[name](held.labels, held.probabilities)
        assert scored(kept, held, goal, k) == pytest.approx(best, rel=1e-12)
    # Labels of fewer than ten true points share one threshold, with the best macro-F1.
    macro = found["macro-f1"]
    shared = dataclasses.replace(macro, labels=(), own=())
    best = max(scored(held.probabilities >= least, held, "macro") for least in every)
    kept = shared(held.labels, held.probabilities)
    assert scored(kept, held, "macro") == pytest.approx(best, rel=1e-12)


def of_many(points=80, seed=0):
    """Labels 0 to 2 are frequent and of other scales of probability; 3 to 5 are rare."""
    rng = np.random.default_rng(seed)
    labels = np.array([rng.permutation(K) for _ in range(points)])
    p = (
        rng.random((points, K)).astype(np.float32)
        * np.array([0.9, 0.2, 0.5, 0.9, 0.2, 0.5])[labels]
    )
    chance = np.array([0.6, 0.5, 0.4, 0.03, 0.03, 0.03])
    truth = rng.random((points, K)) < chance
    truth[:, 0] |= ~truth.any(axis=1)
    p = p + 0.2 * np.take_along_axis(truth, labels, axis=1)
    order = np.argsort(-p, axis=1)
    labels, p = (np.take_along_axis(x, order, axis=1) for x in (labels, p.astype(np.float32)))
    right = np.take_along_axis(truth, labels, axis=1)
    return HeldOut(labels, p, right, sparse.csr_matrix(truth.astype(np.float32)))


def test_labels_of_ten_true_points_have_the_best_of_their_own():
    held = of_many()
    counts = np.asarray(held.truth.sum(axis=0)).ravel()
    found = fit_thresholds(held)["macro-f1"]
    assert found.labels == tuple(np.flatnonzero(counts >= 10)) == (0, 1, 2)
    every = np.unique(held.probabilities)
    of_every = np.array([scored(held.probabilities >= least, held, "labels") for least in every])
    kept = found(held.labels, held.probabilities)
    of_found = scored(kept, held, "labels")
    assert of_found[:3] == pytest.approx(of_every.max(axis=0)[:3], rel=1e-12)
    shared = found.overall
    best = scored(held.probabilities >= np.float32(shared), held, "labels")
    assert of_found[3:] == pytest.approx(best[3:]) and of_found.mean() > best.mean()


def test_a_threshold_lies_halfway_between_probabilities():
    truth = sparse.csr_matrix(np.array([[1, 0], [1, 0]], np.float32))
    p = np.array([[0.75, 0.25], [0.5, 0.125]], np.float32)
    labels = np.array([[0, 1], [0, 1]])
    found = fit_thresholds(HeldOut(labels, p, labels == 0, truth))
    assert found["micro-f1"] == Threshold((0.5 + 0.25) / 2, 2)
    # The labels that each point is asked for bound what is looked at.
    assert [found[f"f1@{k}"].k for k in (1, 2, 3)] == [1, 2, 2]
    assert found["f1@1"].overall == 0.25  # all of the first answers are right: half of the lowest


def test_which_answers_stay():
    cut = Threshold(0.5, 50, (2, 5), (0.1, 0.9))
    labels = np.array([[0, 2, 5], [5, 7, -1]])
    p = np.array([[0.5, 0.1, 0.8], [0.9, 0.4, 0.99]], np.float32)
    assert cut(labels, p).tolist() == [[True, True, False], [True, False, False]]


def test_names_and_numbers():
    chosen = {"micro-f1": Threshold(0.3, 50)}
    assert find_threshold(chosen, "Micro-F1").overall == 0.3
    assert find_threshold({}, "0.25") == find_threshold({}, 0.25) == Threshold(0.25)
    for wrong in ("2", "-0.1", "nan", "best", "f1@11", 7):
        with pytest.raises(InputError, match="expected a probability from 0 to 1, micro-f1"):
            find_threshold(chosen, wrong)
    with pytest.raises(InputError, match="found f1@5, which the run has not chosen, expected one"):
        find_threshold(chosen, "f1@5")


def test_they_are_kept_with_the_calibration():
    curve = Curve("logistic", (1.0, 0.0, 0.0, 0.0), (0.0, 1.0), (0.0, 1.0), (-1e9, 1e9))
    whole = Calibration(9, curve, curve, fit_thresholds(of_many()))
    text = json.dumps(dataclasses.asdict(whole))
    assert parse_json(Calibration, json.loads(text), "") == whole


def test_of_equal_thresholds_the_highest():
    """One of one right, or two of four: an F1 of 2/3 either way, where two labels are true."""
    p = np.array([0.8, 0.6, 0.4, 0.2], np.float32)
    right = np.array([True, False, False, True])
    assert best_threshold(p, right, np.zeros(4, int), np.array([2])) == pytest.approx(0.7)

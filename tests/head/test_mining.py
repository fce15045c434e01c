"""`mine` against a stable sort of all scores of the sample."""

import jax
import numpy as np
import pytest
from head.small_step import N, S, inputs_of, slot_scores, small_case

from snm.head import plan
from snm.head.mining import mine
from snm.losses.reductions import MASKED
from snm.machine.platform import platform


def mined(case):
    best = jax.jit(lambda: mine(inputs_of(case)))()
    return np.asarray(best.scores), np.asarray(best.slots)


CASES = {
    "own left out later": dict(bias=True),
    "known left out": dict(exclude="all", positives="all", vartheta="power-law"),
    "seen left out": dict(exclude="all", positives="all", seen=True, vartheta="power-law"),
    "of all labels": dict(sampled=29, exclude="all", positives="all", vartheta="power-law"),
    "as many as there are": dict(mined=S - 1, sampled=S - 1, vartheta="power-law", exclude="all"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_best_in_falling_order(name, monkeypatch):
    """Of equal scores the slot that comes first, as a stable sort has it."""
    monkeypatch.setitem(
        plan._MASK_OWN_MIN_MINED, platform(), 64
    )  # a GPU leaves out the own one first
    case = small_case(loss="powl", **CASES[name])
    scores, slots = mined(case)
    every = slot_scores(case)
    count = case.spec.mined + (case.spec.exclude == "positive")
    assert scores.shape == slots.shape == (N, count)
    order = np.argsort(-every, axis=1, kind="stable")[:, :count]
    expected = np.take_along_axis(every, order, axis=1)
    real = np.isfinite(expected)
    assert real.any(axis=1).all() and len(np.unique(expected[real])) < real.sum() / 2
    np.testing.assert_array_equal(scores > MASKED / 2, real)
    np.testing.assert_array_equal(scores[real], expected[real])
    np.testing.assert_array_equal(slots[real], order[real])


@pytest.mark.parametrize("bias", [False, True])
def test_without_order_they_are_the_same_scores(bias):
    case = small_case(exclude="all", positives="all", bias=bias)
    assert not case.spec.head_loss.needs_sorted
    scores, slots = mined(case)
    every = slot_scores(case)
    for row, found, where in zip(every, scores, slots, strict=True):
        np.testing.assert_array_equal(np.sort(found)[::-1], np.sort(row)[::-1][: len(found)])
        assert len(set(where.tolist())) == len(where)
        np.testing.assert_array_equal(row[where], found)


def test_of_many_the_own_is_never_mined():
    """From 64 on a point with one term leaves its own slot out before the search."""
    case = small_case(num_labels=120, sampled=100, mined=64)
    inputs = inputs_of(case)
    scores, slots = mined(case)
    assert scores.shape == (N, 64)
    every = slot_scores(case)
    every[np.arange(N), np.asarray(inputs.excluded)] = -np.inf
    np.testing.assert_array_equal(
        -np.sort(-scores, axis=1), -np.sort(-every, axis=1, kind="stable")[:, :64]
    )
    assert not (slots == np.asarray(inputs.excluded)[:, None]).any()

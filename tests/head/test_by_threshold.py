"""`mine_by_threshold` against loops over points and slots; tied scores share the last ranks."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from head.small_step import K, S, inputs_of, own_slots, positive_scores, slot_scores, small_case
from head_reference import rank_weights, row_of_term

from snm.head import by_threshold as module
from snm.head.by_threshold import all_scores, mask_excluded, mine_by_threshold
from snm.head.plan import Mining
from snm.head.step_inputs import term_scores
from snm.losses.reductions import MASKED

ALL = dict(exclude="all", positives="all")
CASES = {
    "bowl": dict(**ALL),
    "bowl, own left out, bias": dict(bias=True),
    "bowl of all labels": dict(sampled=K - 1, mined=9, **ALL),
    "powl, own left out": dict(loss="powl", phi="squared_hinge"),
    "softmax": dict(loss="softmax", bias=True, **ALL),
    "softmax, seen left out": dict(loss="softmax", seen=True, **ALL),
    "softmax, own left out": dict(loss="softmax"),
}
EVERY = {
    "bowl": dict(phi="squared_hinge", **ALL),
    "powl, own left out": dict(loss="powl", phi="squared_hinge"),
    "softmax": dict(loss="softmax", bias=True, seen=True, **ALL),
    "softmax of all labels": dict(loss="softmax", sampled=K - 1, **ALL),
}
"""Losses of every sampled negative: nothing is left to find."""


def shares(row, count):
    """How much of each score is mined: those that tie for the last places share them."""
    real = np.isfinite(row)
    if real.sum() <= count:
        return real.astype(float)
    last = np.sort(row[real])[-count]
    above, equal = row > last, row == last
    return above + equal * (count - above.sum()) / equal.sum()


PHI = {
    "hinge": (lambda u: max(1 - u, 0), lambda u: -1.0 if u < 1 else 0.0),
    "squared_hinge": (lambda u: max(1 - u, 0) ** 2, lambda u: -2 * max(1 - u, 0)),
}


def by_hand(case):
    """The loss, and its gradient by the terms' positives and by every slot of every point."""
    spec = case.spec
    scores, positive, of_row = slot_scores(case), positive_scores(case), row_of_term(case)
    if spec.exclude == "positive":
        for t, slot in enumerate(own_slots(case)):
            scores[of_row[t], slot] = -np.inf
    log_weights = np.zeros(scores.shape[1])
    if case.sample is not None and case.sample.log_weights is not None:
        log_weights = np.asarray(case.sample.log_weights, np.float64)
    loss, grad_positive, grad_scores = 0.0, np.zeros(len(positive)), np.zeros(scores.shape)
    for t, weight in enumerate(np.asarray(case.terms.values, np.float64)):
        i, chosen = of_row[t], shares(scores[of_row[t]], spec.mined)
        places = np.flatnonzero(chosen)
        if spec.loss == "softmax":
            odds = {j: chosen[j] * np.exp(scores[i, j] + log_weights[j] - positive[t])
                    for j in places}  # fmt: skip
            total = 1 + sum(odds.values())
            loss += weight * np.log(total)
            grad_positive[t] -= weight * (total - 1) / total
            for j in places:
                grad_scores[i, j] += weight * odds[j] / total
            continue
        phi, slope = PHI[spec.options.phi]
        each = rank_weights(spec)[0]
        if spec.loss == "bowl":
            loss += weight * phi(positive[t])
            grad_positive[t] += weight * slope(positive[t])
        for j in places:
            pairwise = spec.loss == "powl"
            margin = (positive[t] if pairwise else 0) - scores[i, j]
            loss += weight * each * chosen[j] * phi(margin)
            grad_positive[t] += weight * each * chosen[j] * slope(margin) * pairwise
            grad_scores[i, j] -= weight * each * chosen[j] * slope(margin)
    return loss, grad_positive, grad_scores, scores


def compare(case, planned=None):
    """`planned`: how the step mines, where a test says it."""
    positive = np.asarray(positive_scores(case), np.float32)
    loss, grad_positive, grad_scores, scores = by_hand(case)

    def gradients(positive):
        inputs = inputs_of(case)
        assert planned in (None, inputs.plan.mining)
        scores = mask_excluded(inputs, all_scores(inputs))
        return mine_by_threshold(inputs, positive, scores)

    got = jax.jit(gradients)(positive)
    np.testing.assert_allclose(got.loss, loss, rtol=1e-5)
    np.testing.assert_allclose(got.grad_positive, grad_positive, atol=1e-6)
    slots = scores.shape[1]
    np.testing.assert_allclose(got.grad_scores[:, :slots], grad_scores, atol=1e-6)
    np.testing.assert_array_equal(got.grad_scores[:, slots:], 0)
    np.testing.assert_array_equal(got.grad_scores[:, :slots][~np.isfinite(scores)], 0)
    assert got.grad_mined.shape[1] == got.slots.shape[1] == 0
    whole = [np.isin(shares(row, case.spec.mined), (0, 1)).all() for row in scores]
    # Somewhere equal scores share the last places, unless all are mined.
    assert all(whole) == (case.spec.mined >= case.spec.sampled)


def off_the_kink(case):
    """No margin is 1, where any slope between the two of the hinge would be right."""
    return case._replace(queries=case.queries * 0.75)


@pytest.mark.parametrize("name", CASES)
def test_loss_and_gradient(name):
    compare(off_the_kink(small_case(**CASES[name])))


@pytest.mark.parametrize("mined", [6, None])
def test_points_that_turns_do_not_divide(mined, monkeypatch):
    """Seven points, three a turn: the last turn is filled up, and every point has what it had."""
    scores = np.random.default_rng(3).normal(size=(7, 40)).astype(np.float32)
    scores[2, 5:] = MASKED
    form = small_case(loss="softmax", **ALL).spec.head_loss.threshold
    found = []
    for at_once in (7, 3):
        monkeypatch.setattr(
            module, "_CHUNK_SCORES", dict.fromkeys(module._CHUNK_SCORES, 40 * at_once)
        )
        by_rows = jax.jit(lambda s, p: module._search_in_chunks(form, mined, s, p, None))
        found.append(jax.tree.leaves(by_rows(scores, scores[:, 0])))
    for whole, in_turns in zip(*found, strict=True):
        assert in_turns.shape == (7,)
        np.testing.assert_allclose(in_turns, whole, rtol=1e-6)


@pytest.mark.parametrize("name", EVERY)
def test_loss_and_gradient_of_every_negative(name):
    case = small_case(**EVERY[name])
    spec = dataclasses.replace(case.spec, mined=case.spec.sampled)
    compare(off_the_kink(case._replace(spec=spec)), planned=Mining.BY_THRESHOLD)


def test_the_logarithms_of_weights_enter_the_softmax():
    case = small_case(loss="softmax", **ALL)
    log_weights = np.linspace(-1, 1, S, dtype=np.float32)
    compare(case._replace(sample=case.sample._replace(log_weights=log_weights)))


@pytest.mark.parametrize("bias", [False, True])
def test_every_score_is_the_product_or_masked(bias):
    case = small_case(bias=bias, **ALL)
    expected = slot_scores(case)

    @jax.jit
    def found():
        inputs = inputs_of(case)
        return mask_excluded(inputs, all_scores(inputs))

    got = np.asarray(found())
    assert (~np.isfinite(expected)).any()
    np.testing.assert_array_equal(
        got[:, : expected.shape[1]], np.where(np.isfinite(expected), expected, np.float32(MASKED))
    )
    np.testing.assert_array_equal(got[:, expected.shape[1] :], np.float32(MASKED))


@pytest.mark.parametrize("bias", [False, True])
def test_positives_are_looked_up_where_every_label_has_a_slot(bias):
    case = small_case(sampled=K - 1, bias=bias, **ALL)
    # Products of bfloat16 factors have too few bits: nothing is looked up in them.
    of_bfloat16 = dataclasses.replace(case.spec, compute_dtype="bfloat16")

    @jax.jit
    def found():
        inputs = inputs_of(case)
        assert inputs.ids is None
        rounded = dataclasses.replace(inputs, spec=of_bfloat16)
        zeros = jnp.zeros_like(inputs.terms.values)
        return (
            term_scores(inputs, all_scores(inputs)),
            term_scores(inputs),
            term_scores(rounded, zeros),
        )

    for got in found():
        np.testing.assert_array_equal(got, positive_scores(case))

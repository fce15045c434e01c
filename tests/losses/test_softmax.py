"""Softmax losses against a NumPy brute force, rax, finite differences, and at their edges."""

import jax
import jax.numpy as jnp
import numpy as np
import rax
from jax.test_util import check_grads

from snm.losses.softmax import decoupled_softmax, sampled_softmax, softmax

rng = np.random.default_rng(11)
POSITIVE = rng.normal(size=(4,))
NEGATIVE = rng.normal(size=(4, 6))
WHERE = rng.random((4, 6)) < 0.6
WHERE[3] = False  # an example whose negatives are all masked
WEIGHTS = rng.random(4)
SCORES = rng.normal(size=(4, 7))
LABELS = np.array([0, 6, 3, 3])


def brute_softmax(positive, negative, where):
    """-log of the positive's share, for one example."""
    rivals = sum(np.exp(s) for s, kept in zip(negative, where, strict=True) if kept)
    return -np.log(np.exp(positive) / (np.exp(positive) + rivals))


def test_sampled_softmax_equals_the_brute_force_with_scale_and_log_weights():
    shares = rng.random(6) + 0.1
    got = sampled_softmax(
        jnp.asarray(POSITIVE),
        jnp.asarray(NEGATIVE),
        log_weights=np.log(shares),
        where=WHERE,
        score_scale=2.0,
        reduce_fn=None,
    )
    corrected = 2 * NEGATIVE + np.log(shares)
    expected = [brute_softmax(*row) for row in zip(2 * POSITIVE, corrected, WHERE, strict=True)]
    np.testing.assert_allclose(got, expected, rtol=1e-5)
    assert float(got[3]) == 0  # nothing to be told apart from


def test_a_negative_of_weight_zero_is_left_out():
    value = sampled_softmax(0.0, jnp.zeros(3), log_weights=[0.0, -np.inf, 0.0])
    np.testing.assert_allclose(value, np.log(3), rtol=1e-6)


def test_softmax_keeps_the_digits_of_a_small_loss():
    # log1p(exp(-30)), which log(1 + exp(-30)) rounds to zero in float32.
    np.testing.assert_allclose(
        sampled_softmax(30.0, jnp.zeros(1)), np.log1p(np.exp(-30.0)), rtol=1e-5
    )


def test_softmax_equals_rax():
    one_hot = jax.nn.one_hot(LABELS, 7)
    where = rng.random((4, 7)) < 0.7
    where[np.arange(4), LABELS] = True
    scores = jnp.asarray(SCORES)
    for mask in (None, where):
        ours = softmax(scores, LABELS, where=mask, reduce_fn=None)
        theirs = rax.softmax_loss(scores, one_hot, where=mask, reduce_fn=None)
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    np.testing.assert_allclose(
        softmax(scores, LABELS), rax.softmax_loss(scores, one_hot), rtol=1e-5
    )


def test_decoupled_softmax_leaves_the_other_positives_out():
    positives = np.array(
        [[1, 1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 1], [0] * 7, [1] * 7], dtype=bool
    )
    where = np.ones((4, 7), bool)
    where[0, [1, 4]] = False
    for mask in (None, where):
        kept = np.ones((4, 7), bool) if mask is None else mask
        got = decoupled_softmax(
            jnp.asarray(SCORES), positives, where=mask, weights=WEIGHTS, reduce_fn=None
        )
        for i in range(4):
            terms = [
                brute_softmax(SCORES[i, p], SCORES[i], kept[i] & ~positives[i])
                for p in np.flatnonzero(positives[i] & kept[i])
            ]
            expected = WEIGHTS[i] * np.mean(terms) if terms else 0.0
            np.testing.assert_allclose(got[i], expected, rtol=1e-5, atol=1e-7)


def test_decoupled_softmax_of_one_positive_is_softmax_and_is_finite_at_the_edges():
    one = np.arange(7) == LABELS[:, None]
    ours = decoupled_softmax(jnp.asarray(SCORES), one, reduce_fn=None)
    np.testing.assert_allclose(ours, softmax(jnp.asarray(SCORES), LABELS, reduce_fn=None))
    step = jax.jit(jax.value_and_grad(decoupled_softmax))
    for scores in (np.zeros((4, 7)), np.where(one, -1e4, 1e4), np.where(one, 1e4, -1e4)):
        for positives in (one, np.zeros((4, 7), bool), np.ones((4, 7), bool)):
            value, gradient = step(scores.astype(np.float32), positives)
            assert np.isfinite(value)
            assert np.isfinite(gradient).all()


def test_what_is_masked_does_not_reach_the_gradient_of_the_scale():
    negative, where = jnp.array([1.0, jnp.nan, jnp.inf]), jnp.array([True, False, False])
    by_scale = jax.grad(lambda c: sampled_softmax(0.0, negative, where=where, score_scale=c))(1.0)
    np.testing.assert_allclose(by_scale, 1 / (1 + np.exp(-1)), rtol=1e-6)  # of log(1 + exp(c))
    by_scale = jax.grad(
        lambda c: decoupled_softmax(
            negative, jnp.array([True, True, False]), where=where, score_scale=c
        )
    )(1.0)
    assert float(by_scale) == 0  # no negative is left


def test_gradients_equal_finite_differences():
    def both(positive, negative, scores, scale):
        return [
            sampled_softmax(positive, negative, where=WHERE, score_scale=scale, reduce_fn=None),
            decoupled_softmax(scores, SCORES > 0.3, score_scale=scale, reduce_fn=None),
        ]

    with jax.enable_x64(True):
        arguments = [jnp.asarray(a) for a in (POSITIVE, NEGATIVE, SCORES, 3.0)]
        check_grads(jax.jit(both), arguments, order=1, modes=["rev"])

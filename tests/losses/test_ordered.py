"""Losses against hand arithmetic, a NumPy brute force, rax, and at their edges."""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from snm.errors import InputError
from snm.losses import ordered as losses
from snm.losses.softmax import sampled_softmax
from snm.losses.surrogates import SURROGATES, ramp

PHIS = {
    "hinge": lambda u: np.maximum(1 - u, 0),
    "logistic": lambda u: np.log2(1 + np.exp(-u)),
    "squared_hinge": lambda u: np.maximum(1 - u, 0) ** 2,
    "exponential": lambda u: np.exp(-u),
    "ramp": lambda u: np.where(u <= 0, 1.0, np.where(u <= 1, 1 - u, 0.0)),
}
OWLS = {"powl": losses.sampled_powl, "bowl": losses.sampled_bowl}

rng = np.random.default_rng(7)
POSITIVE = rng.normal(size=(4,))
NEGATIVE = rng.normal(size=(4, 6))
WHERE = rng.random((4, 6)) < 0.6
WHERE[3] = False  # an example whose negatives are all masked
WEIGHTS = rng.random(4)
SCORES = rng.normal(size=(4, 7))
LABELS = np.array([0, 6, 3, 3])


def brute_owl(kind, positive, negative, vartheta, phi, where):
    """Definitions 3 and 4 for one example, literally: drop the masked, sort, weigh by rank."""
    hardest = sorted((s for s, kept in zip(negative, where, strict=True) if kept), reverse=True)
    pairs = list(zip(vartheta, hardest, strict=False))
    if kind == "powl":
        return sum(w * phi(np.float64(positive - s)) for w, s in pairs)
    return phi(np.float64(positive)) + sum(w * phi(np.float64(-s)) for w, s in pairs)


def test_the_surrogates_at_points_a_reader_can_check():
    margins = jnp.array([-1.0, 0.0, 0.5, 1.0, 2.0])
    expected = {
        "hinge": [2, 1, 0.5, 0, 0],
        "logistic": np.log2(1 + np.exp([1, 0, -0.5, -1, -2])),
        "squared_hinge": [4, 1, 0.25, 0, 0],
        "exponential": np.exp([1, 0, -0.5, -1, -2]),
        "ramp": [1, 1, 0.5, 0, 0],
    }
    assert set(expected) == set(SURROGATES)
    for name, values in expected.items():
        np.testing.assert_allclose(SURROGATES[name](margins), values, rtol=1e-6)
    np.testing.assert_allclose(ramp(margins, rho=4.0), [1, 1, 0.875, 0.75, 0.5])


@pytest.mark.parametrize("kind", OWLS)
@pytest.mark.parametrize("presorted", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_sampled_losses_equal_the_brute_force(kind, presorted, masked):
    negative, where = NEGATIVE, WHERE if masked else np.ones_like(WHERE)
    if presorted:
        order = np.argsort(-negative, axis=-1)
        negative = np.take_along_axis(negative, order, axis=-1)
    rank_weights = np.array([0.5, 0.25, 0.125]), rng.random((4, 3))

    @jax.jit
    def every_loss(positive, negative, weights, *rank_weights):
        """By surrogate, and by the shape of the rank weights: one program compiles soonest."""
        return [
            OWLS[kind](
                positive,
                negative,
                vartheta=vartheta,
                where=where if masked else None,
                weights=weights,
                phi=SURROGATES[phi],
                reduce_fn=None,
                presorted=presorted,
            )
            for phi in PHIS
            for vartheta in rank_weights
        ]

    arguments = POSITIVE, negative, WEIGHTS, *rank_weights
    found = iter(every_loss(*(np.float32(x) for x in arguments)))
    for phi in PHIS:
        for vartheta in rank_weights:
            rows = np.broadcast_to(vartheta, (4, 3))
            expected = [
                w * brute_owl(kind, *row, PHIS[phi], mask)
                for w, row, mask in zip(
                    WEIGHTS, zip(POSITIVE, negative, rows, strict=True), where, strict=True
                )
            ]
            np.testing.assert_allclose(next(found), expected, rtol=2e-5, atol=1e-6, err_msg=phi)


@pytest.mark.parametrize("kind", OWLS)
def test_full_losses_equal_the_brute_force_over_the_other_labels(kind):
    loss = {"powl": losses.powl, "bowl": losses.bowl}[kind]
    where = rng.random((4, 7)) < 0.7
    theta = np.array([0.5, 0.25, 0.25, 0.125, 0.0625, 0.0])
    for mask in (None, where):
        kept = np.ones((4, 7), bool) if mask is None else mask
        kept = kept & (np.arange(7) != LABELS[:, None])
        got = loss(SCORES, LABELS, theta=theta, where=mask, reduce_fn=None)
        expected = [
            brute_owl(kind, s[y], s, theta, PHIS["hinge"], k)
            for s, y, k in zip(SCORES, LABELS, kept, strict=True)
        ]
        np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_the_named_instances_equal_their_textbook_forms():
    rivals = [np.delete(s, y) for s, y in zip(SCORES, LABELS, strict=True)]
    margins = [s[y] - r for s, y, r in zip(SCORES, LABELS, rivals, strict=True)]
    hinges = [np.sort(np.maximum(1 - m, 0))[::-1] for m in margins]
    own = np.maximum(1 - SCORES[np.arange(4), LABELS], 0)
    scores = jnp.asarray(SCORES)
    for got, expected in [
        (losses.crammer_singer(scores, LABELS, reduce_fn=None), [h[0] for h in hinges]),
        (losses.weston_watkins(scores, LABELS, reduce_fn=None), [h.sum() for h in hinges]),
        (losses.top_k_loss(scores, LABELS, 3, reduce_fn=None), [h[:3].mean() for h in hinges]),
        (
            losses.lee_lin_wahba(scores, LABELS, reduce_fn=None),
            [o + np.maximum(1 + r, 0).sum() for o, r in zip(own, rivals, strict=True)],
        ),
    ]:
        np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_ties_share_their_weights_and_the_gradient_adds_up():
    gradient = jax.grad(lambda s: losses.sampled_powl(0.0, s, vartheta=[0.5, 0.25]))(jnp.zeros(3))
    assert float(gradient.sum()) == 0.75
    assert float(losses.sampled_powl(0.0, jnp.zeros(3), vartheta=[0.5, 0.25])) == 0.75


def test_the_hinge_of_scores_within_one_is_linear_in_bowl():
    negative = jnp.array([0.25, -1.0, 0.75])
    value, gradient = jax.value_and_grad(
        lambda s: losses.sampled_bowl(0.5, s, vartheta=[0.5, 0.25])
    )(negative)
    assert float(value) == (1 - 0.5) + 0.5 * (1 + 0.75) + 0.25 * (1 + 0.25)
    assert gradient.tolist() == [0.25, 0, 0.5]


def test_with_the_hinge_bowl_and_powl_have_one_gradient_while_margins_are_below_one():
    def gradients(negative):
        return [
            jax.grad(
                functools.partial(loss, vartheta=np.full(2, 0.5), reduce_fn=jnp.sum), argnums=(0, 1)
            )(jnp.array([0.25]), jnp.array([negative]))
            for loss in OWLS.values()
        ]

    for of_loss in gradients([0.5, -0.5, -0.7]):  # margins -0.25 and 0.75; the third is not mined
        np.testing.assert_array_equal(of_loss[0], [-1])
        np.testing.assert_array_equal(of_loss[1], [[0.5, 0.5, 0]])
    powl, bowl = gradients([0.5, -0.8, -0.9])  # a margin of 1.05
    assert (powl[0], bowl[0]) == (-0.5, -1)


def test_equal_weights_sort_nothing():
    def compiled(vartheta):
        step = jax.jit(lambda p, n: losses.sampled_powl(p, n, vartheta=vartheta))
        return step.lower(jnp.zeros(2), jnp.zeros((2, 6))).as_text()

    assert "top_k" not in compiled(np.full(6, 1 / 6))
    assert "top_k" in compiled(np.full(5, 1 / 5))


def test_no_negatives_and_no_examples():
    none = jnp.zeros((2, 0))
    assert losses.sampled_powl(jnp.zeros(2), none, vartheta=[], reduce_fn=None).tolist() == [0, 0]
    assert losses.sampled_bowl(jnp.zeros(2), none, vartheta=[], reduce_fn=None).tolist() == [1, 1]
    assert sampled_softmax(jnp.zeros(2), none, reduce_fn=None).tolist() == [0, 0]
    nobody = losses.sampled_powl(jnp.zeros(0), jnp.zeros((0, 3)), vartheta=[1.0], reduce_fn=None)
    assert nobody.shape == (0,)


@functools.cache
def value_and_gradient(name: str, phi: str):
    """One compilation for every edge case below."""

    def loss(positive, negative, where):
        if name == "softmax":
            return sampled_softmax(positive, negative, where=where, score_scale=20.0)
        return OWLS[name](
            positive,
            negative,
            vartheta=[0.5, 0.5, 0.25],
            where=where,
            phi=SURROGATES[phi],
        )

    return jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))


@pytest.mark.parametrize(("name", "phi"), [*itertools.product(OWLS, PHIS), ("softmax", "")])
def test_values_and_gradients_are_finite_at_the_edges(name, phi):
    step = value_and_gradient(name, phi)
    full, empty = np.ones((2, 4), bool), np.zeros((2, 4), bool)
    half = np.array([[True, False, True, False], [False] * 4])
    top = 80.0 if phi == "exponential" else 1e4  # exp(1e4) is documented to overflow
    spread = np.array([[top, 0.0, 0.0, -top], [top, top, -top, -top]]) / 2
    for positive in (0.0, top / 2, -top / 2):
        for negative in (np.zeros((2, 4)), np.ones((2, 4)), spread):
            for where in (full, half, empty):
                value, (by_positive, by_negative) = step(
                    np.full(2, positive, np.float32), negative.astype(np.float32), where
                )
                assert np.isfinite(value), (positive, negative, where)
                assert np.isfinite(by_positive).all(), (positive, negative, where)
                assert np.isfinite(by_negative).all(), (positive, negative, where)
                assert (np.asarray(by_negative)[~where] == 0).all()


@pytest.mark.parametrize("name", ["powl", "bowl", "softmax"])
def test_what_is_masked_may_be_anything(name):
    negative = np.array([[1.0, np.nan, np.inf, -np.inf], [np.nan] * 4], np.float32)
    where = np.array([[True, False, False, False], [False] * 4])
    phi = "exponential" if name != "softmax" else ""
    value, (by_positive, by_negative) = value_and_gradient(name, phi)(
        np.zeros(2, np.float32), negative, where
    )
    assert np.isfinite(value)
    assert np.isfinite(by_positive).all()
    assert np.isfinite(by_negative).all()


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, jnp.float32])
def test_the_dtype_is_kept_and_sums_are_wide(dtype):
    # 4096 times 1/4096 added up in bfloat16 would stop growing at 1/16.
    many = jnp.zeros((1, 4096), dtype)
    vartheta = np.full(4096, 1 / 4096)

    @jax.jit
    def both(one):
        return (
            losses.sampled_powl(one, many, vartheta=vartheta, presorted=True),
            sampled_softmax(one, many, log_weights=np.log(vartheta)) / math.log(2),
        )

    for value in both(jnp.zeros(1, dtype)):
        assert value.dtype == dtype
        assert abs(float(value) - 1) < 0.01


def test_gradients_equal_finite_differences_away_from_kinks():
    def every_owl(positive, negative):
        return [
            loss(
                positive,
                negative,
                vartheta=[0.5, 0.3, 0.2],
                where=WHERE,
                phi=SURROGATES[phi],
                reduce_fn=None,
            )
            for loss in OWLS.values()
            for phi in ("hinge", "logistic", "squared_hinge", "ramp")
        ]

    with jax.enable_x64(True):
        arguments = jnp.asarray(POSITIVE), jnp.asarray(NEGATIVE)
        check_grads(jax.jit(every_owl), arguments, order=1, modes=["rev"])


def test_wrong_arguments_are_named():
    with pytest.raises(InputError, match="3 of them, expected at most 2"):
        losses.sampled_powl(0.0, jnp.zeros(2), vartheta=[1.0] * 3)
    with pytest.raises(InputError, match="at most 2"):
        losses.powl(jnp.zeros(3), 0, theta=[1.0] * 3)
    with pytest.raises(InputError, match="at least 1"):
        losses.top_k_loss(jnp.zeros(3), 0, 0)

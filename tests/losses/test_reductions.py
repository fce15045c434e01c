"""Masks, ranks and reductions against loops over single numbers in float64."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from snm.errors import InputError
from snm.losses.listwise import listnet, ranksvm
from snm.losses.ordered import sampled_bowl, sampled_powl
from snm.losses.reductions import (
    as_mask,
    log_sum_exp,
    promote_scores,
    rank_scores,
    reduce_losses,
    split_positive,
)
from snm.losses.softmax import decoupled_softmax, sampled_softmax

N, M = 4, 12
RNG = np.random.default_rng(0)
# Of few values, so that many are equal; a row each with nothing, one and everything unmasked.
SCORES = RNG.integers(-3, 4, (N, M)).astype(np.float32)
WHERE = RNG.random((N, M)) < 0.5
WHERE[0], WHERE[1], WHERE[2] = False, np.arange(M) == 5, True
WEIGHTS = np.array([0.5, 0.25, 0.125, 0.0625], np.float32)


def weighed(kept, weights):
    """What both are for: the weighted sum, here of squares."""
    return np.asarray((weights * kept**2).sum(axis=-1))


def by_hand(scores, weights, where):
    """The same, row by row: the unmasked are sorted, each takes the weight of its rank."""
    out = np.zeros(len(scores))
    for i, (row, mask) in enumerate(zip(scores, where, strict=True)):
        of_row = weights if np.ndim(weights) == 1 else weights[i]
        best = sorted((float(s) for s, real in zip(row, mask, strict=True) if real), reverse=True)
        out[i] = sum(float(w) * s**2 for w, s in zip(of_row, best, strict=False))
    return out


@pytest.mark.parametrize("presorted", [False, True])
@pytest.mark.parametrize("mask", [None, WHERE], ids=["all", "masked"])
@pytest.mark.parametrize(
    "weights",
    [
        WEIGHTS,
        RNG.random((N, 4)).astype(np.float32),
        np.full(M, 0.5, np.float32),
        np.linspace(1, 0, M, dtype=np.float32),
        np.zeros(0, np.float32),
    ],
    ids=["four", "four a row", "equal", "one a score", "none"],
)
@pytest.mark.parametrize("traced", [False, True])
def test_weights_by_rank(presorted, mask, weights, traced):
    """Ties at the last rank that counts do not matter: the scores there are the same."""
    scores = -np.sort(-SCORES, axis=1) if presorted else SCORES
    given = jnp.asarray(weights) if traced else weights
    found = weighed(*rank_scores(jnp.asarray(scores), given, mask, presorted=presorted))
    everything = np.ones((N, M), bool) if mask is None else mask
    np.testing.assert_allclose(found, by_hand(scores, weights, everything), rtol=1e-6)


def test_presorted_with_masked_in_between():
    """Only the unmasked must be in order; the others may hold anything, also what is no number."""
    scores = np.array([[9, 3, np.nan, 2, np.inf, 2, -np.inf, 1]], np.float32)
    mask = np.array([[False, True, False, True, False, True, False, True]])
    kept, weights = rank_scores(jnp.asarray(scores), WEIGHTS, mask, presorted=True)
    np.testing.assert_array_equal(kept, [[0, 3, 0, 2, 0, 2, 0, 1]])
    np.testing.assert_array_equal(weights, [[0, 0.5, 0, 0.25, 0, 0.125, 0, 0.0625]])
    kept, weights = rank_scores(jnp.asarray(scores), WEIGHTS[:2], mask, presorted=False)
    np.testing.assert_array_equal(kept, [[3, 2]])
    np.testing.assert_array_equal(weights, [[0.5, 0.25]])


@pytest.mark.parametrize("presorted", [False, True])
def test_masked_scores_get_no_gradient(presorted):
    scores = np.where(WHERE, -np.sort(-SCORES, axis=1), np.float32(np.nan))
    of = jax.jit(
        jax.grad(
            lambda s: sum(map(jnp.sum, [jnp.prod(jnp.stack(
                rank_scores(s, WEIGHTS, WHERE, presorted=presorted)), axis=0)]))
        )
    )(scores)  # fmt: skip
    assert np.isfinite(of).all()
    np.testing.assert_array_equal(np.asarray(of)[~WHERE], 0)
    np.testing.assert_allclose(
        of.sum(axis=1), [sum(WEIGHTS[:count]) for count in WHERE.sum(axis=1)], rtol=1e-6
    )


def test_log_sum_exp_of_the_unmasked():
    for shift in (0, 1e4, -1e4):  # the sum itself would overflow, or vanish
        value, some = log_sum_exp(jnp.asarray(SCORES + shift), jnp.asarray(WHERE))
        np.testing.assert_array_equal(some, WHERE.any(axis=1))
        for i in range(N):
            exact = SCORES[i][WHERE[i]].astype(np.float64)
            expected = np.log(np.exp(exact).sum()) + shift if WHERE[i].any() else 0
            np.testing.assert_allclose(value[i], expected, rtol=1e-6, atol=1e-6)


def test_gradient_of_log_sum_exp_is_the_softmax():
    scores = jnp.where(WHERE, SCORES, jnp.inf)  # no number may come from what is masked
    of = jax.grad(lambda s: log_sum_exp(s, jnp.asarray(WHERE))[0].sum())(scores)
    shares = np.where(WHERE, np.exp(SCORES.astype(np.float64)), 0)
    total = shares.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(of, shares / np.where(total > 0, total, 1), rtol=1e-5)


@pytest.mark.parametrize("mask", [None, WHERE], ids=["all", "masked"])
def test_a_positive_is_told_from_the_rest(mask):
    labels = np.array([3, 5, 0, M - 1])
    positive, others = split_positive(jnp.asarray(SCORES), labels, mask)
    np.testing.assert_array_equal(positive, SCORES[np.arange(N), labels])
    expected = np.ones((N, M), bool) if mask is None else mask.copy()
    expected[np.arange(N), labels] = False
    np.testing.assert_array_equal(others, expected)


def test_a_mask_of_one_row_is_that_of_all():
    np.testing.assert_array_equal(as_mask(WHERE[3], (N, M)), np.tile(WHERE[3], (N, 1)))
    assert as_mask(None, (2, 3)).all() and as_mask(None, (2, 3)).shape == (2, 3)


def test_a_label_of_a_narrow_type_is_one_of_all():
    """Label 3 as uint8 is not label 259."""
    scores = np.arange(300, dtype=np.float32)
    positive, others = split_positive(scores, np.uint8(3), None)
    assert positive == 3 and np.flatnonzero(~np.asarray(others)).tolist() == [3]


@pytest.mark.parametrize(
    ("kinds", "wide", "common"),
    [
        (["bfloat16"], "float32", "bfloat16"),
        (["float16", "float32"], "float32", "float32"),
        (["bfloat16", "float16"], "float32", "float32"),
        (["int32"], "float32", "float32"),
    ],
)
def test_sums_are_made_in_float32_at_least(kinds, wide, common):
    arrays, dtype = promote_scores(*(jnp.ones(2, kind) for kind in kinds))
    assert [array.dtype for array in arrays] == [wide] * len(kinds) and dtype == common


def test_values_are_weighed_then_reduced_then_rounded():
    values = jnp.asarray([1.0, 2.0, 3.0])
    assert reduce_losses(values, None, None, jnp.float32).tolist() == [1, 2, 3]
    assert reduce_losses(values, 2.0, jnp.sum, jnp.float32) == 12
    assert reduce_losses(values, np.array([1, 0, 0.5]), jnp.mean, jnp.float32) == pytest.approx(
        2.5 / 3
    )
    # 1 + 256 is lost in bfloat16 before it is summed, not after.
    many = jnp.asarray([256.0, 1.0, 1.0])
    assert reduce_losses(many, None, jnp.sum, jnp.bfloat16) == 258


def test_an_example_of_weight_0_is_silent_whatever_its_value():
    values = jnp.asarray([1.0, jnp.inf, jnp.nan])
    weights = np.array([2.0, 0, 0])
    assert reduce_losses(values, weights, jnp.sum, jnp.float32) == 2
    of = jax.grad(lambda v: reduce_losses(v, weights, jnp.sum, jnp.float32))(values)
    assert of.tolist() == [2, 0, 0]


def test_labels_out_of_range():
    """-1 is no label, and not the last one."""
    for wrong in ([0, 1, 2, -1], np.array([0, 1, 2, M]), np.uint8([M, 0, 0, 0])):
        with pytest.raises(InputError, match=rf"label (-1|{M}), expected 0 to {M - 1}"):
            split_positive(SCORES, wrong, None)
    for wrong in (np.array([0.9, 0, 0, 0]), [True, False, True, True]):
        with pytest.raises(InputError, match=r"labels: found labels of (float|bool)"):
            split_positive(SCORES, wrong, None)
    positive, _ = jax.jit(split_positive, static_argnums=2)(SCORES, jnp.array([3, -1, M, 0]), None)
    np.testing.assert_array_equal(positive, [SCORES[0, 3], np.nan, np.nan, SCORES[3, 0]])


@pytest.mark.parametrize("shape", [(), (3,), (4, 1), (1,)])
def test_a_label_for_each_example(shape):
    with pytest.raises(InputError) as error:
        split_positive(SCORES, np.zeros(shape, int), None)
    found = f"labels: found labels {list(shape)}, scores [{N}, {M}], expected one for each example"
    assert str(error.value) == f"{found}: [{N}]"
    with pytest.raises(InputError, match="scores: found a number, expected an array"):
        split_positive(0.5, 0, None)


def test_weights_of_ranks_have_an_axis():
    with pytest.raises(InputError, match="rank weights: found a number, expected an array"):
        rank_scores(jnp.asarray(SCORES), 0.5, None, presorted=False)


@pytest.mark.parametrize("loss", [sampled_powl, sampled_bowl])
def test_weights_of_ranks_are_not_negative(loss):
    for wrong in ([-0.1, 0], np.array([1, np.nan])):
        with pytest.raises(InputError, match="rank weights: found a negative weight or NaN, exp"):
            loss(SCORES[:, 0], SCORES[:, 1:], vartheta=wrong)
    loss(SCORES[:, 0], SCORES[:, 1:], vartheta=[0.1, 0.5])  # they may increase
    with pytest.raises(InputError, match=r"rank weights: found shape \[3, 2\], expected \[4, 2\]"):
        loss(SCORES[:, 0], SCORES[:, 1:], vartheta=np.ones((3, 2)))


def test_what_else_cannot_be():
    positive, negative = SCORES[:, 0], SCORES[:, 1:]
    of = functools.partial(sampled_powl, vartheta=WEIGHTS)
    with pytest.raises(InputError, match=r"where: found shape \[4, 9\], expected \[4, 11\], or"):
        of(positive, negative, where=np.ones((N, 9), bool))
    with pytest.raises(InputError, match=r"weights: found shape \[3\], expected \[4\], or what"):
        of(positive, negative, weights=np.ones(3))
    with pytest.raises(InputError, match="phi: found 'logistic', expected a function of margins"):
        of(positive, negative, phi="logistic")
    for loss in (of, sampled_softmax):
        with pytest.raises(InputError, match="scores: found scores of complex64, expected real"):
            loss(positive + 1j, negative)
    with pytest.raises(InputError, match=r"positives: found shape \[2\], expected \[4, "):
        decoupled_softmax(SCORES, np.ones(2, bool))


def test_a_nan_log_weight_reaches_the_softmax():
    """It made its negative vanish; only -inf does."""
    weights = np.zeros(M - 1)
    for value, finite in ((-np.inf, True), (np.nan, False)):
        weights[1] = value
        loss = sampled_softmax(SCORES[:, 0], SCORES[:, 1:], log_weights=weights)
        assert np.isfinite(loss) == finite


@pytest.mark.parametrize("loss", [sampled_powl, sampled_bowl, sampled_softmax])
def test_one_positive_for_each_list_of_negatives(loss):
    """A column of positives would meet the negatives of every example."""
    options = {} if loss is sampled_softmax else {"vartheta": WEIGHTS}
    assert np.isfinite(loss(SCORES[:, 0], SCORES[:, 1:], **options))
    for wrong in (SCORES[:, :1], SCORES[:3, 0], SCORES[0, 0]):
        with pytest.raises(InputError, match="expected one positive for each list of negatives"):
            loss(wrong, SCORES[:, 1:], **options)


LOSSES_OF_EXAMPLES = {
    "powl": lambda v, w: sampled_powl(v[:, 0], v[:, 1:], vartheta=WEIGHTS, weights=w),
    "bowl": lambda v, w: sampled_bowl(v[:, 0], v[:, 1:], vartheta=WEIGHTS, weights=w),
    "softmax": lambda v, w: sampled_softmax(v[:, 0], v[:, 1:], weights=w),
    "decoupled": lambda v, w: decoupled_softmax(v, np.eye(N, M, dtype=bool), weights=w),
    "listnet": lambda v, w: listnet(v, np.eye(N, M), weights=w),
    "ranksvm": lambda v, w: ranksvm(v, np.eye(N, M), weights=w),
}


@functools.cache
def value_and_gradient(name):
    return jax.jit(jax.value_and_grad(LOSSES_OF_EXAMPLES[name]))


@pytest.mark.parametrize("name", LOSSES_OF_EXAMPLES)
@pytest.mark.parametrize("filling", [np.inf, -np.inf, np.nan])
def test_what_an_example_of_weight_0_scores_is_in_no_gradient(name, filling):
    """Not in that of parameters that all examples share, either."""
    weights = np.array([1, 0, 2, 1], np.float32)
    of_scores = value_and_gradient(name)
    spoilt = np.where(weights[:, None] == 0, filling, SCORES)
    value, gradient = of_scores(spoilt, weights)
    expected, plain = of_scores(SCORES, weights)
    assert value == expected and np.isfinite(value)
    np.testing.assert_array_equal(gradient, plain)
    assert not gradient[1].any() and gradient[0].any()

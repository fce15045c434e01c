"""Rank weights by hand, theta by enumeration and exact arithmetic, Lemma 2, sub-sampling."""

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import jax
import numpy as np
import pytest

from snm.errors import InputError
from snm.losses import rank_weights as weights
from snm.losses.sampled.options import RANK_SHAPES, LossOptions, SampleSizes
from snm.losses.sampled.ranks import RankWeights
from snm.losses.theta import (
    check_vartheta,
    lemma2_bound,
    theta_from_vartheta,
    theta_norms,
)

SURROGATE = {"scale": "surrogate", "num_labels": 101, "retrieval_k": 5}


def enumerated_theta(vartheta, sampled, num_labels):
    """What rank j weighs on average over every sample: the definition, in fractions."""
    theta = [Fraction(0)] * (num_labels - 1)
    samples = list(itertools.combinations(range(num_labels - 1), sampled))
    for sample in samples:
        for weight, j in zip(vartheta, sample, strict=False):
            theta[j] += Fraction(float(weight))
    return [float(t / len(samples)) for t in theta]


def binomial_theta(vartheta, sampled, num_labels, j):
    """The closed form of theta_j in fractions."""
    return sum(
        Fraction(float(w)) * math.comb(j - 1, i - 1) * math.comb(num_labels - 1 - j, sampled - i)
        for i, w in enumerate(vartheta, start=1)
        if i <= j
    ) / Fraction(math.comb(num_labels - 1, sampled))


def decimal_theta(vartheta, sampled, num_labels, j):
    """The same with 50 digits, where fractions would have a million: term by term from i = 1."""
    with localcontext(prec=50, Emin=-(10**9), Emax=10**9):
        others, draws, harder = num_labels - 2, sampled - 1, j - 1
        term = Decimal(1)
        for s in range(draws):
            term = term * (others - harder - s) / (others - s)
        total = Decimal(0)
        for i in range(min(len(vartheta) - 1, harder, draws) + 1):
            total += Decimal(float(vartheta[i])) * term
            term = term * (harder - i) * (draws - i) / ((i + 1) * (others - harder - draws + i + 1))
        return total * sampled / (num_labels - 1)


def test_weight_vectors_by_hand():
    # Surrogate scale: (101 - 1) / (5 * 10) = 2.
    assert weights.top(4).tolist() == [0.25] * 4
    assert weights.top(3, sampled=10, **SURROGATE).tolist() == [2.0] * 3
    assert weights.negative_sampling(4).tolist() == [0.25] * 4
    assert weights.negative_sampling(10, **SURROGATE).tolist() == [2.0] * 10
    np.testing.assert_allclose(weights.power_law(3, 1.0), np.array([6, 3, 2]) / 11)
    np.testing.assert_allclose(weights.power_law(2, 1.0, sampled=10, **SURROGATE), [8 / 3, 4 / 3])
    np.testing.assert_allclose(weights.power_law(5, 0.0), weights.top(5))
    assert weights.epsilon_tail(4, 2, 0.5).tolist() == [0.5, 0.5, 0.25, 0.25]
    assert weights.epsilon_tail(10, 9, 0.0, **SURROGATE).tolist() == [2.0] * 9 + [0.0]


def weights_of(vartheta, mined=3, **options):
    options = LossOptions(
        vartheta=vartheta, retrieval_k=2, power_alpha=2.0, tail_epsilon=0.1, **options
    )
    return RankWeights(options, SampleSizes(num_labels=20, sampled=8, mined=mined))


@pytest.mark.parametrize("shape", RANK_SHAPES)
@pytest.mark.parametrize("scale", ["mean", "surrogate"])
def test_every_shape_gives_the_weights_of_a_whole_sample(shape, scale):
    found = weights_of(shape, weight_scale=scale)
    vector = found.all_weights()
    assert vector.dtype == np.float64
    assert check_vartheta(vector, 8, 20) is not None
    first = 1 / 3 if scale == "mean" else 19 / (2 * 8)
    by_hand = {
        "top": [first] * 3 + [0] * 5,
        "power-law": [3 * first / (1 + 1 / 4 + 1 / 9) / rank**2 for rank in (1, 2, 3)] + [0] * 5,
        "epsilon-tail": [first] * 3 + [0.1 * first] * 5,
        "subsample": [first] * 3 + [0] * 5,
    }
    assert vector == pytest.approx(by_hand[shape], rel=1e-6)
    assert (found.mined_weights.dtype, found.mined_weights.shape) == (np.float32, (3,))


def test_negative_sampling_is_all_tail():
    """k' = B: every sampled negative has one weight, which needs no ranks; 1/8 or 19 / (2 * 8)."""
    for shape in ("top", "epsilon-tail"):
        found = weights_of(shape, mined=8, negative_weight=2.0)
        assert found.uses_all_negatives and found.mined_weights.shape == (0,)
        assert found.tail == pytest.approx(2 / 8)
        assert found.all_weights() == pytest.approx(2 * weights.negative_sampling(8))
    assert not weights_of("power-law", mined=8).uses_all_negatives


def test_weights_that_differ_in_nothing_are_equal():
    """So a loss object does not change, and no step compiles again, for an option it ignores."""
    plain = weights_of("top")
    for unread in ({"transformation": "sigmoid"}, {"temperature": 0.5}, {"phi": "logistic"}):
        same = weights_of("top", **unread)
        assert same == plain and hash(same) == hash(plain)
    for read in ({"weight_scale": "surrogate"}, {"negative_weight": 2.0}, {"subsample_draws": 7}):
        assert weights_of("top", **read) != plain
    assert weights_of("top", mined=4) != plain != weights_of("epsilon-tail")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: weights.top(0), "at least 1"),
        (lambda: weights.top(5, sampled=4), "at most the 4 sampled"),
        (lambda: weights.top(2, sampled=4, num_labels=4), "at most 3 of 4 labels"),
        (lambda: weights.top(2, scale="sum"), "'mean' or 'surrogate'"),
        (lambda: weights.top(2, scale="surrogate", sampled=4), "all given"),
        (lambda: weights.top(2, sampled=4, **SURROGATE), "from 1 to the 4 sampled"),
        (lambda: weights.negative_sampling(4, num_labels=4), "at most 3"),
        (lambda: weights.power_law(2, -1.0), "at least 0"),
        (lambda: weights.power_law(2, math.nan), "finite"),
        (lambda: weights.epsilon_tail(4, 2, 1.5), "from 0 to 1"),
        (lambda: weights.epsilon_tail(4, 5, 0.1), "at most the 4 sampled"),
        (lambda: theta_from_vartheta([1.0], 4, 4), "from 1 to 3 of 4"),
        (lambda: theta_from_vartheta([1.0], 0, 4), "from 1 to 3 of 4"),
        (lambda: theta_from_vartheta([1.0] * 3, 2, 4), "at most the 2 sampled"),
        (lambda: theta_from_vartheta([-1.0], 2, 4), "finite weights >= 0"),
        (lambda: theta_from_vartheta([math.inf], 2, 4), "finite weights >= 0"),
        (lambda: theta_from_vartheta([0.5, 1.0], 2, 4), "non-increasing"),
        (lambda: lemma2_bound([[1.0]], 2, 4), "a vector"),
        (lambda: weights.subsample(jax.random.key(0), [0.0], 2), "above 0"),
        (lambda: weights.subsample(jax.random.key(0), [1.0], 0), "at least 1"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.parametrize("num_labels", [2, 3, 6, 10])
def test_theta_equals_enumeration(num_labels):
    for sampled in range(1, num_labels):
        for vartheta in (
            np.ones(1),
            np.ones(sampled) / sampled,
            np.arange(1.0, sampled + 1) ** -1.5,
            weights.epsilon_tail(sampled, 1, 0.01),
            np.zeros(sampled),
            np.ones(0),
        ):
            np.testing.assert_allclose(
                theta_from_vartheta(vartheta, sampled, num_labels),
                enumerated_theta(vartheta, sampled, num_labels),
                rtol=1e-13,
                atol=1e-300,
            )


@pytest.mark.parametrize("sampled", [3, 40, 200, 395])
def test_theta_equals_the_binomial_formula_at_every_rank(sampled):
    # 400 labels are enough for the intervals to be interpolated; jagged weights make it hard.
    jagged = np.sort(np.random.default_rng(0).random(sampled) ** 8)[::-1]
    for vartheta in (np.ones(min(7, sampled)), jagged):
        theta = theta_from_vartheta(vartheta, sampled, 400)
        for j in range(1, 400, 1 if sampled == 40 else 19):
            exact = float(binomial_theta(vartheta, sampled, 400, j))
            assert theta[j - 1] == pytest.approx(exact, rel=1e-10, abs=1e-290)
        assert (np.diff(theta) <= 0).all()


@pytest.mark.parametrize(
    "vartheta",
    [
        np.full(16, 1 / 16),
        np.full(32768, 1 / 32768),
        weights.power_law(32768, 1.0),
        weights.epsilon_tail(32768, 256, 1e-6),
    ],
    ids=["top 16", "negative sampling", "power law", "epsilon tail"],
)
def test_theta_at_three_million_labels(vartheta):
    num_labels, sampled = 3_000_000, 32_768
    theta = theta_from_vartheta(vartheta, sampled, num_labels)
    for j in (1, 16, 1_000, 20_011, 60_000, 1_500_000):
        exact = float(decimal_theta(vartheta, sampled, num_labels, j))
        assert theta[j - 1] == pytest.approx(exact, rel=1e-10, abs=1e-290), j
    assert theta.sum() == pytest.approx(vartheta.sum(), rel=1e-11)
    assert np.linalg.norm(theta) <= lemma2_bound(vartheta, sampled, num_labels) * (1 + 1e-9)


def test_lemma_2():
    # theta_j = 1 / k for all j <= k', the 1-norm of vartheta, and the bound of the 2-norm.
    num_labels, sampled, k = 40, 12, 3
    for mined in (3, 5, 12):
        vartheta = weights.top(
            mined, scale="surrogate", sampled=sampled, num_labels=num_labels, retrieval_k=k
        )
        theta = theta_from_vartheta(vartheta, sampled, num_labels)
        np.testing.assert_allclose(theta[:mined], 1 / k, rtol=1e-13)
        assert (np.diff(theta) <= 0).all()
        one, two = theta_norms(vartheta, sampled, num_labels)
        assert one == pytest.approx(vartheta.sum(), rel=1e-12)
        assert two <= lemma2_bound(vartheta, sampled, num_labels) * (1 + 1e-12)
    # Every vartheta_j > 0 makes every theta_j > 0; top-k' alone does not.
    tail = weights.epsilon_tail(sampled, 3, 1e-3)
    assert (theta_from_vartheta(tail, sampled, num_labels) > 0).all()
    assert (theta_from_vartheta(tail[:3], sampled, num_labels) == 0).any()
    # Negative sampling meets the bound with equality: all theta_j are the same.
    same = weights.negative_sampling(sampled)
    assert theta_norms(same, sampled, num_labels)[1] == pytest.approx(
        lemma2_bound(same, sampled, num_labels)
    )


def test_subsampling_is_unbiased():
    vartheta = np.array([0.5, 0.25, 0.25, 0.125, 0.0])
    draws, repeats = 4, 50_000
    ranks, weight = weights.subsample(jax.random.key(3), vartheta, draws, (repeats,))
    assert ranks.shape == (repeats, draws)
    assert ranks.dtype == np.int32
    np.testing.assert_allclose(weight, vartheta.sum() / draws)
    counts = np.bincount(np.asarray(ranks).ravel(), minlength=5)
    share = vartheta / vartheta.sum()
    # The estimate of each vartheta_j is a binomial share: five standard errors.
    error = 5 * np.sqrt(share * (1 - share) / (draws * repeats))
    assert (np.abs(counts / (draws * repeats) - share) <= error).all()
    estimate = counts * float(weight[0]) / repeats
    assert (np.abs(estimate - vartheta) <= error * vartheta.sum() + 1e-7).all()
    assert counts[4] == 0


def test_subsampling_reaches_the_far_end_of_a_long_vector():
    vartheta = weights.negative_sampling(32768)
    ranks, _ = weights.subsample(jax.random.key(0), vartheta, 400_000)
    counts = np.bincount(np.asarray(ranks) // 4096, minlength=8)
    assert counts.size == 8
    # A mean of 50,000 in each eighth, within five standard deviations (209 each).
    assert np.abs(counts - 50_000).max() < 1_046

"""Listwise losses against rax, against their definitions, and their gradients."""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import rax
from jax.test_util import check_grads
from losses.listwise_losses import LISTWISE

from snm.errors import InputError
from snm.losses.listwise import (
    listmle,
    listnet,
    listnet_permutations,
    rankcosine,
    ranksvm,
    smoothed_dcg,
)
from snm.losses.transformations import exponential, linear, sigmoid

pytestmark = pytest.mark.usefixtures("in_float64")

PSI = {
    "linear": (linear(0.5, 3.0), lambda x: 0.5 * x + 3),
    "exponential": (exponential(2.0), lambda x: math.exp(2 * x)),
    "sigmoid": (sigmoid(1.5), lambda x: 1 / (1 + math.exp(-1.5 * x))),
}


def lists(seed=0, shape=(4, 6)):
    rng = np.random.default_rng(seed)
    return rng.normal(size=shape), rng.integers(0, 4, shape).astype(float)


def likelihood(v, order, psi):
    product = 1.0
    for i in range(len(order)):
        product *= psi(v[order[i]]) / sum(psi(v[j]) for j in order[i:])
    return product


@pytest.mark.parametrize("name", PSI)
def test_losses_by_their_definitions(name):
    transformation, psi = PSI[name]
    scores, labels = lists(1, (3, 5))
    every = {
        loss: np.asarray(
            jax.jit(functools.partial(loss, transformation=transformation, reduce_fn=None))(
                scores, labels
            )
        )
        for loss in (listnet, listmle, listnet_permutations, rankcosine)
    }
    for row, (s, y) in enumerate(zip(scores, labels, strict=True)):
        p = [psi(v) / sum(map(psi, y)) for v in y]
        q = [psi(v) / sum(map(psi, s)) for v in s]
        expected = -sum(a * math.log(b) for a, b in zip(p, q, strict=True))
        assert every[listnet][row] == pytest.approx(expected, rel=1e-12)
        order = sorted(range(5), key=lambda i, y=y: -y[i])
        expected = -math.log(likelihood(s, order, psi))
        assert every[listmle][row] == pytest.approx(expected, rel=1e-12)
        expected = -sum(
            likelihood(y, o, psi) * math.log(likelihood(s, o, psi))
            for o in itertools.permutations(range(5))
        )
        assert every[listnet_permutations][row] == pytest.approx(expected, rel=1e-12)
        a, b = np.array([psi(v) for v in y]), np.array([psi(v) for v in s])
        expected = (1 - a @ b / np.linalg.norm(a) / np.linalg.norm(b)) / 2
        assert every[rankcosine][row] == pytest.approx(expected, abs=1e-14)


def test_against_rax():
    scores, labels = lists(2)
    # It has no RankCosine or smoothed DCG. Grades all differ here, so that no tie is broken.
    grades = np.argsort(scores[:, ::-1], axis=-1).astype(float)

    @jax.jit
    def both(scores, labels, grades):
        """Of each loss ours and theirs. Pairs rax reduces by its own rule, but for the sum."""
        return (
            (
                listnet(scores, labels, reduce_fn=None),
                rax.softmax_loss(scores, jax.nn.softmax(labels, axis=-1), reduce_fn=None),
            ),
            (
                listmle(scores, grades, reduce_fn=None),
                rax.listmle_loss(scores, grades, reduce_fn=None),
            ),
            (
                ranksvm(scores, labels, reduce_fn=jnp.sum),
                rax.pairwise_hinge_loss(scores, labels, reduce_fn=jnp.sum),
            ),
        )

    for ours, theirs in both(scores, labels, grades):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_ranksvm_and_smoothed_dcg_by_their_definitions():
    scores, labels = lists(3)
    for s, y in zip(scores, labels, strict=True):
        pairs = [max(0, 1 + s[j] - s[i]) for i in range(6) for j in range(6) if y[i] > y[j]]
        assert float(ranksvm(s, y)) == pytest.approx(sum(pairs))
        soft = np.exp(s / 0.3) / np.exp(s / 0.3).sum()
        assert float(smoothed_dcg(s, y, sigma=0.3)) == pytest.approx(-(soft @ (2**y - 1)))
    # As sigma falls it becomes DCG@1 of the list sorted by scores.
    s, y = scores[0], labels[0]
    assert float(smoothed_dcg(s, y, sigma=1e-3)) == pytest.approx(-(2 ** y[np.argmax(s)] - 1))


@pytest.mark.parametrize("name", LISTWISE)
def test_masked_entries_take_no_part(name):
    loss = jax.jit(LISTWISE[name], static_argnames="reduce_fn")
    scores, labels = lists(4, (2, 5))
    where = np.array([[1, 0, 1, 1, 0], [0, 0, 0, 0, 0]], bool)
    wild = np.where(where, scores, np.inf)
    found = loss(wild, np.where(where, labels, np.nan), where=where, reduce_fn=None)
    expected = loss(scores[0][where[0]], labels[0][where[0]])
    assert float(found[0]) == pytest.approx(float(expected), rel=1e-12)
    assert abs(float(found[1])) < 1e-12
    gradient = jax.jit(jax.grad(lambda s: loss(s, labels, where=where)))(jnp.asarray(scores))
    assert np.isfinite(gradient).all() and (np.asarray(gradient)[~where] == 0).all()
    weighed = loss(scores, labels, where=where, weights=[3.0, 1.0], reduce_fn=jnp.sum)
    assert float(weighed) == pytest.approx(3 * float(expected), rel=1e-12)


@pytest.mark.parametrize("name", LISTWISE)
def test_gradients(name):
    scores, labels = lists(5, (2, 4))
    check_grads(
        jax.jit(lambda s: LISTWISE[name](s, labels)), (jnp.asarray(scores),), order=1, modes=["rev"]
    )


@pytest.mark.parametrize("name", LISTWISE)
def test_order_of_the_list_does_not_matter(name):
    scores, _ = lists(6, (3, 5))
    labels = np.tile([4.0, 2.0, 0.0, 3.0, 1.0], (3, 1))
    order = np.array([3, 0, 4, 1, 2])
    loss = jax.jit(LISTWISE[name])
    np.testing.assert_allclose(
        loss(scores[:, order], labels[:, order]), loss(scores, labels), rtol=1e-12
    )


def test_extreme_scores_stay_finite():
    scores = jnp.array([[800.0, -800.0, 0.0]])
    labels = jnp.array([[0.0, 2.0, 1.0]])

    @jax.jit
    def every(scores):
        return [
            jax.value_and_grad(functools.partial(loss, transformation=transformation))(
                scores, labels
            )
            for loss in (listnet, listmle, rankcosine)
            for transformation in (exponential(), sigmoid())
        ]

    for value, slope in every(scores):
        assert np.isfinite(value) and np.isfinite(slope).all()


def test_float32_and_bad_input():
    assert listnet(np.zeros((2, 3), np.float32), np.zeros((2, 3))).dtype == jnp.float32
    with pytest.raises(InputError, match="same shape"):
        listnet(np.zeros(3), np.zeros(4))
    with pytest.raises(InputError, match="at most 8"):
        listnet_permutations(np.zeros(9), np.zeros(9))

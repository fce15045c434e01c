"""The public top-k of a product: against a stable sort, its gradient, and what it refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from snm.losses.reductions import MASKED
from snm.topk import Masked, product_top_k

RNG = np.random.default_rng(0)
QUERIES = RNG.integers(-2, 3, (6, 4)).astype(np.float32)
ROWS = RNG.integers(-2, 3, (50, 4)).astype(np.float32)
BIAS = np.where(RNG.random(50) < 0.2, -np.inf, RNG.integers(-2, 3, 50)).astype(np.float32)
WEIGHTS = RNG.integers(-1, 2, 50).astype(np.float32)
OWN = Masked(jnp.arange(6, dtype=jnp.int32), jnp.array([3, 3, 49, 7, 50, 0], jnp.int32))


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize("count", [1, 10, 50])
def test_it_is_the_head_of_a_stable_sort(dtype, count):
    best = jax.jit(
        lambda rows: product_top_k(QUERIES, rows, count, bias=BIAS, log_weights=WEIGHTS, masked=OWN)
    )(jnp.asarray(ROWS, dtype))
    every = QUERIES @ ROWS.T + BIAS + WEIGHTS
    for query, slot in zip(*map(np.asarray, OWN), strict=True):
        every[query, slot : slot + 1] = -np.inf
    order = np.argsort(-every, axis=1, kind="stable")[:, :count]
    want = np.maximum(np.take_along_axis(every, order, axis=1), np.float32(MASKED))
    np.testing.assert_array_equal(best.scores, want)
    real = want > MASKED / 2
    np.testing.assert_array_equal(np.asarray(best.slots)[real], order[real])


def test_its_gradient_is_that_of_the_chosen_scores():
    queries, rows = (RNG.normal(size=shape).astype(np.float32) for shape in ((6, 4), (50, 4)))
    bias = RNG.normal(size=50).astype(np.float32)

    @jax.jit
    def loss(queries, rows, bias):
        best = product_top_k(queries, rows, 5, bias=bias, masked=OWN)
        return jnp.sum(jax.nn.logsumexp(best.scores, axis=1))

    check_grads(loss, (queries, rows, bias), order=1, modes=["rev"], rtol=2e-2, eps=1e-3)
    chosen = np.unique(product_top_k(queries, rows, 5, bias=bias, masked=OWN).slots)
    grad_rows = jax.grad(loss, argnums=1)(queries, rows, bias)
    np.testing.assert_array_equal(np.flatnonzero(np.any(grad_rows != 0, axis=1)), chosen)


def test_nothing_flows_to_scores_that_are_masked():
    @jax.jit
    def loss(queries, bias):
        return jnp.sum(product_top_k(queries, ROWS, 50, bias=bias, masked=OWN).scores)

    grad_queries, grad_bias = jax.grad(loss, argnums=(0, 1))(
        jnp.asarray(QUERIES), jnp.asarray(BIAS)
    )
    left = np.tile(np.isfinite(BIAS), (6, 1))
    for query, slot in zip(*map(np.asarray, OWN), strict=True):
        left[query, slot : slot + 1] = False
    np.testing.assert_array_equal(grad_queries, left @ ROWS)
    np.testing.assert_array_equal(grad_bias, left.sum(axis=0))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (dict(rows=ROWS[:, :3]), r"not \(6, 4\), \(50, 3\)"),
        (dict(rows=ROWS.astype(np.float16)), "float32 or bfloat16, not float16"),
        (dict(count=51), "count is 1 to 50"),
        (dict(count=0), "count is 1 to 50"),
        (dict(bias=BIAS[:7]), r"bias is \[50\], not \[7\]"),
        (dict(log_weights=WEIGHTS[None]), r"log_weights is \[50\], not \[1, 50\]"),
        (dict(kernel="maybe"), "kernel is one of auto, off"),
    ],
)
def test_what_does_not_fit_is_refused(given, told):
    arguments = dict(queries=QUERIES, rows=ROWS, count=5) | given
    with pytest.raises(ValueError, match=told):
        product_top_k(**arguments)


def test_it_works_where_numbers_have_64_bits():
    rng = np.random.default_rng(0)
    queries = rng.standard_normal((3, 4)).astype(np.float32)
    rows = rng.standard_normal((9000, 4)).astype(np.float32)
    with jax.enable_x64(True):
        best = jax.jit(product_top_k, static_argnums=2)(queries, rows, 10)
        slope = jax.jit(jax.grad(lambda q: product_top_k(q, rows, 10).scores.sum()))(queries)
        with pytest.raises(ValueError, match="queries are float32, not float64"):
            product_top_k(jnp.ones((3, 4)), jnp.asarray(rows), 10)
    expected = np.argsort(-(queries @ rows.T), axis=1, kind="stable")[:, :10]
    np.testing.assert_array_equal(best.slots, expected)
    np.testing.assert_allclose(slope, rows[expected].sum(axis=1), rtol=1e-5)

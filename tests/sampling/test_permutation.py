"""The Feistel network permutes, without duplicates, in uniform order.

A statistical test here rejects below p = 1e-4 with a fixed seed, so it either always passes or
always fails; the biases it would miss are stated beside it.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from snm.machine.platform import compiling_for
from snm.sampling.permutation import permutation_prefix
from snm.sampling.uniform import uniform_device

P_VALUE = 1e-4


@pytest.mark.parametrize("num_labels", [1, 2, 3, 65, 4097])
def test_network_is_a_permutation(num_labels):
    drawn = jax.jit(permutation_prefix, static_argnums=(1, 2))
    for seed in range(3):
        order = np.asarray(drawn(jax.random.key(seed), num_labels, num_labels))
        np.testing.assert_array_equal(np.sort(order), np.arange(num_labels))


# On the grid of 4 x 4, 13 labels leave 3 cells outside, and some walks visit them all; 4096 leave
# none on that of 64 x 64.
@pytest.mark.parametrize(
    ("num_labels", "keys"), [(1, 1), (5, 9), (13, 2000), (4096, 3), (670_091, 3)]
)
def test_accelerators_find_the_same_images_without_walking(num_labels, keys):
    size = min(num_labels, 32_769)
    keys = jax.vmap(jax.random.key)(jnp.arange(keys))
    walked = jax.jit(jax.vmap(lambda key: permutation_prefix(key, num_labels, size)))(keys)
    with compiling_for("gpu", 1 << 34):
        elsewhere = jax.jit(jax.vmap(lambda key: permutation_prefix(key, num_labels, size)))
        np.testing.assert_array_equal(elsewhere(keys), walked)
        assert " while[" not in str(jax.make_jaxpr(elsewhere)(keys))


def test_network_has_no_duplicates_at_large_k():
    num_labels = 670_091
    ids = np.asarray(uniform_device(0, 1, num_labels=num_labels, size=32_769).ids)
    assert ids.dtype == np.int32 and np.all(np.diff(ids.astype(np.int64)) > 0)
    assert ids[0] >= 0 and ids[-1] < num_labels
    assert stats.kstest(ids / num_labels, "uniform").pvalue > P_VALUE


def test_order_drawn_is_uniform():
    # Ordered pairs of 7: the last label drawn is what a term drops.
    keys = jax.vmap(jax.random.key)(jnp.arange(20_000))
    order = np.asarray(jax.jit(jax.vmap(lambda key: permutation_prefix(key, 7, 2)))(keys))
    _, counts = np.unique(order, axis=0, return_counts=True)
    counts = np.concatenate([counts, np.zeros(42 - len(counts))])
    assert stats.chisquare(counts).pvalue > P_VALUE, counts

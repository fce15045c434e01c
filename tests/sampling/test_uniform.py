"""The law of uniform sampling, by exact enumeration where K is small and by fixed-seed statistics.

A statistical test here rejects below p = 1e-4 with a fixed seed, so it either always passes or
always fails; the biases it would miss are stated beside it.
"""

from __future__ import annotations

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from snm.errors import InputError
from snm.sampling.sample import Sample, excluded_slots
from snm.sampling.uniform import UniformSampler, uniform_device, uniform_host

P_VALUE = 1e-4

jitted_device = jax.jit(uniform_device, static_argnames=("num_labels", "size"))
both = pytest.mark.parametrize("sampler", ["host", "device"])


@functools.cache
def many_draws(sampler: str, num_labels: int, size: int, draws: int):
    """ids [draws, size] and drop [draws] of steps 0 .. draws - 1."""
    sizes = {"num_labels": num_labels, "size": size}
    if sampler == "host":
        samples = [uniform_host(11, step, **sizes) for step in range(draws)]
        return np.stack([s.ids for s in samples]), np.stack([s.drop for s in samples])
    draw = jax.jit(jax.vmap(lambda step: uniform_device(11, step, **sizes)))
    sample = draw(jnp.arange(draws))
    return np.asarray(sample.ids), np.asarray(sample.drop)


def assert_uniform(counts, cells: int) -> None:
    """Chi-square of counts of equally likely cells; those never seen are left out of `counts`."""
    counts = np.concatenate([counts, np.zeros(cells - len(counts))])
    assert stats.chisquare(counts).pvalue > P_VALUE, counts


@both
@pytest.mark.parametrize("num_labels", [2, 3, 6])
def test_subsets_and_drop_are_uniform(sampler, num_labels):
    # All C(K, size) subsets times all drop slots, jointly: a bias of 15% in the cells would show.
    size = min(num_labels - 1, 2)
    ids, drop = many_draws(sampler, num_labels, size, 6_000)
    assert np.all(np.diff(ids, axis=1) > 0) and ids.min() >= 0 and ids.max() < num_labels
    cells = math.comb(num_labels, size) * size
    _, counts = np.unique(np.column_stack([ids, drop]), axis=0, return_counts=True)
    assert_uniform(counts, cells)


@both
def test_what_remains_is_uniform_over_the_other_labels(sampler):
    # K = 6, B = 3: without its positive, a term sees each of the C(5, 3) = 10 subsets equally.
    num_labels, size = 6, 4
    ids, drop = many_draws(sampler, num_labels, size, 6_000)
    exclude = jax.jit(jax.vmap(excluded_slots, (0, None)))
    for positive in range(num_labels):
        slots = np.asarray(exclude(Sample(ids, drop), positive))
        rest = ids[np.arange(size) != slots[:, None]].reshape(-1, size - 1)
        subsets, counts = np.unique(rest, axis=0, return_counts=True)
        others = [j for j in range(num_labels) if j != positive]
        assert [tuple(s) for s in subsets] == list(itertools.combinations(others, 3))
        assert_uniform(counts, 10)


@both
def test_labels_and_pairs_are_equally_often_at_moderate_size(sampler):
    # 61 labels, 20 at a time: marginals and the 1830 pairs. The counts of one draw sum to a
    # constant, which makes them less spread than independent ones: scale before chi-square.
    num_labels, size, draws = 61, 20, 4_000
    ids, _ = many_draws(sampler, num_labels, size, draws)
    present = np.zeros((draws, num_labels))
    np.put_along_axis(present, ids, 1.0, axis=1)
    rate = size / num_labels
    z2 = ((present.sum(0) - draws * rate) ** 2).sum() / (draws * rate * (1 - rate))
    z2 *= (num_labels - 1) / num_labels
    assert P_VALUE < stats.chi2.sf(z2, num_labels - 1) < 1 - P_VALUE
    pairs = (present.T @ present)[np.triu_indices(num_labels, 1)]
    pair_rate = rate * (size - 1) / (num_labels - 1)
    z = (pairs - draws * pair_rate) / math.sqrt(draws * pair_rate * (1 - pair_rate))
    # The mean of z^2 is 1. Its sd is 0.09: counts of pairs that share a label go together, which
    # puts variance 14.7 on the 60 directions of the label counts and 0.53 on the 1769 others.
    assert abs(np.mean(z**2) - 1) < 4 * 0.09 and np.max(np.abs(z)) < 4.5


@both
@pytest.mark.parametrize("num_labels", [13_330, 2_812_281, 2**31 - 1])
def test_gaps_between_sorted_labels(sampler, num_labels):
    # The gap between neighbours of a uniform subset is nearly geometric with rate size / K. An
    # affine map i -> (a i + c) mod K has the right marginals and three gaps only.
    size, draws = min(4096, num_labels // 8), 6
    ids, _ = many_draws(sampler, num_labels, size, draws)
    gaps = np.diff(ids.astype(np.int64), axis=1).ravel()
    assert gaps.min() > 0 and ids.min() >= 0 and ids.max() < num_labels
    # P(gap > g) = C(K - g, size) / C(K, size); about ten classes of about equal probability.
    quantiles = -np.expm1(np.log(np.arange(9, 0, -1) / 10) / size) * num_labels
    edges = np.unique(np.maximum(np.rint(quantiles), 1.0))
    terms = np.log1p(-edges[:, None] / (num_labels - np.arange(size))[None, :])
    over = np.concatenate([[1.0], np.exp(terms.sum(axis=1)), [0.0]])
    expected = -np.diff(over) * len(gaps)
    counts = np.bincount(np.searchsorted(edges, gaps, side="left"), minlength=len(expected))
    statistic = np.sum((counts - expected) ** 2 / expected)
    assert statistic < stats.chi2.isf(P_VALUE, len(expected) - 1)
    # Neighbouring gaps are unrelated (sd of the correlation 1 / sqrt(24,000)).
    assert abs(np.corrcoef(gaps[:-1], gaps[1:])[0, 1]) < 4.5 / math.sqrt(len(gaps))


@both
def test_pure_function_of_seed_and_step(sampler):
    function = uniform_host if sampler == "host" else jitted_device
    draw = functools.partial(function, num_labels=1000, size=50)
    first, again = draw(3, 4), draw(3, 4)
    np.testing.assert_array_equal(first.ids, again.ids)
    assert first.drop == again.drop and first.log_weights is None
    for other in (draw(3, 5), draw(4, 4), draw(4, 3)):
        # Two unrelated draws share 50 * 50 / 1000 = 2.5 labels on average.
        assert len(np.intersect1d(first.ids, other.ids)) < 12


def test_device_draw_is_the_same_compiled_and_traced():
    sizes = dict(num_labels=500, size=20)
    for step in (0, 7):
        plain = uniform_device(1, step, **sizes)
        traced = jitted_device(1, jnp.int32(step), **sizes)
        np.testing.assert_array_equal(plain.ids, traced.ids)
        assert plain.drop == traced.drop and traced.drop.dtype == jnp.int32


@both
def test_all_labels(sampler):
    ids, drop = many_draws(sampler, 5, 5, 10_000)
    np.testing.assert_array_equal(ids, np.broadcast_to(np.arange(5), (10_000, 5)))
    assert_uniform(np.bincount(drop), 5)


@both
@pytest.mark.parametrize("size", [0, 6])
def test_impossible_sizes_are_refused(sampler, size):
    draw = uniform_host if sampler == "host" else uniform_device
    with pytest.raises(
        InputError, match=f"size: found {size} of 5 labels, expected a whole number"
    ):
        draw(0, 0, num_labels=5, size=size)


@pytest.mark.parametrize("seed, step", [(-1, 0), (0, -1), (0, 1.0)])
def test_a_seed_and_a_step_are_whole_numbers_from_0(seed, step):
    with pytest.raises(InputError, match=r"(seed|step): found (-1|1\.0), expected a whole number"):
        uniform_host(seed, step, num_labels=5, size=2)


def test_the_object_draws_what_the_functions_draw():
    sampler = UniformSampler(num_labels=1000, size=50, seed=3)
    on_device = jax.jit(sampler.on_device)
    for found, expected in (
        (sampler.on_host(4), uniform_host(3, 4, num_labels=1000, size=50)),
        # The seed is that of the call: members of a run share the program and the object.
        (on_device(jnp.int32(4), None, 9), jitted_device(9, 4, num_labels=1000, size=50)),
    ):
        np.testing.assert_array_equal(found.ids, expected.ids)
        assert found.drop == expected.drop and found.log_weights is None

"""Compares selection by bisection with a sort."""

import functools

import jax
import numpy as np
import pytest
from head_reference import by_sorting

from snm.losses.reductions import MASKED
from snm.topk.bisection import collect_above, find_threshold, top_by_bisection

S = 97


@functools.cache
def weights_of(count):
    return jax.jit(lambda scores: top_by_bisection(scores, count).weights(scores))


ROWS = {
    "normal": lambda rng: rng.normal(size=S),
    "tiny": lambda rng: 1e-20 * rng.normal(size=S),
    "far from zero": lambda rng: 1e4 + 1e-2 * rng.normal(size=S),
    "one far away": lambda rng: np.where(np.arange(S) == 5, 1e8, rng.normal(size=S)),
    "skewed": lambda rng: -np.exp(5 * rng.normal(size=S)),
    "few values": lambda rng: rng.integers(-2, 3, S).astype(float),
    "zeros": lambda rng: np.zeros(S),
    "half masked": lambda rng: np.where(np.arange(S) % 2, MASKED, rng.normal(size=S)),
    "all masked": lambda rng: np.full(S, MASKED),
    "one left": lambda rng: np.where(np.arange(S) == 7, 0.5, MASKED),
}


@pytest.mark.parametrize("count", [1, 2, 40, 96])
def test_thresholds_mine_the_scores_that_a_sort_does(count):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        scores = np.array([make(rng) for make in ROWS.values()], np.float32)
        found = np.asarray(weights_of(count)(scores))
        for name, row, weights in zip(ROWS, scores, found, strict=True):
            weights = np.where(row > MASKED / 2, weights, 0)
            np.testing.assert_allclose(weights, by_sorting(row, count), atol=1e-6, err_msg=name)


@pytest.mark.parametrize("count", [1, 2, 40, 96])
@pytest.mark.parametrize("name", ROWS)
def test_a_row_alone_has_the_weights_it_has_among_others(name, count):
    """A search that ends before its first pass finds the same weights."""
    row = ROWS[name](np.random.default_rng(0)).astype(np.float32)
    weights = np.where(row > MASKED / 2, weights_of(count)(row[None])[0], 0)
    np.testing.assert_allclose(weights, by_sorting(row, count), atol=1e-6)


@pytest.mark.parametrize(("size", "fewest", "most"), [(97, 3, 5), (1024, 40, 64), (96, 95, 95)])
def test_the_requested_number_reaches_the_threshold(size, fewest, most):
    """If low == high; otherwise equal scores make the requested number impossible."""
    found = jax.jit(lambda scores: find_threshold(scores, fewest, most))
    for seed in range(5):
        rng = np.random.default_rng(seed)
        rows = {name: np.resize(make(rng), size) for name, make in ROWS.items()}
        rows["wide"] = rng.standard_cauchy(size)
        scores = np.array(list(rows.values()), np.float32)
        low, high = map(np.asarray, found(scores))
        real = scores > MASKED / 2
        reach = ((scores >= low[:, None]) & real).sum(axis=1)
        above = ((scores >= high[:, None]) & real).sum(axis=1)
        assert (reach >= np.minimum(real.sum(axis=1), fewest)).all(), seed
        assert (above <= most).all(), seed
        for name, row, few, between in zip(rows, scores, low == high, reach - above, strict=True):
            assert few == (between == 0), name
            if not few:
                values = np.sort(row[row > MASKED / 2])[::-1]
                assert values[fewest - 1] == values[most], name


@pytest.mark.parametrize("size", [16, 97, 128, 1056])
@pytest.mark.parametrize("room", [1, 7, 40])
def test_scores_above_the_floor_are_collected_in_order(size, room):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(40, size)).astype(np.float32)
    scores[::3, ::2] = MASKED
    floors = rng.normal(1, 1.5, size=40).astype(np.float32)
    floors[0], floors[1], floors[2] = 2 * MASKED, 100, scores[2].max()
    collect = jax.jit(lambda scores, floor: collect_above(scores, floor, room))
    found, places = map(np.asarray, collect(scores, floors))
    for row, floor, values, where in zip(scores, floors, found, places, strict=True):
        expected = np.nonzero((row >= floor) & (row > MASKED / 2))[0][:room]
        np.testing.assert_array_equal(where[: len(expected)], expected)
        np.testing.assert_array_equal(values[: len(expected)], row[expected])
        np.testing.assert_array_equal(values[len(expected) :], np.float32(MASKED))


def test_the_search_ends_on_rows_of_nan():
    scores = np.full((2, S), np.nan, np.float32)
    weights_of(40)(scores).block_until_ready()

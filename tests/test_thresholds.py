"""Thresholds find what a sort finds."""

import functools

import jax
import numpy as np
import pytest

from snm.scoring import MASKED
from snm.thresholds import mined_weights

S = 97


@functools.cache
def weights_of(count):
    return jax.jit(lambda scores: mined_weights(scores, count).weights(scores))


def by_sorting(row, count):
    """1 above the count-th highest, and an equal share of the places left for those equal to it."""
    real = row > MASKED / 2
    if real.sum() <= count:
        return real.astype(float)
    last = np.sort(row[real])[-count]
    above, equal = row > last, row == last
    return above + equal * (count - above.sum()) / equal.sum()


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
def test_thresholds_mine_what_a_sort_does(count):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        scores = np.array([make(rng) for make in ROWS.values()], np.float32)
        found = np.asarray(weights_of(count)(scores))
        for name, row, weights in zip(ROWS, scores, found, strict=True):
            weights = np.where(row > MASKED / 2, weights, 0)
            np.testing.assert_allclose(weights, by_sorting(row, count), atol=1e-6, err_msg=name)


def test_a_row_that_is_no_number_ends():
    scores = np.full((2, S), np.nan, np.float32)
    weights_of(40)(scores).block_until_ready()

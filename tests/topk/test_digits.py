"""The highest scores by digits, against sorting."""

import jax
import numpy as np
import pytest
from head_reference import by_sorting

from snm.losses.reductions import MASKED
from snm.topk.digits import top_by_digits

SIZE = 96
RNG = np.random.default_rng(0)
ROWS = {
    "normal": RNG.normal(size=SIZE),
    "all negative": -RNG.exponential(size=SIZE) - 3,
    "many ties": RNG.integers(-2, 3, SIZE),
    "all equal": np.full(SIZE, -0.5),
    "zeros of both signs": np.where(RNG.random(SIZE) < 0.5, 0.0, -0.0),
    "tiny and huge": RNG.choice([-1e28, -1.0, -1e-30, 0.0, 1e-30, 3e28], SIZE),
    "some masked": np.where(RNG.random(SIZE) < 0.5, MASKED, RNG.normal(size=SIZE)),
    "few left": np.where(np.arange(SIZE) % 32, MASKED, RNG.integers(0, 2, SIZE)),
    "one left": np.where(np.arange(SIZE), MASKED, -7.0),
    "one far above the rest": np.where(np.arange(SIZE) == 5, 1e20, RNG.random(SIZE)),
    "one above next to 0": np.where(np.arange(SIZE) == 5, 1e6, 1e-12 * RNG.random(SIZE)),
    "neighbours": np.nextafter(np.float32(1), np.float32(2)) - RNG.integers(0, 2, SIZE) * 2**-23,
}
SCORES = np.stack([np.asarray(row, np.float32) for row in ROWS.values()])


def weights_of(find, count):
    return jax.jit(lambda scores: find(scores, count).weights(scores))


@pytest.mark.parametrize("count", [1, 2, 3, 31, 48, 95])
def test_weights_are_those_of_a_sort(count):
    expected = np.stack([by_sorting(row, count) for row in SCORES])
    weights = np.asarray(weights_of(top_by_digits, count)(SCORES))
    for name, got, wanted in zip(ROWS, weights, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6, err_msg=name)


def test_the_number_of_passes_is_known():
    program = str(jax.make_jaxpr(lambda scores: top_by_digits(scores, 7))(SCORES))
    assert " while[" not in program and "length=8" in program

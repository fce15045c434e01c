"""The order of numbers, against NumPy's."""

import numpy as np
import pytest

from snm.system.numbers import stable_argsort


@pytest.mark.parametrize("shape", [(0,), (1,), (1000,), (7, 200), (3, 0)])
@pytest.mark.parametrize("high", [3, 2**32])
def test_it_is_the_stable_order(shape, high):
    numbers = np.random.default_rng(1).integers(0, high, shape, np.uint32)
    found = stable_argsort(numbers)
    np.testing.assert_array_equal(found, np.argsort(numbers, axis=-1, kind="stable"))

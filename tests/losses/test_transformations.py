"""Transformations against their definitions: value, logarithm and largest slope."""

import math
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from snm.errors import InputError
from snm.losses.transformations import TRANSFORMATIONS, exponential, linear, sigmoid

BY_DEFINITION = {
    "exponential": lambda u: math.exp(u),
    "linear": lambda u: u + 4,
    "sigmoid": lambda u: 1 / (1 + math.exp(-u)),
}


def made(name, a):
    family = TRANSFORMATIONS[name]
    return family(a) if family.positive_everywhere else family(a, 4.0)


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_values_and_logarithms(name):
    psi, x = made(name, 1.5), np.linspace(-2, 2, 9)
    expected = [BY_DEFINITION[name](1.5 * each) for each in x]
    with jax.enable_x64(True):
        np.testing.assert_allclose(psi(jnp.asarray(x)), expected, rtol=1e-12)
        np.testing.assert_allclose(psi.log(jnp.asarray(x)), np.log(expected), atol=1e-12)
    found = [psi.log_of_float(float(each)) for each in x]
    np.testing.assert_allclose(found, np.log(expected), atol=1e-12)
    again = pickle.loads(pickle.dumps(psi))
    assert psi.name == name and psi == again and hash(psi) == hash(again)


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_largest_slopes_and_what_is_positive(name):
    """On |x| <= 2, where psi of the linear one falls from 4 + 2a to 4 - 2a."""
    psi, x = made(name, 1.5), np.linspace(-2, 2, 40_001)
    values = [BY_DEFINITION[name](1.5 * each) for each in x]
    steepest = np.max(np.diff(values) / np.diff(x))
    assert 1.5 * math.exp(psi.family.log_max_slope(3.0)) == pytest.approx(steepest, rel=1e-3)
    assert psi.positive_within(2.0)
    assert made(name, 2.1).positive_within(2.0) == TRANSFORMATIONS[name].positive_everywhere


def test_no_exponential_overflows():
    for score in (-800.0, 800.0):
        assert math.isfinite(sigmoid(2.0).log_of_float(score))
        assert np.isfinite(sigmoid(2.0).log(jnp.float32(score)))
        assert exponential(2.0).log_of_float(score) == 2 * score


def test_bad_input():
    with pytest.raises(InputError, match="slope of the transformation: found 0, expected a number"):
        exponential(0)
    with pytest.raises(InputError, match=r"offset of the sigmoid transformation: found 1\.0, exp"):
        sigmoid(1.0, 1.0)
    assert linear(0.5).b == 2

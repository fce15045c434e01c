"""Losses in float64."""

import jax
import pytest


@pytest.fixture(scope="module")
def in_float64():
    with jax.enable_x64(True):
        yield

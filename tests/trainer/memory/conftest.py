"""A run with a memory, for the tests that leave it as it is."""

from collections.abc import Callable
from pathlib import Path

import pytest
import tiny


@pytest.fixture(scope="session")
def remembering(trained_once: Callable[..., Path]) -> Path:
    """`tiny.REMEMBERING` trained on `data` into `run`; to change it, copy it."""
    return trained_once("neighbours", tiny.neighbour_data, tiny.REMEMBERING)

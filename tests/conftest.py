"""Strictness for the whole suite: what jax lets pass silently fails here."""

import os
from pathlib import Path

import pytest

# Read once, when jax starts: the tests want float64 references beside float32 code.
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_enable_checks", True)
# Before the first use of a device: the head's shards need several, and one processor can play four.
jax.config.update("jax_num_cpu_devices", 4)

REAL_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(params=["delicious", "citeulike-t-14k", "gowalla"])
def real_data(request: pytest.FixtureRequest) -> Path:
    """The folder of a real data set; the test is skipped, saying so, where it is missing."""
    return real_data_folder(request.param)


def real_data_folder(name: str) -> Path:
    folder = REAL_DATA / name
    if not folder.is_dir():
        pytest.skip(f"real data not found: {name} is not beside the checkout")
    return folder

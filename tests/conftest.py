"""Strictness for the whole suite: what jax lets pass silently fails here."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from real_data import real_data_folder

# Read once, when jax starts: the tests want float64 references beside float32 code.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Compiling dominates the tests, and a third of it is optimising. `make test-all` leaves that on.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import jax

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_enable_checks", True)
# Before the first use of a device: the head's shards need several, one CPU can play eight.
jax.config.update("jax_num_cpu_devices", 8)


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test touches the user's cache; within the session programs are compiled once."""
    place = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SNM_CACHE", str(place))
        # Where the command line puts them too.
        jax.config.update("jax_compilation_cache_dir", str(place / "compiled"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)
        yield


@pytest.fixture(params=["delicious", "citeulike-t-14k", "gowalla"])
def real_data(request: pytest.FixtureRequest) -> Path:
    """The folder of a real data set; the test is skipped, saying so, where it is missing."""
    return real_data_folder(request.param)

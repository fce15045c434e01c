"""Strictness for the whole suite: what jax lets pass silently fails here."""

import contextlib
import fcntl
import gc
import os
import shutil
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import pytest
from real_data import real_data_folder

# Read once, when numpy starts: the threads of OpenBLAS busily wait for each other, and for a core.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Read once, when jax starts: the tests want float64 references beside float32 code.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Compiling dominates the tests, and most of it is optimizing: LLVM's passes, and MLIR's for each
# fusion; in parts for several cores, small programs take a fifth more. `pytest -m bits` leaves all
# on, as users do. A flag that XLA does not know ends the process: jaxlib 0.11 no longer knows the
# second, and the third was tried with 0.10 alone.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0"
    + " --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    * metadata.version("jaxlib").startswith("0.10."),
)
# An operation is not told its line of Python, for which jax would walk the stack at each of them.
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")
# Also for processes that tests start: a program of 0.1 seconds is kept for whoever needs it next.
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")

with contextlib.suppress(ImportError):  # the environment for Annif has none
    import hypothesis

    # The same examples in every run; `--hypothesis-profile=default` draws others.
    hypothesis.settings.load_profile("ci")

import jax
import tiny
from flaky_store import flaky as flaky  # a fixture

import snm
from snm.system.compilation_cache import compiled_programs_path

# jax's checks of its own work are on in `make test-slow` alone: they take a seventh of the time.
# They are of this process: those that a worker's tests start run the same code, and go without.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.pop("JAX_ENABLE_CHECKS", None)
jax.config.update("jax_numpy_rank_promotion", "raise")
# Before the first use of a device: the head's shards need several, one CPU can play eight.
jax.config.update("jax_num_cpu_devices", 8)


def pytest_collection() -> None:
    """Collecting makes objects that live on: the garbage collector would be a seventh of it."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Modules and tests live to the end: the garbage collector need not walk them each time.

    Nor does it run as often as by default: tracing makes many objects, most of which live on.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20)
    gc.enable()


@pytest.fixture
def collect() -> Callable[[], int]:
    """Collects the garbage of the test, not of all that a worker has, whose walk takes a second."""
    gc.freeze()
    return gc.collect


@pytest.fixture(scope="session")
def everyone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this run of the tests: one for all workers of xdist."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(autouse=True, scope="session")
def _own_cache(everyone: Path) -> Iterator[None]:
    """No test touches the user's cache; in one run of the tests a program is compiled once."""
    place = everyone / "cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SNM_CACHE", str(place))
        # Where the command line puts them too.
        jax.config.update("jax_compilation_cache_dir", compiled_programs_path(place))
        yield


@pytest.fixture(scope="session")
def trained_once(everyone: Path, _own_cache: None) -> Callable[..., Path]:
    """Trains on the `data` that a function writes into `run`, once for all workers."""

    def train(name: str, write: Callable[[Path], Path], config: snm.Config) -> Path:
        place = everyone / name
        with (everyone / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (place / "run" / "result.json").exists():
                shutil.rmtree(place, ignore_errors=True)
                place.mkdir()
                snm.train(write(place / "data"), config, place / "run")
        return place

    return train


@pytest.fixture(scope="session")
def tiny_run(trained_once: Callable[..., Path]) -> Path:
    """`tiny.CONFIG` trained on `data` into `run`; to change it, copy it."""
    return trained_once("trained", tiny.write, tiny.CONFIG)


@pytest.fixture(params=["delicious", "citeulike-t-14k", "gowalla"])
def real_data(request: pytest.FixtureRequest) -> Path:
    """The folder of a real data set; the test is skipped, saying so, where it is missing."""
    return real_data_folder(request.param)

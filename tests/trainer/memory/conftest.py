"""A run with a memory, for the tests that leave it as it is."""

import fcntl
import shutil
from pathlib import Path

import pytest
import tiny

import snm


@pytest.fixture(scope="session")
def remembering(everyone: Path, _own_cache: None) -> Path:
    """`tiny.REMEMBERING` trained on `data` into `run`, once for all workers; to change it, copy."""
    place = everyone / "neighbours"
    with (everyone / "neighbours.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "run" / "result.json").exists():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            snm.train(tiny.neighbour_data(place / "data"), tiny.REMEMBERING, place / "run")
    return place

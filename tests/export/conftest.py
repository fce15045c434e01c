"""A run with a memory, whose exports several files test."""

import fcntl
import shutil

import pytest
import tiny

import snm


@pytest.fixture(scope="session")
def remembering(everyone, _own_cache):
    """A run on 600 points whose labels are well told by their neighbours; to change it, copy it.

    It has two members, a tower, a bias, names, a memory with queries, and probabilities.
    """
    place = everyone / "remembering"
    with (everyone / "remembering.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "run" / "result.json").exists():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            # By features alone, as with the other seed, a memory would keep no queries.
            tiny.neighbour_data(place / "data", seed=1)
            names = "".join(f"näme {label}\n" for label in range(60))
            (place / "data" / "labels.txt").write_text(names, encoding="utf-8")
            snm.train(place / "data", tiny.REMEMBERING, place / "run")
    memory = snm.load(place / "run").memory
    assert memory is not None and memory.queries is not None
    return place / "run"

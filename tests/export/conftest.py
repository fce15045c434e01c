"""A run with a memory, whose exports several files test."""

from pathlib import Path

import pytest
import tiny

import snm


@pytest.fixture(scope="session")
def remembering(trained_once):
    """A run on 600 points whose labels are well told by their neighbours; to change it, copy it.

    It has two members, a tower, a bias, names, a memory with queries, and probabilities.
    """

    def write(folder: Path) -> Path:
        # By features alone, as with the other seed, a memory would keep no queries.
        tiny.neighbour_data(folder, seed=1)
        names = "".join(f"näme {label}\n" for label in range(60))
        (folder / "labels.txt").write_text(names, encoding="utf-8")
        return folder

    place = trained_once("remembering", write, tiny.REMEMBERING)
    memory = snm.load(place / "run").memory
    assert memory is not None and memory.queries is not None
    return place / "run"

"""Benchmarks files: parse a data set, load it from the cache, save and load a checkpoint."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax

from snm.bench import peers
from snm.bench.contest import Contest, OwnContestant
from snm.bench.rates import MachineRates, Work
from snm.bench.shapes import Shape, make_model, make_points, make_state
from snm.checkpoints.store import Checkpoints
from snm.data import cache
from snm.data.formats.repository_text.reader import read_text
from snm.data.formats.repository_text.writer import write_text
from snm.model.model import abstract_state

__all__ = ["checkpoint_contest", "read_contest"]

_PAIRS = 3_000_000  # `feature:value` pairs in the file: about 60 MB
_ROUNDS = 7
_SLOW_ROUNDS = 3


def read_contest(shape: Shape, machine: MachineRates) -> Iterator[Contest]:
    """Parsing the repository's text format, and loading the same data from the binary cache."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        features, labels = make_points(shape, min(shape.num_points, _PAIRS // shape.nonzeros))
        write_text(place / "train.txt", features, labels)
        size = (place / "train.txt").stat().st_size
        cache.write(place, "key", {"train": (features, labels)})
        held = sum(m.data.nbytes + m.indices.nbytes + m.indptr.nbytes for m in (features, labels))

        def parse() -> Any:
            return read_text(place / "train.txt")

        def load() -> Any:
            assert cache.read(place, "key") is not None

        yield Contest(
            "read",
            shape.name,
            machine,
            [
                OwnContestant("text", parse, case="text", work=Work(bytes=size + held),
                              against=("scikit-learn", "python"), notes={"file_bytes": size}),
                OwnContestant("cached", load, case="cached", work=Work(bytes=2 * held),
                              against=("scipy.sparse.load_npz",), notes={"file_bytes": held}),
            ],
            lambda: peers.readers(place, features, labels),
            max_rounds=_ROUNDS,
        )  # fmt: skip


def checkpoint_contest(shape: Shape, machine: MachineRates) -> Iterator[Contest]:
    """Saving a checkpoint of all parameters until it is complete on disk, and loading it."""
    model = make_model(shape, 16)
    state = make_state(shape)
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(state))
    with tempfile.TemporaryDirectory() as folder:
        store = Checkpoints(Path(folder) / "checkpoints", keep=1)
        step = 0

        def save() -> None:
            nonlocal step
            step += 1
            store.save(step, state, {}, None)

        def load() -> None:
            jax.block_until_ready(store.load(step, abstract_state(model)))

        work = Work(bytes=2 * size)
        yield Contest(
            "checkpoint",
            shape.name,
            machine,
            [
                OwnContestant("save", save, case="save", work=work, against=("numpy.savez",),
                              notes={"file_bytes": size}),
                OwnContestant("load", load, case="load", work=work, against=("numpy.load",),
                              notes={"file_bytes": size}),
            ],
            lambda: peers.array_files(Path(folder) / "peer.npz", state),
            max_rounds=_SLOW_ROUNDS if size > 1e9 else _ROUNDS,
        )  # fmt: skip

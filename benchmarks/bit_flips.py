"""Flips single bits in every file of a finished run: each is named, or changes nothing.

    python -m benchmarks.bit_flips --flips 10000 --out benchmarks/results/bit-flips.json

The run has every file that a run may have: names of labels, a vectorizer, a memory, two members.
Half of the flips are in a file drawn at random, half at a byte drawn from all. After each flip the
run is loaded. Either that is refused in one line that names the file, or everything that was loaded
is compared with what the run holds: settings, names, words, weighting, memory, parameters.
Parameters come from files whose checksums are compared; the arrays are those of the first load.
"""

import argparse
import collections
import dataclasses
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

import snm
from snm.checkpoints.store import Checkpoints
from snm.config.settings import read_config
from snm.data.vectorizer import Vectorizer
from snm.errors import InputError
from snm.memory.memory import Memory, MemorySettings
from snm.memory.store import save_memory
from snm.runs.folder import RunFolder, write_json
from snm.runs.load import used_checkpoints
from snm.runs.manifest import MAY_CHANGE
from snm.system.files import write_whole

POINTS, FEATURES, LABELS = 60, 30, 20
CONFIG = snm.Config(
    dim=8, members=2, epochs=2, batch_size=16, sampled=8, mined=3, input_dropout=0.0,
    class_init="random", schedule="constant", steps_per_dispatch=2, memory="off", seen="keep",
)  # fmt: skip
SETTINGS = MemorySettings(neighbors=3, power=1.0, feature_share=1.0, weight=2.0)


def made(place: Path) -> Path:
    """A finished run with every file that a run may have."""
    data = snm.generate(points=POINTS, test_points=20, features=FEATURES, labels=LABELS, seed=1,
                        labels_per_point=2, nonzeros_per_point=4)  # fmt: skip
    words = tuple(f"word{number:02}" for number in range(FEATURES))
    Vectorizer("counts", FEATURES, vocabulary=words).write(place / "vectorizer.json")
    names = tuple(f"label {number}" for number in range(LABELS))
    data = dataclasses.replace(data, label_names=names, vectorizer=place / "vectorizer.json")
    snm.train(data, CONFIG, place / "run")
    # So few points choose no memory: this puts one in as the end of a run does.
    folder = RunFolder(place / "run")
    result = folder.read_result()
    folder.reopen()
    rows = np.arange(POINTS)
    save_memory(folder.memory, Memory(data.train.features, data.train.labels, None, rows, SETTINGS))
    trial = {"used": True, "held_out": 6, "gain": 1.0, "error": 0.5, "before": [1.0],
             "precision": [2.0], "settings": dataclasses.asdict(SETTINGS), "points": POINTS,
             "bytes": 100, "seconds": 0.1}  # fmt: skip
    write_json(folder.memory_trial, trial)
    folder.finish({**result, "memory": trial}, used_checkpoints(folder, folder.settings()))
    return folder.path


def held(run: Path) -> list[Any]:
    """Everything that a loaded run answers from, in a form that can be compared."""
    predictor, folder = snm.load(run), RunFolder(run)
    assert predictor.memory is not None and predictor.vectorizer is not None
    matrices = (predictor.memory.features, predictor.memory.labels)
    arrays = [
        predictor.weighting.idf,
        predictor.memory.rows,
        *(array for m in matrices for array in (m.data, m.indices, m.indptr)),
        *jax.tree.leaves(predictor.state),
    ]
    settings = dataclasses.asdict(read_config(run / "config.toml"))
    return [
        {name: value for name, value in settings.items() if name not in MAY_CHANGE},
        folder.read_facts(),
        folder.read_result(),
        predictor.memory.settings,
        predictor.label_names,
        predictor.vectorizer.vocabulary,
        predictor.weighting.kind,
        predictor.model,
        *(np.asarray(array).tobytes() for array in arrays),
    ]


def measured(flips: int, seed: int = 0) -> dict[str, Any]:
    """Flips so many bits, one at a time; counts what came of each by kind of file."""
    begun, rng = time.monotonic(), np.random.default_rng(seed)
    found: dict[str, collections.Counter[str]] = {}
    with tempfile.TemporaryDirectory() as name:
        run = made(Path(name))
        before = held(run)
        load, loaded = Checkpoints.load, {}

        def verified(self: Checkpoints, step: int, like: Any) -> Any:
            self.verify(step)
            path = self.path(step)
            if path not in loaded:
                loaded[path] = load(self, step, like)
            return loaded[path]

        Checkpoints.load = verified  # type: ignore[method-assign]
        try:
            files = [path for path in sorted(run.rglob("*")) if path.is_file()]
            files = [path for path in files if path.stat().st_size]
            share = np.array([path.stat().st_size for path in files], np.float64)
            for number in range(flips):
                weights = share / share.sum() if number % 2 else None
                path = files[rng.choice(len(files), p=weights)]
                raw = path.read_bytes()
                flipped = bytearray(raw)
                flipped[rng.integers(len(raw))] ^= 1 << int(rng.integers(8))
                path.write_bytes(flipped)
                try:
                    outcome = "harmless" if held(run) == before else "changed silently"
                except InputError as error:
                    line = str(error)
                    place = path.relative_to(run).parts
                    known = path.name in line or "/".join(place[:-1]).split("/state")[0] in line
                    outcome = "named" if known and "\n" not in line else "refused, not named"
                path.write_bytes(raw)
                kind = "checkpoints" if "checkpoints" in path.parts else path.name
                kind = "tensorboard" if "tensorboard" in path.parts else kind
                found.setdefault(kind, collections.Counter())[outcome] += 1
        finally:
            Checkpoints.load = load  # type: ignore[method-assign]
    return {
        "flips": flips,
        "by file": {kind: dict(found[kind]) for kind in sorted(found)},
        "all": dict(sum(found.values(), collections.Counter())),
        "seconds": round(time.monotonic() - begun),
    }


def main() -> None:
    """Prints what was found, and writes it as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--flips", type=int, default=10_000)
    parser.add_argument("--out", type=Path, help="a JSON file to write")
    given = parser.parse_args()
    found = measured(given.flips)
    print(json.dumps(found, indent=1))
    if given.out is not None:
        write_whole(given.out, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()

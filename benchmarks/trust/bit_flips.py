"""Flips single bits in every file that `snm` reads, and checks that the damage is detected.

    python -m benchmarks.trust.bit_flips --flips 10000 --out benchmarks/results/bit-flips.json

Half of the flips are in a finished run with every file that a run may have: names of labels, a
vectorizer, a memory, a calibration, two members. The others are in its exports (arrays in two
formats, indexes of two libraries), in the cache of a data set, and in the records of a comparison.
In half of these, the file is drawn at random; in the others, the byte is drawn from all files.
After each flip the folder is loaded. Either the load fails with one line that names the file, or
everything loaded must equal what was there before: settings, names, words, weighting, memory,
parameters, answers. Parameters come from files with checksums; the arrays are those of the first
load. A damaged cache is parsed again, which is harmless.
"""

import collections
import contextlib
import dataclasses
import io
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import snm
from benchmarks.command_line import make_parser, print_and_write
from benchmarks.trust.crash_bench import CONFIG, SIZES, write_dataset
from snm.checkpoints.store import Checkpoints
from snm.compare.records import read_record, write_record
from snm.config.settings import read_config
from snm.data.vectorizer import Vectorizer
from snm.errors import InputError
from snm.export.cli import Export
from snm.export.index import with_index
from snm.export.index_libraries import LIBRARIES
from snm.export.manifest import read_manifest
from snm.memory.memory import Memory, MemorySettings
from snm.memory.store import save_memory
from snm.prediction.calibration import Calibration, Curve
from snm.runs.folder import RunFolder, write_json
from snm.runs.manifest import MAY_CHANGE
from snm.runs.stored_run import StoredRun

POINTS, FEATURES, LABELS = SIZES["points"], SIZES["features"], SIZES["labels"]
DATA = snm.generate(**SIZES)
CURVE = Curve("logistic", (1.0, -0.5, 0.1, 0.0), (-5.0, 0.0, 9.0), (0.05, 0.3, 0.95), (-9.0, 9.0))
OUTCOMES = ("named", "harmless", "refused, not named", "changed silently")
SETTINGS = MemorySettings(neighbors=3, power=1.0, feature_share=1.0, weight=2.0)


def train_full_run(place: Path) -> Path:
    """A finished run with every file that a run may have."""
    words = tuple(f"word{number:02}" for number in range(FEATURES))
    Vectorizer("counts", FEATURES, vocabulary=words).write(place / "vectorizer.json")
    names = tuple(f"label {number}" for number in range(LABELS))
    data = dataclasses.replace(DATA, label_names=names, vectorizer=place / "vectorizer.json")
    snm.train(data, dataclasses.replace(CONFIG, epochs=2), place / "run")
    # With so few points no memory is chosen: this adds one as the end of a run would.
    stored = StoredRun.open(place / "run")
    folder = stored.folder
    result = folder.read_result()
    folder.mark_unfinished()
    rows = np.arange(POINTS)
    save_memory(folder.memory, Memory(data.train.features, data.train.labels, None, rows, SETTINGS))
    record = {"used": True, "held_out": 6, "gain": 1.0, "error": 0.5, "before": [1.0],
             "precision": [2.0], "settings": dataclasses.asdict(SETTINGS), "points": POINTS,
             "bytes": 100, "seconds": 0.1, "adjustment": None,
             "calibration": dataclasses.asdict(Calibration(9, CURVE, CURVE))}  # fmt: skip
    write_json(folder.memory_record, record)
    folder.finish({**result, "memory": record}, stored.checkpoints.seals())
    return folder.path


def loaded_content(run: Path) -> list[Any]:
    """Everything that a loaded run predicts with, in a form that can be compared."""
    predictor, folder = snm.load(run), RunFolder(run)
    assert predictor.memory is not None and predictor.calibration is not None
    assert predictor.vectorizer is not None
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
        folder.read_origin(),
        folder.read_result(),
        predictor.memory.settings,
        predictor.calibration,
        predictor.label_names,
        predictor.vectorizer.vocabulary,
        predictor.weighting.kind,
        predictor.model,
        *(np.asarray(array).tobytes() for array in arrays),
    ]


def export_run(place: Path, run: Path, form: str) -> Path:
    """An export of the run in a format."""
    out = place / form
    with contextlib.redirect_stdout(io.StringIO()):
        data_option = {"data": str(place / "data")} if form in LIBRARIES else {}
        Export(run, form, out, **data_option)()
    return out


def make_targets(place: Path) -> dict[str, tuple[Path, Callable[[], Any]]]:
    """The folders to damage: name -> folder, and a function that loads it for a comparison."""
    data = place / "data"
    data.mkdir()
    write_dataset(DATA, data)
    run = train_full_run(place)
    predictor = snm.load(run)
    points = snm.load_data(data, cache=place / "cache").test
    assert points is not None

    def arrays(out: Path) -> Callable[[], Any]:
        return lambda: read_manifest(out, "npz")

    def index(out: Path) -> Callable[[], Any]:
        def load() -> Any:
            opened = with_index(predictor, out)
            return read_manifest(out, "faiss"), *map(
                np.ndarray.tobytes, opened.predict(points.features, 9)
            )

        return load

    def cached() -> Any:
        found = snm.load_data(data, cache=place / "cache")
        matrices = [m for part in (found.train, found.test) for m in (part.features, part.labels)]
        return [array.tobytes() for m in matrices for array in (m.data, m.indices, m.indptr)]

    compared = place / "comparison"
    compared.mkdir()
    records = {"plan.json": {"data": "x", "seeds": 3}, "decided.json": {"top-16": 7},
               "test-0.json": RunFolder(run).read_result()}  # fmt: skip
    for name, value in records.items():
        write_record(compared / name, value)
    return {
        "run": (run, lambda: loaded_content(run)),
        **{f"export, {form}": (out := export_run(place, run, form), arrays(out))
           for form in ("npz", "safetensors")},
        **{f"index, {form}": (out := export_run(place, run, form), index(out))
           for form in LIBRARIES},
        "cache": (place / "cache", cached),
        "comparison": (compared, lambda: [read_record(compared / name) for name in records]),
    }  # fmt: skip


def flip_bits(target: str, folder: Path, load: Callable[[], Any], count: int,
            rng: np.random.Generator) -> dict[str, Any]:  # fmt: skip
    """Flips `count` bits in the files of a folder, one at a time, and counts the outcomes."""
    before = load()
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size]
    share = np.array([path.stat().st_size for path in files], np.float64)
    found: dict[str, collections.Counter[str]] = {}
    for number in range(count):
        path = files[rng.choice(len(files), p=share / share.sum() if number % 2 else None)]
        raw = path.read_bytes()
        changed = bytearray(raw)
        changed[rng.integers(len(raw))] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        try:
            outcome = "harmless" if load() == before else "changed silently"
        except InputError as error:
            line = str(error)
            place = path.relative_to(folder).parts
            known = path.name in line or "/".join(place[:-1]).split("/state")[0] in line
            outcome = "named" if known and "\n" not in line else "refused, not named"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(raw)
        kind = "checkpoints" if "checkpoints" in path.parts else path.name
        kind = "tensorboard" if "tensorboard" in path.parts else kind
        found.setdefault(kind, collections.Counter())[outcome] += 1
    total = sum(found.values(), collections.Counter())
    return {"of": target, "flips": count, **{what: total[what] for what in OUTCOMES},
            "by file": [{"file": kind, **found[kind]} for kind in sorted(found)]}  # fmt: skip


def measure(flips: int, seed: int = 0) -> dict[str, Any]:
    """Flips `flips` bits in all targets; counts the outcomes by kind of file."""
    begun, rng = time.monotonic(), np.random.default_rng(seed)
    load, loaded = Checkpoints.load, {}

    def verified(self: Checkpoints, step: int, like: Any, **more: Any) -> Any:
        self.verify(step)
        path = self.path(step)
        if path not in loaded:
            loaded[path] = load(self, step, like)
        return loaded[path]

    with tempfile.TemporaryDirectory() as name:
        attacked = make_targets(Path(name))
        Checkpoints.load = verified
        try:
            rows = []
            for number, (target, (folder, hold)) in enumerate(attacked.items()):
                rest = -(-flips // 2 // (len(attacked) - 1))
                count = flips - rest * (len(attacked) - 1) if number == 0 else rest
                rows.append(flip_bits(target, folder, hold, count, rng))
        finally:
            Checkpoints.load = load
    return {
        "flips": flips,
        "all": {what: sum(row[what] for row in rows) for what in OUTCOMES},
        "of": rows,
        "seconds": round(time.monotonic() - begun),
    }


def main() -> None:
    """Prints the results, and writes them as JSON."""
    parser = make_parser(__doc__)
    parser.add_argument("--flips", type=int, default=10_000)
    args = parser.parse_args()
    found = measure(args.flips)
    print_and_write(args.out, found)


if __name__ == "__main__":
    main()

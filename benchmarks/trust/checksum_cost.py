"""What the checksums of a checkpoint cost when it is loaded, at the size of Amazon-670K.

    python -m benchmarks.trust.checksum_cost --out benchmarks/results/checksum-cost.json

An untrained model of 670,091 labels, 135,909 features and dim 512, as `snm bench` makes it, is
saved once and loaded in turns with and without the comparison of its checksums
(`snm.load(verify=...)`, `--no-verify`). Each time, the files are taken out of the page cache first,
or left in it. What is told is the least of the rounds, which other programs disturbed least.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from snm.bench.shapes import SHAPES, model_of
from snm.checkpoints.store import Checkpoints
from snm.model.model import abstract_state
from snm.model.placement import init_state_on
from snm.runs.folder import write_json


def drop(folder: Path) -> None:
    """Takes the files of a folder out of the page cache."""
    for path in folder.rglob("*"):
        if path.is_file():
            number = os.open(path, os.O_RDONLY)
            try:
                os.fsync(number)
                os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(number)


def timed(work: Callable[[], Any]) -> float:
    """Seconds of a call; what it returns is waited for."""
    begun = time.monotonic()
    jax.block_until_ready(work())
    return time.monotonic() - begun


def measured(rounds: int, folder: Path | None = None) -> dict[str, Any]:
    """Saves the model in a folder, and times its loading."""
    shape = SHAPES["amazon670k"]
    model = model_of(shape, 16)
    seconds: dict[str, dict[str, list[float]]] = {
        disk: {"verified": [], "not verified": [], "checksums alone": []}
        for disk in ("from the disk", "from the page cache")
    }
    with tempfile.TemporaryDirectory(dir=folder) as name:
        store = Checkpoints(Path(name) / "checkpoints", keep=1)
        like = abstract_state(model)
        store.save(1, init_state_on(model), {"step": 1}, None)
        path = store.path(1)
        size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        for _ in range(rounds):
            for disk, found in seconds.items():
                for what, work in (
                    ("verified", lambda: store.load(1, like)),
                    ("not verified", lambda: store.load(1, like, verify=False)),
                    ("checksums alone", lambda: store.verify(1).files),
                ):
                    if disk == "from the disk":
                        drop(path)
                    found[what].append(timed(work))
    mib = size / 2**20
    rows = [
        {
            "files": disk,
            "seconds": {what: round(min(of), 2) for what, of in found.items()},
            "MiB per second": {what: round(mib / min(of)) for what, of in found.items()},
            "every round": {what: [round(one, 2) for one in of] for what, of in found.items()},
        }
        for disk, found in seconds.items()
    ]
    return {"labels": shape.num_labels, "features": shape.num_features, "dim": shape.dim,
            "MiB": round(mib), "rounds": rounds, "loading": rows}  # fmt: skip


def main() -> None:
    """Prints what was found, and writes it as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where to save the model, on the disk to time")
    parser.add_argument("--out", type=Path, help="a JSON file to write")
    given = parser.parse_args()
    found = measured(given.rounds, given.folder)
    print(json.dumps(found, indent=1))
    if given.out is not None:
        write_json(given.out, found)


if __name__ == "__main__":
    main()

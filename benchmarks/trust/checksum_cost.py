"""Measures what the checksums of a checkpoint cost at a load, at the size of Amazon-670K.

    python -m benchmarks.trust.checksum_cost --out benchmarks/results/checksum-cost.json

An untrained model of 670,091 labels, 135,909 features and dim 512, as `snm bench` makes it, is
saved once. It is loaded in turns with and without checksums (`snm.load(verify=...)`,
`--no-verify`), with the files in the page cache or removed from it first. The result is the fastest
round, the one least disturbed by other programs.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from benchmarks.command_line import make_parser, print_and_write
from snm.bench.shapes import SHAPES, make_model
from snm.checkpoints.store import Checkpoints
from snm.model.model import abstract_state
from snm.model.placement import init_state_on


def drop_page_cache(folder: Path) -> None:
    """Takes the files of a folder out of the page cache."""
    for path in folder.rglob("*"):
        if path.is_file():
            number = os.open(path, os.O_RDONLY)
            try:
                os.fsync(number)
                os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(number)


def time_call(work: Callable[[], Any]) -> float:
    """Seconds of a call; what it returns is waited for."""
    begun = time.monotonic()
    jax.block_until_ready(work())
    return time.monotonic() - begun


def measure(rounds: int, folder: Path | None = None) -> dict[str, Any]:
    """Saves the model in a folder, and times its loading."""
    shape = SHAPES["amazon670k"]
    model = make_model(shape, 16)
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
                        drop_page_cache(path)
                    found[what].append(time_call(work))
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
    """Prints the results, and writes them as JSON."""
    parser = make_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where to save the model, on the disk to time")
    args = parser.parse_args()
    found = measure(args.rounds, args.folder)
    print_and_write(args.out, found)


if __name__ == "__main__":
    main()

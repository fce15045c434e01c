"""The subjects of the power-cut tests: a data set, a finished run, and the commands that write."""

from __future__ import annotations

import contextlib
import io
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import BinaryIO

import jax
import numpy as np

import snm
from snm.cli.main import main as command_line
from snm.compare import processes
from snm.compare.worker import run_task
from snm.config.resolve import resolve
from snm.data.formats.repository_text.writer import write_text
from snm.data.repository.fetch import fetch
from snm.data.repository.registry import Entry, Mirror
from snm.errors import InputError

SIZES = dict(points=60, test_points=20, features=30, labels=20, seed=1, labels_per_point=2,
             nonzeros_per_point=4)  # fmt: skip
CONFIG = snm.Config(
    dim=8, members=2, epochs=3, batch_size=16, sampled=8, mined=3, input_dropout=0.0,
    class_init="random", schedule="constant", steps_per_dispatch=2, memory="off", seen="keep",
)  # fmt: skip
STEPS = 4  # of an epoch


FILES = {"train.txt": "train.txt", "test.txt": "test.txt"}
ENTRY = Entry("Tiny-20", (Mirror(url="http://x", files=FILES),))
SHORT = """
epochs = 1
batch_size = 16
sampled = 8
learning_rate = 1.0
dim = 8
schedule = "constant"
"""


class Bench:
    """A data set, a finished run and texts, and the verbs that write."""

    def __init__(self, place: Path):
        self.place = place
        self.data = snm.generate(**SIZES)
        self.config = resolve(CONFIG, self.data)
        self.run = place / "whole"
        self.result = snm.train(self.data, CONFIG, self.run)
        self.arrays = arrays(self.run)
        rows = "".join(
            f'{{"text": "w{n % 7} w{n % 5}", "labels": ["l{n % 3}"]}}\n' for n in range(40)
        )
        (place / "rows.jsonl").write_text(rows)
        (place / "names.txt").write_text("new label\n")
        write_text(place / "points.txt", self.data.test.features, self.data.test.labels)
        self.source = place / "data"
        self.source.mkdir()
        write_dataset(self.data, self.source)
        with zipfile.ZipFile(place / "data.zip", "w") as archive:
            for path in sorted(self.source.iterdir()):
                archive.write(path, path.name)
        (place / "short.toml").write_text(SHORT)

    def verbs(self, folder: Path) -> dict[str, tuple[Path, Callable[[], None]]]:
        """Each verb's output in a folder, and its call."""
        run, out = self.run, folder / "out"
        words = {
            "import": ("data", "import", self.place / "rows.jsonl", "--out", out),
            "synth": ("data", "synth", out, "--points=60", "--test-points=9", "--features=30",
                      "--labels=20", "--labels-per-point=2", "--nonzeros-per-point=4"),
            "export": ("export", run, "--to", "npz", "--out", out),
            "grow": ("grow", run, "--labels", self.place / "names.txt", "--out", out),
            "predict": ("predict", run, self.place / "points.txt", "--out", out),
        }  # fmt: skip
        found = {verb: (out, lambda args=args: run_command(*args)) for verb, args in words.items()}
        archive = self.place / "data.zip"
        return found | {"fetch": (out, lambda: fetch(ENTRY, out, lambda *_: None, archive=archive))}

    def train(self, folder: Path) -> None:
        """Trains a run in a folder, or goes on."""
        snm.train(self.data, CONFIG, folder)

    def compare(self, folder: Path) -> None:
        """Compares two arms in a folder, or goes on; the jobs run in this process."""
        with jobs_here():
            config = self.place / "short.toml"
            run_command("compare", self.source, "--out", folder, "--config", config,
                        "--mined", "3", "--seeds", "1")  # fmt: skip


def write_dataset(data: snm.Dataset, folder: Path) -> None:
    """The points of a data set as files."""
    for name, points in (("train", data.train), ("test", data.test)):
        assert points is not None
        write_text(folder / f"{name}.txt", points.features, points.labels)


def run_command(*words: object) -> None:
    """Runs a command; its error becomes an InputError of its line."""
    error = io.StringIO()
    with contextlib.redirect_stderr(error), contextlib.redirect_stdout(io.StringIO()):
        try:
            command_line([str(word) for word in words])
        except SystemExit as stop:
            if stop.code:
                line = error.getvalue()
                assert line.startswith("snm: error: ") and line.count("\n") == 1, line
                raise InputError("command", line.strip(), "none") from None


def arrays(run: Path) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(snm.load(run).state)]


def same(first: list[np.ndarray], second: list[np.ndarray]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def tree(path: Path) -> dict[str, bytes]:
    """The files of a folder, or a file."""
    if path.is_file():
        return {"": path.read_bytes()}
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


@contextlib.contextmanager
def jobs_here() -> Iterator[None]:
    """Within the block, the jobs of a comparison run in this process, where they can be watched."""

    class Here:
        returncode = 0

        def __init__(self, command: list[str], *, stderr: BinaryIO, **_: object):
            self.stdin = io.BytesIO()
            try:
                run_task(Path(command[-1]))
            except (InputError, OSError) as error:  # as a worker in a process of its own
                stderr.write(f"snm: error: {error}\n".encode())
                self.returncode = 2 if isinstance(error, InputError) else 1

        def poll(self) -> int:
            return self.returncode

        wait = terminate = poll

    real = processes.subprocess
    # In that module alone: matplotlib starts processes of its own where it looks for fonts.
    stand_in = SimpleNamespace(Popen=Here, PIPE=real.PIPE, DEVNULL=real.DEVNULL)
    processes.subprocess = stand_in
    try:
        yield
    finally:
        processes.subprocess = real

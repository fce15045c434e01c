"""Injects disk errors into the calls of every library that writes: NumPy, orbax, FAISS and ours.

    python -m benchmarks.trust.disk_errors --every 5 --out benchmarks/results/disk-errors.json

`disk_errors.c` is compiled by the C compiler of the system and preloaded. It makes one call fail: a
write, sync, rename, truncation or new folder within the output folder, in whichever library. Each
call fails once (of a comparison, one in five), in turns with EIO, ENOSPC, EINTR, and a short write
(half of the bytes; no error). A failure must be one line with a path in the folder; the output is
absent or complete; and the same command then succeeds. Libraries repeat calls after EINTR and short
writes, so these succeed.
"""

from __future__ import annotations

import collections
import ctypes
import dataclasses
import errno
import itertools
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.command_line import make_parser, write_results
from snm.errors import InputError

if TYPE_CHECKING:
    from benchmarks.trust.crash_bench import Bench

ERRORS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC, "EINTR": errno.EINTR, "short write": 0}
_SHIM = "SNM_DISK_ERRORS"


def preloaded(words: list[str]) -> int:
    """Runs this module again with the shim preloaded; its exit status."""
    with tempfile.TemporaryDirectory() as name:
        shim = Path(name) / "shim.so"
        source = Path(__file__).with_suffix(".c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", shim, source, "-ldl"], check=True)
        env = {**os.environ, "LD_PRELOAD": str(shim), _SHIM: str(shim)}
        again = [sys.executable, "-m", "benchmarks.trust.disk_errors", *words]
        return subprocess.run(again, env=env, check=False).returncode


class Shim:
    """The preloaded library."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(os.environ[_SHIM])

    def run_with_error(
        self, work: Callable[[], None], folder: Path, at: int, error: int
    ) -> tuple[Any, str]:
        """Calls `work` while call number `at` fails: what it raised or None, and the call."""
        self._library.arm(os.fsencode(folder), ctypes.c_long(at), error)
        raised: BaseException | None = None
        try:
            work()
        except Exception as found:
            raised = found
        name = ctypes.create_string_buffer(32)
        self._library.disarm(name, ctypes.c_size_t(32))
        return raised, name.value.decode()


@dataclasses.dataclass(frozen=True)
class Command:
    """A command that writes.

    Attributes:
      name: of the command.
      work: writes `out` in a folder.
      content: what an output holds, where an error may leave a part of it and the same command ends
        it; None where it is absent or whole.
      every: this times as many calls lie between two errors as elsewhere.
    """

    name: str
    work: Callable[[Path], Any]
    content: Callable[[Path], Any] | None = None
    every: int = 1

    def read_output(self, folder: Path) -> Any:
        """The content of the output, or the names of its files except partial ones."""
        from benchmarks.trust.crash_bench import tree

        out = folder / "out"
        if self.content is not None:
            return self.content(out)
        return {name.partition("/")[0] for name in tree(out)}  # within checkpoints they are drawn


def commands_of(bench: Bench) -> list[Command]:
    """All commands that write, an export by each of its formats."""
    import snm
    from benchmarks.trust.crash_bench import arrays, run_command
    from benchmarks.trust.crash_folders import content, metrics
    from snm.export.index_libraries import LIBRARIES

    def verb(name: str) -> Command:
        return Command(name, lambda folder: bench.verbs(folder)[name][1]())

    def export(form: str) -> Command:
        data_option = ("--data", bench.source) if form in LIBRARIES else ()
        words = ("export", bench.run, "--to", form, *data_option, "--out")
        return Command(f"export {form}", lambda folder: run_command(*words, folder / "out"))

    return [
        *(verb(name) for name in bench.verbs(bench.place) if name != "export"),
        *(export(form) for form in ("npz", "safetensors", *LIBRARIES)),
        Command(
            "cache",
            lambda folder: snm.load_data(bench.source, cache=folder / "out"),
            lambda out: content(snm.load_data(bench.source, cache=out)),
        ),
        Command(
            "train",
            lambda folder: bench.train(folder / "out"),
            lambda out: [array.tobytes() for array in arrays(out)],
        ),
        # Most of its calls are those of the trainings within it.
        Command("comparison", lambda folder: bench.compare(folder / "out"), metrics, every=5),
    ]


def judge(raised: BaseException | None, folder: Path) -> str:
    """`went on`, `one line`, or what is wrong."""
    if raised is None:
        return "went on"
    line = str(raised)
    if not isinstance(raised, InputError | OSError):  # the command line shows a traceback
        return f"traceback: {type(raised).__name__}: {line[:200]}"
    if "\n" in line:
        return f"several lines: {line[:200]}"
    return "one line" if str(folder) in line else f"without a path: {line[:200]}"


def inject_error(
    command: Command, shim: Shim, folder: Path, at: int, error: int, whole: Any
) -> tuple[str, str]:
    """Makes one call of a command fail, and runs the command again if that failed.

    Args:
      command: the command.
      shim: makes the call fail.
      folder: emptied first.
      at: the number of the call.
      error: one of `ERRORS`.
      whole: what `command.read_output` is without errors.

    Returns:
      the call, empty where there are fewer, and the outcome: that of `judge`, or what is wrong.
    """
    shutil.rmtree(folder)
    folder.mkdir()
    raised, call = shim.run_with_error(lambda: command.work(folder), folder, at, error)
    if not call:
        return "", ""
    outcome = judge(raised, folder)
    if command.content is None:
        if raised is None:
            there = command.read_output(folder) == whole
            return call, outcome if there else "went on, with parts missing"
        left = sorted(path.name for path in folder.iterdir())
        outcome = outcome if left in ([], ["out"]) else f"{outcome}; left {left}"
        shutil.rmtree(folder / "out", ignore_errors=True)
        (folder / "out").unlink(missing_ok=True)
        command.work(folder)
        return call, outcome
    command.work(folder)  # a comparison goes on without a job, and then tries it again
    same = command.read_output(folder) == whole
    return call, outcome if same else f"{outcome}; other content after it"


def inject_errors(
    command: Command,
    folder: Path,
    every: int,
    late: Callable[[], bool],
    report: Callable[[str], None],
) -> dict[str, Any]:
    """Makes every n-th call of a command fail, until no call is left or time is up."""
    shim, step = Shim(), every * command.every
    folder.mkdir()
    command.work(folder)
    whole = command.read_output(folder)
    outcomes = collections.Counter({"went on": 0, "one line": 0})
    calls: collections.Counter[str] = collections.Counter()
    wrong: list[dict[str, Any]] = []
    for number, kind in enumerate(itertools.cycle(ERRORS)):
        at = number * step
        if late():
            break
        call, outcome = inject_error(command, shim, folder, at, ERRORS[kind], whole)
        if not call:
            break
        if outcome not in ("went on", "one line"):
            wrong.append({"call": call, "number": at, "error": kind, "found": outcome})
            report(f"{command.name}: {wrong[-1]}")
        outcomes[outcome.partition(":")[0]] += 1
        calls[call] += 1
    shutil.rmtree(folder)
    return {"what": command.name, "an error at every": step, "errors": outcomes.total(), **outcomes,
            "failed": len(wrong), "calls": dict(calls), "wrong": wrong}  # fmt: skip


def measure(every: int, seconds: float | None, report: Callable[[str], None]) -> dict[str, Any]:
    """Makes every n-th call of each command fail, one command after the other."""
    from benchmarks.trust.crash_bench import Bench

    begun = time.monotonic()

    def late() -> bool:
        return seconds is not None and time.monotonic() - begun >= seconds

    logging.disable(logging.CRITICAL)
    rows = []
    with tempfile.TemporaryDirectory() as name:
        place = Path(name).resolve()
        for command in commands_of(Bench(place)):
            folder = place / f"of-{command.name.replace(' ', '-')}"
            rows.append(inject_errors(command, folder, every, late, report))
            report(json.dumps(rows[-1]))
    return {"errors": sum(row["errors"] for row in rows),
            "failed": sum(row["failed"] for row in rows), "of": rows,
            "seconds": round(time.monotonic() - begun)}  # fmt: skip


def main() -> int:
    """Prints the results, and writes them as JSON."""
    if _SHIM not in os.environ:
        return preloaded(sys.argv[1:])
    parser = make_parser(__doc__)
    parser.add_argument("--every", type=int, default=1, help="let every n-th call fail")
    parser.add_argument("--seconds", type=float, help="begin no further try after that")
    args = parser.parse_args()
    found = measure(args.every, args.seconds, lambda line: print(line, flush=True))
    write_results(args.out, found)
    return 1 if found["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())

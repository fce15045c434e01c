"""Errors of the disk at every call of every library that writes: NumPy, orbax, FAISS and ours.

    python -m benchmarks.trust.disk_errors --every 5 --out benchmarks/results/disk-errors.json

`disk_errors.c`, built by the system's C compiler and preloaded, makes one call fail: a write, sync,
rename, truncation or new folder within the output's folder, whichever library makes it. Each call
fails once (of a comparison, one in five): in turns with EIO, ENOSPC, EINTR, and a short write (half
of the bytes; no error). A failure is one line with a path of the folder; the output is absent or
whole; and the same command then ends as without it. Calls that are repeated by the library (EINTR,
short writes) end well.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
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
from typing import Any

from snm.system.files import write_whole

ERRORS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC, "EINTR": errno.EINTR, "short write": 0}
_SHIM = "SNM_DISK_ERRORS"
_OF_A_COMPARISON = 5  # fewer errors there than elsewhere


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

    def tried(self, work: Callable[[], None], folder: Path, at: int, error: int) -> tuple[Any, str]:
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


def judged(raised: BaseException | None, folder: Path, error: int) -> str:
    """`went on`, `one line`, or what is wrong."""
    from snm.errors import InputError

    if raised is None:
        return "went on"
    line = str(raised)
    if not isinstance(raised, InputError | OSError):  # the command line shows a traceback
        return f"traceback: {type(raised).__name__}: {line[:200]}"
    if "\n" in line:
        return f"several lines: {line[:200]}"
    return "one line" if str(folder) in line else f"without a path: {line[:200]}"


def measured(every: int, seconds: float | None, told: Callable[[str], None]) -> dict[str, Any]:
    """Lets every so-many-th call fail, of each command in turn."""
    import snm
    from benchmarks.trust.crash_bench import Bench, arrays, said, tree
    from benchmarks.trust.crash_folders import content, metrics

    def tops(out: Path) -> set[str]:
        """Names of an output; those within checkpoints are drawn."""
        return {name.partition("/")[0] for name in tree(out)}

    begun, shim = time.monotonic(), Shim()
    logging.disable(logging.CRITICAL)
    rows = []
    with tempfile.TemporaryDirectory() as name:
        place = Path(name).resolve()
        bench = Bench(place)
        verbs = {
            verb: (lambda folder, verb=verb: bench.verbs(folder)[verb][1]())
            for verb in bench.verbs(place)
            if verb != "export"
        }
        for form in ("npz", "safetensors", "faiss", "hnswlib"):
            verbs[f"export {form}"] = lambda folder, form=form: said(
                "export", bench.run, "--to", form, "--output", folder / "out",
                "--data", bench.source)  # fmt: skip
        resumed: dict[str, tuple[Callable[[Path], Any], Callable[[Path], Any]]] = {
            "cache": (lambda out: snm.load_data(bench.source, cache=out), lambda out: content(
                snm.load_data(bench.source, cache=out))),
            "train": (bench.train, lambda out: [array.tobytes() for array in arrays(out)]),
            "comparison": (bench.compare, metrics),
        }  # fmt: skip
        for verb, (go, _) in resumed.items():
            verbs[verb] = lambda folder, go=go: go(folder / "out")
        for verb, work in verbs.items():
            # Most calls of a comparison are those of the trainings within it.
            step = every * _OF_A_COMPARISON if verb == "comparison" else every
            folder = place / f"of-{verb.replace(' ', '-')}"
            folder.mkdir()
            work(folder)
            names = tops(folder / "out")
            content_of = resumed[verb][1] if verb in resumed else None
            expected = content_of and content_of(folder / "out")
            outcomes: dict[str, int] = {}
            calls: dict[str, int] = {}
            wrong, at = [], 0
            while seconds is None or time.monotonic() - begun < seconds:
                kind = list(ERRORS)[(at // step) % len(ERRORS)]
                shutil.rmtree(folder)
                folder.mkdir()
                raised, call = shim.tried(
                    lambda work=work, folder=folder: work(folder), folder, at, ERRORS[kind]
                )
                if not call:
                    break
                outcome = judged(raised, folder, ERRORS[kind])
                if content_of is None and outcome == "went on":
                    whole = tops(folder / "out") == names
                    outcome = outcome if whole else "went on, with parts missing"
                elif content_of is None:
                    left = sorted(path.name for path in folder.iterdir())
                    outcome = outcome if left in ([], ["out"]) else f"{outcome}; left {left}"
                    shutil.rmtree(folder / "out", ignore_errors=True)
                    (folder / "out").unlink(missing_ok=True)
                if raised is not None or content_of is not None:
                    work(folder)  # a comparison goes on without a job, and then tries it again
                if content_of is not None and content_of(folder / "out") != expected:
                    outcome = f"{outcome}; other content after it"
                if outcome not in ("went on", "one line"):
                    wrong.append({"call": call, "number": at, "error": kind, "found": outcome})
                    told(f"{verb}: {wrong[-1]}")
                outcomes[outcome.partition(":")[0]] = outcomes.get(outcome.partition(":")[0], 0) + 1
                calls[call] = calls.get(call, 0) + 1
                at += step
            rows.append({"what": verb, "an error at every": step, "errors": sum(outcomes.values()),
                         **{"went on": 0, "one line": 0, **outcomes},
                         "failed": len(wrong), "calls": calls, "wrong": wrong})  # fmt: skip
            told(json.dumps(rows[-1]))
            shutil.rmtree(folder)
    return {"errors": sum(row["errors"] for row in rows),
            "failed": sum(row["failed"] for row in rows), "of": rows,
            "seconds": round(time.monotonic() - begun)}  # fmt: skip


def main() -> int:
    """Prints what was found, and writes it as JSON."""
    if _SHIM not in os.environ:
        return preloaded(sys.argv[1:])
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--every", type=int, default=1, help="let every n-th call fail")
    parser.add_argument("--seconds", type=float, help="begin no further try after that")
    parser.add_argument("--out", type=Path, help="a JSON file to write")
    given = parser.parse_args()
    found = measured(given.every, given.seconds, lambda line: print(line, flush=True))
    if given.out is not None:
        write_whole(given.out, json.dumps(found, indent=1) + "\n")
    return 1 if found["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())

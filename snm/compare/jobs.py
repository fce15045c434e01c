"""Runs of a comparison as processes of their own: each finished once, and never twice.

A job is a configuration and a split. Its name is a digest of both, so two arms with the same
settings share one run, and the same command started again finds what is done. A job that was
interrupted goes on from its checkpoint; one that failed is tried again next time.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from snm.config.resolved import ResolvedConfig
from snm.runs.folder import read_json, write_json

__all__ = ["Job", "Running", "result_of", "run_jobs"]

_POLL_SECONDS = 0.25


@dataclasses.dataclass(frozen=True)
class Job:
    """One training run.

    Attributes:
      arm: for people only.
      config: the settings, with the seed of this run.
      split: `test` trains on all of train and scores the test points; `validation` holds out a
        fifth of train and scores that.
      probes: how often to look at the model on the way; 0 is never.
    """

    arm: str
    config: ResolvedConfig
    split: str
    probes: int = 0

    @property
    def name(self) -> str:
        """Name of its folder and file: the split, and a digest of the settings."""
        settings = json.dumps([dataclasses.asdict(self.config), self.split, self.probes])
        return f"{self.split}-{hashlib.sha256(settings.encode()).hexdigest()[:12]}"


@dataclasses.dataclass(frozen=True)
class Running:
    """How the jobs stand: how many are done, and the steps of those at work."""

    done: int
    total: int
    working: dict[str, tuple[int, int]]


def result_of(folder: Path, job: Job) -> dict[str, Any] | None:
    """What a finished job has written: metrics and more, or `error`; None if it is not over."""
    path = folder / f"{job.name}.json"
    return read_json(path) if path.exists() else None


def run_jobs(data: str, folder: Path, jobs: Sequence[Job], at_once: int) -> Iterator[Running]:
    """Runs what is not done yet, so many at a time, and yields how things stand.

    Args:
      data: what the worker loads.
      folder: where the jobs' files are.
      jobs: any number; equal ones run once.
      at_once: processes at a time.
    """
    folder.mkdir(parents=True, exist_ok=True)
    unique = list({job.name: job for job in jobs}.values())
    waiting = [job for job in unique if _to_run(folder, job)]
    done = len(unique) - len(waiting)
    working: dict[Job, subprocess.Popen[bytes]] = {}
    try:
        while waiting or working:
            while waiting and len(working) < at_once:
                job = waiting.pop(0)
                working[job] = _start(data, folder, job)
            for job, process in list(working.items()):
                if process.poll() is not None:
                    _closed(working.pop(job))
                    _note_failure(folder, job, process.returncode)
                    done += 1
            yield Running(done, len(unique), {job.arm: _stands(folder, job) for job in working})
            if working:
                time.sleep(_POLL_SECONDS)
    finally:
        for process in working.values():
            process.terminate()
        for process in working.values():
            process.wait()
            _closed(process)


def _closed(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()


def _to_run(folder: Path, job: Job) -> bool:
    found = result_of(folder, job)
    if found is not None and "error" in found:
        (folder / f"{job.name}.json").unlink()
        return True
    return found is None


def _start(data: str, folder: Path, job: Job) -> subprocess.Popen[bytes]:
    task = folder / f"{job.name}.task.json"
    write_json(task, {"data": data, "arm": job.arm, "split": job.split, "probes": job.probes,
                      "config": dataclasses.asdict(job.config)})  # fmt: skip
    with (folder / f"{job.name}.stderr").open("wb") as errors:
        return subprocess.Popen(
            [sys.executable, "-m", "snm.compare.worker", str(task)],
            # The worker reads it to its end, which comes when this process is gone, however.
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            # Ctrl-C is this process's business, which then ends its workers.
            start_new_session=True,
            env=os.environ.copy(),
        )


def _note_failure(folder: Path, job: Job, status: int) -> None:
    """Writes why a worker ended without a result, and tidies up behind one that has one."""
    errors = folder / f"{job.name}.stderr"
    if result_of(folder, job) is None:
        lines = [line for line in errors.read_text(errors="replace").splitlines() if line.strip()]
        reason = lines[-1].removeprefix("snm: error: ") if lines else f"exit status {status}"
        if status < 0:
            reason = f"ended by {signal.Signals(-status).name}"
            reason += ", often for want of memory" if status == -signal.SIGKILL else ""
        write_json(folder / f"{job.name}.json", {"arm": job.arm, "error": reason})
        return
    for left in ("stderr", "task.json", "steps", "lock"):
        (folder / f"{job.name}.{left}").unlink(missing_ok=True)
    shutil.rmtree(folder / job.name, ignore_errors=True)


def _stands(folder: Path, job: Job) -> tuple[int, int]:
    """Steps done and steps in all, as the worker last told; zeros before it has."""
    try:
        done, total = (folder / f"{job.name}.steps").read_text().split()
        return int(done), int(total)
    except (OSError, ValueError):
        return 0, 0

"""Runs the training jobs of a comparison as separate processes; a finished job never runs again.

A job is a configuration and a split. Its name is a digest of both. Two arms with equal settings
therefore share one run, and a repeated command finds the finished runs. An interrupted job resumes
from its checkpoint. A failed job runs again with the next command.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

from snm.compare.processes import failure_reason, spawn_tied
from snm.compare.records import read_record, write_record
from snm.config.resolved import ResolvedConfig
from snm.errors import STOPPED
from snm.system.files.atomic import make_folder

__all__ = ["Job", "Running", "read_result", "run_jobs"]

_POLL_SECONDS = 0.25
# After and before a worker installs its signal handlers.
_STOPPED_STATUSES = (STOPPED, -signal.SIGTERM, -signal.SIGINT)


@dataclasses.dataclass(frozen=True)
class Job:
    """One training run.

    Attributes:
      arm: name of the arm, for messages only.
      config: the settings, with the seed of this run.
      split: `test` trains on all of train and scores the test points; `validation` holds out a
        fifth of train and scores that.
      probes: number of probe calls during training; 0 means none.
    """

    arm: str
    config: ResolvedConfig
    split: str
    probes: int = 0

    @property
    def name(self) -> str:
        """Name of the job's folder and files: the split and a digest of the settings."""
        settings = json.dumps([dataclasses.asdict(self.config), self.split, self.probes])
        return f"{self.split}-{hashlib.sha256(settings.encode()).hexdigest()[:12]}"


@dataclasses.dataclass(frozen=True)
class Running:
    """State of the jobs.

    Attributes:
      done: number of finished jobs.
      total: number of jobs.
      working: arm and seed, steps done, and steps in total of each running job.
      durations: arm, seconds and epochs of each job that has run from start to end.
      left: arm and epochs of each job that is not finished.
      later: arm and epochs of the known jobs of later stages.
      stopped: whether a process was stopped by a signal; its job is in `left`.
    """

    done: int
    total: int
    working: list[tuple[str, int, int]]
    durations: tuple[tuple[str, float, int], ...] = ()
    left: tuple[tuple[str, int], ...] = ()
    later: tuple[tuple[str, int], ...] = ()
    stopped: bool = False


def read_result(folder: Path, job: Job) -> dict[str, Any] | None:
    """The result of a finished job (metrics and more, or `error`); None if it is not finished."""
    path = folder / f"{job.name}.json"
    return read_record(path) if path.exists() else None


def run_jobs(data: str, folder: Path, jobs: Sequence[Job], num_parallel: int) -> Generator[Running]:
    """Runs the unfinished jobs and yields their state; closing the generator ends the processes.

    It ends after a state with `stopped`: a signal to all processes, such as from `systemctl stop`,
    stops the comparison.

    Args:
      data: source of the data set that the workers load.
      folder: folder of the jobs' files.
      jobs: the jobs; equal ones run once.
      num_parallel: number of concurrent processes.
    """
    make_folder(folder)
    unique = list({job.name: job for job in jobs}.values())
    waiting = [job for job in unique if _is_unfinished(folder, job)]
    done = len(unique) - len(waiting)
    working: dict[Job, subprocess.Popen[bytes]] = {}
    start_times: dict[Job, float] = {}
    durations: list[tuple[str, float, int]] = []
    stopped = False
    try:
        while (waiting or working) and not stopped:
            while waiting and len(working) < num_parallel:
                job = waiting.pop(0)
                # From a checkpoint, its seconds would be of some epochs only.
                if not (folder / job.name / "checkpoints").exists():
                    start_times[job] = time.monotonic()
                working[job] = _start(data, folder, job)
            for job, process in list(working.items()):
                if process.poll() is not None:
                    _close_stdin(working.pop(job))
                    if process.returncode in _STOPPED_STATUSES and read_result(folder, job) is None:
                        waiting.append(job)
                        stopped = True
                        continue
                    _record_end(folder, job, process.returncode)
                    done += 1
                    if process.returncode == 0 and job in start_times:
                        durations.append(
                            (job.arm, time.monotonic() - start_times[job], job.config.epochs)
                        )
            yield Running(
                done,
                len(unique),
                [(f"{job.arm} (seed {job.config.seed})", *_steps(folder, job)) for job in working],
                durations=tuple(durations),
                left=tuple((job.arm, job.config.epochs) for job in (*working, *waiting)),
                stopped=stopped,
            )
            if working and not stopped:
                time.sleep(_POLL_SECONDS)
    finally:
        for process in working.values():
            process.terminate()
        for process in working.values():
            process.wait()  # it writes a checkpoint first
            _close_stdin(process)
        for job in working:
            if read_result(folder, job) is not None:  # it finished meanwhile
                _delete_files(folder, job)


def _close_stdin(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()


def _is_unfinished(folder: Path, job: Job) -> bool:
    """Whether a job must run; deletes the record of a failure and files of a killed process."""
    result = read_result(folder, job)
    if result is not None and "error" in result:
        (folder / f"{job.name}.json").unlink()
        return True
    if result is not None:
        _delete_files(folder, job)
    return result is None


def _start(data: str, folder: Path, job: Job) -> subprocess.Popen[bytes]:
    task = folder / f"{job.name}.task.json"
    write_record(task, {"data": data, "arm": job.arm, "split": job.split, "probes": job.probes,
                        "config": dataclasses.asdict(job.config)})  # fmt: skip
    worker = [sys.executable, "-m", "snm.compare.worker", str(task)]
    return spawn_tied(worker, folder / f"{job.name}.stderr")


def _record_end(folder: Path, job: Job, status: int) -> None:
    """Records why a worker failed; if it succeeded, deletes the other files of its job."""
    if read_result(folder, job) is not None:
        _delete_files(folder, job)
        return
    reason = failure_reason(folder / f"{job.name}.stderr", status)
    write_record(folder / f"{job.name}.json", {"arm": job.arm, "error": reason})


def _delete_files(folder: Path, job: Job) -> None:
    """Deletes all files of a job except its result."""
    for suffix in ("stderr", "task.json", "steps", "lock"):
        (folder / f"{job.name}.{suffix}").unlink(missing_ok=True)
    shutil.rmtree(folder / job.name, ignore_errors=True)


def _steps(folder: Path, job: Job) -> tuple[int, int]:
    """Steps done and steps in total, as last written by the worker; zeros before that."""
    try:
        done, total = (folder / f"{job.name}.steps").read_text().split()
        return int(done), int(total)
    except (OSError, ValueError):
        return 0, 0

"""Starts the processes of a comparison, ends them with their parent, and says why one failed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from snm.errors import StoppedError

__all__ = ["end_with_parent", "failure_reason", "run_tied", "spawn_tied"]

_POLL_SECONDS = 0.25
_LATER_SECONDS = 1.0  # in which this process hears a signal that has ended another already


def spawn_tied(command: Sequence[str], errors: Path, **environment: str) -> subprocess.Popen[bytes]:
    """Starts a program that can notice the end of this process, in a session of its own.

    Args:
      command: the program and its arguments. Its standard input is a pipe that closes when this
        process ends for any reason.
      errors: file for its standard error.
      **environment: variables to set for it.
    """
    with errors.open("wb") as stderr:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,  # Ctrl-C reaches this process only, which stops the others
            env={**os.environ, **environment},
        )


def run_tied(
    command: Sequence[str],
    errors: Path,
    stop: Callable[[], bool] = lambda: False,
    **environment: str,
) -> str | None:
    """Runs a program to its end.

    Args:
      command: as in `spawn_tied`.
      errors: file for its standard error, which is removed.
      stop: asked several times a second whether to kill the program, with those it started; and
        asked once more if it fails, for a second if SIGTERM or SIGINT ended it.
      **environment: variables to set for it.

    Returns:
      None if its exit status is 0, else the reason in one line: the last one of its errors.

    Raises:
      StoppedError: `stop` returned True.
    """
    try:
        with spawn_tied(command, errors, **environment) as process:
            try:
                status = _exit_status(process, stop)
            except BaseException:
                with contextlib.suppress(ProcessLookupError, PermissionError):  # it has ended
                    os.killpg(process.pid, signal.SIGKILL)
                raise
        return failure_reason(errors, status) if status else None
    finally:
        errors.unlink(missing_ok=True)


def _exit_status(process: subprocess.Popen[bytes], stop: Callable[[], bool]) -> int:
    """The exit status of a process, unless `stop` says so before, or when it failed."""
    while True:
        status = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = process.wait(_POLL_SECONDS)
        if status == 0:
            return 0
        # First: what stops this process may have ended that one too, even a moment before.
        may_follow = status in (-signal.SIGTERM, -signal.SIGINT)
        if _is_soon_true(stop, _LATER_SECONDS if may_follow else 0):
            raise StoppedError(kept="all runs finished, and peers so far")
        if status is not None:
            return status


def _is_soon_true(asked: Callable[[], bool], seconds: float) -> bool:
    """Whether a function returns True, now or within so many seconds."""
    end = time.monotonic() + seconds
    while not (found := asked()) and time.monotonic() < end:
        time.sleep(0.01)
    return found


def end_with_parent() -> None:
    """Ends this process, with status 3, when its standard input (a pipe from the parent) closes.

    If it leads a session, the processes that it started are killed too: no signal of the terminal
    would reach them.
    """
    threading.Thread(target=_end_with_input, daemon=True).start()


def _end_with_input() -> None:
    # Not through `sys.stdin`: a thread that waits there would abort the exit of the process.
    while os.read(0, 4096):
        pass
    if os.getsid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(3)


def failure_reason(errors: Path, status: int) -> str:
    """A one-line reason why a process failed.

    Args:
      errors: file of its standard error; the reason is the last line.
      status: as in `subprocess`: below 0, minus the signal that ended it.
    """
    if status < 0:
        reason = f"ended by {signal.Signals(-status).name}"
        hint = ", often because of too little memory"
        return reason + (hint if status == -signal.SIGKILL else "")
    lines = [line for line in errors.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1].removeprefix("snm: error: ") if lines else f"exit status {status}"

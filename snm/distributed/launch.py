"""Connects the processes of a run, detects dead ones, and disconnects; imports JAX only if needed.

The processes connect to a coordinator in process 0. JAX's runtime monitors them: if a process stops
responding or the coordinator is gone, it ends all other processes by `abort`. This module turns the
abort into one error line and the exit status `EXIT_PEER_GONE`, without waiting for the other
processes.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

from snm.errors import InputError, flag_of
from snm.text import first_line

__all__ = ["EXIT_PEER_GONE", "ProcessOptions", "leave", "process_group"]

EXIT_PEER_GONE = 69
"""Exit status if another process of the run is gone: EX_UNAVAILABLE of sysexits.h."""

_LEAVE_SECONDS = 15  # to wait for the other processes to finish as well
_MAX_PRINT_SECONDS = 5  # to write the error line
_LAUNCHERS = ("SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE")


@dataclasses.dataclass(frozen=True)
class ProcessOptions:
    """How the processes of a run connect; JAX detects what is None (SLURM, Open MPI, GKE)."""

    coordinator: str | None = None
    """Address of process 0, for runs of several processes; SLURM, Open MPI and GKE set it."""
    num_processes: int | None = None
    """Number of processes of the run; 1 trains alone, even under a launcher."""
    process_id: int | None = None
    """Index of this process, from 0."""
    peer_timeout: int = 30
    """Seconds after which a process that does not respond ends the run."""

    def check(self, launched: bool) -> None:
        """Raises InputError for an invalid address, number or combination of options."""
        if self.coordinator is not None:
            host, _, port = self.coordinator.rpartition(":")
            if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
                raise InputError("--coordinator", repr(self.coordinator), "HOST:PORT of process 0")
        if self.peer_timeout < 1:
            raise InputError("--peer-timeout", f"{self.peer_timeout}", "1 second or more")
        count, number = self.num_processes, self.process_id
        if count is not None and count < 1:
            raise InputError("--num-processes", f"{count}", "1 or more")
        if number is not None and (number < 0 or (count is not None and number >= count)):
            last = "from 0" if count is None else f"0 to {count - 1}"
            raise InputError("--process-id", f"{number}", last)
        names = ("coordinator", "num_processes", "process_id")
        missing = [name for name in names if getattr(self, name) is None]
        if missing and not launched:
            flags = ", ".join(map(flag_of, missing))
            expected = "all of --coordinator, --num-processes and --process-id, or a launcher"
            found = "nothing, and no launcher (SLURM, Open MPI, GKE)"
            raise InputError(flags, found, expected)


def launched(environment: Mapping[str, str]) -> bool:
    """Whether a launcher that JAX supports started this process as one of several.

    Example:
      >>> launched({"SLURM_STEP_NUM_TASKS": "2"}), launched({"SLURM_NTASKS": "2"})
      (True, False)
    """
    # Not SLURM_NTASKS: it is also set in a batch script, which is a single process.
    if any(environment.get(name, "1") not in ("", "1") for name in _LAUNCHERS):
        return True
    if "KUBERNETES_SERVICE_HOST" in environment and "JOB_COMPLETION_INDEX" in environment:
        return True
    return "," in environment.get("TPU_WORKER_HOSTNAMES", "")


@dataclasses.dataclass
class _Membership:
    """What `leave` and the handler of SIGABRT know of this process.

    Attributes:
      joined: whether it is connected to the others.
      status: its exit status, once it leaves.
      line: the error line of an abort.
      handler: of SIGABRT, which must stay alive.
    """

    joined: bool = False
    status: int | None = None
    line: str = ""
    handler: Any = None


_own = _Membership()


@contextlib.contextmanager
def process_group(asked: ProcessOptions) -> Iterator[None]:
    """Connects to the other processes, if there are any; call `leave` before the process exits.

    Raises:
      InputError: the options are inconsistent, or JAX cannot use them.
    """
    options = (asked.coordinator, asked.num_processes, asked.process_id)
    by_launcher = launched(os.environ)
    if asked.num_processes == 1 or (not by_launcher and options == (None, None, None)):
        yield
        return
    asked.check(by_launcher)
    import jax

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.config.update("jax_enable_preemption_service", False)  # snm.system.signals handles them
    where = asked.coordinator or "the coordinator that the launcher names"
    _own.line = f"could not connect to {where} (see JAX's message above)"
    _handle_abort()
    try:
        jax.distributed.initialize(
            asked.coordinator,
            asked.num_processes,
            asked.process_id,
            heartbeat_timeout_seconds=asked.peer_timeout,
            shutdown_timeout_seconds=_LEAVE_SECONDS,
        )
    except (ValueError, RuntimeError) as error:
        expected = "a reachable coordinator, or --num-processes 1 for a single process"
        raise InputError("--coordinator", first_line(error), expected) from error
    _own.joined = True
    _own.line = (
        "another process of this run is gone (JAX names it above); "
        "run the same command on all processes to continue from the last checkpoint"
    )
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        # A collective may fail before the runtime detects a dead process: give it time to abort.
        if jax.process_count() > 1 and "RESOURCE_EXHAUSTED" not in str(error):
            time.sleep(asked.peer_timeout + _MAX_PRINT_SECONDS)
        raise


def leave(status: int) -> None:
    """Disconnects from the other processes; waits for them at most `_LEAVE_SECONDS`.

    Args:
      status: the exit status of this process.
    """
    if not _own.joined:
        return
    import jax

    _own.status = status
    sys.stdout.flush()
    sys.stderr.flush()
    if status:  # the error line is written: keep it the last one, whatever the runtime logs
        with open(os.devnull, "w") as devnull:  # noqa: PTH123
            os.dup2(devnull.fileno(), 2)
    jax.distributed.shutdown()  # aborts if the other processes do not shut down
    _own.joined = False


def _handle_abort() -> None:
    """Makes SIGABRT, by which JAX's runtime ends a process, print the error line and exit."""
    libc = ctypes.CDLL(None)
    default = ctypes.c_void_p(0)  # SIG_DFL

    def aborted(number: int) -> None:
        # A handler of Python's signal module would wait for the main thread, which is blocked in a
        # collective.
        libc.alarm(_MAX_PRINT_SECONDS)
        libc.signal(number, default)
        if _own.status is not None:
            os._exit(_own.status)
        if os.isatty(1):
            os.write(1, b"\x1b[?25h")  # the progress bar hides the cursor
        os.write(2, f"snm: error: {_own.line}\n".encode())
        os._exit(EXIT_PEER_GONE)

    handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(aborted)
    _own.handler = handler  # keeps the callback alive
    libc.signal(int(signal.SIGABRT), handler)

"""Joining the other processes of a run, hearing of a dead one, and taking leave; without jax.

The processes meet at a coordinator, which is part of process 0. JAX's runtime watches over them: a
process that it hears nothing of, or a coordinator that is gone, ends all the others by `abort`.
That ends here in a line and a status of its own, and waits for nobody.
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

from snm.errors import InputError

__all__ = ["GONE", "Meeting", "joined", "leave"]

GONE = 69
"""Exit status where another process of the run is gone: EX_UNAVAILABLE of sysexits.h."""

_LEAVE_SECONDS = 15  # for the others to come to the same end; after that it is theirs to say why
_MOST_SECONDS = 5  # that the last words may take
_LAUNCHERS = ("SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE")


@dataclasses.dataclass(frozen=True)
class Meeting:
    """Where the processes of a run meet; what is None is found by JAX (SLURM, Open MPI, GKE).

    Attributes:
      coordinator: `HOST:PORT` of process 0.
      num_processes: how many there are; 1 joins nobody, whatever the launcher says.
      process_id: of this one, from 0.
      timeout: seconds without a word after which a process counts as dead.
    """

    coordinator: str | None = None
    num_processes: int | None = None
    process_id: int | None = None
    timeout: int = 30

    def check(self, launched: bool) -> None:
        """Raises InputError for an address, a number or a combination that cannot be."""
        if self.coordinator is not None:
            host, _, port = self.coordinator.rpartition(":")
            if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
                raise InputError("--coordinator", repr(self.coordinator), "HOST:PORT of process 0")
        if self.timeout < 1:
            raise InputError("--peer-timeout", f"{self.timeout}", "1 second or more")
        count, number = self.num_processes, self.process_id
        if count is not None and count < 1:
            raise InputError("--num-processes", f"{count}", "1 or more")
        if number is not None and (number < 0 or (count is not None and number >= count)):
            last = "from 0" if count is None else f"0 to {count - 1}"
            raise InputError("--process-id", f"{number}", last)
        names = ("coordinator", "num_processes", "process_id")
        missing = [name for name in names if getattr(self, name) is None]
        if missing and not launched:
            flags = ", ".join(f"--{name.replace('_', '-')}" for name in missing)
            expected = "all of --coordinator, --num-processes and --process-id, or a launcher"
            raise InputError(flags, "nothing, and no SLURM, Open MPI or GKE to tell", expected)


def launched(environment: Mapping[str, str]) -> bool:
    """Whether a launcher says that this process is one of several, in words that JAX knows too.

    Example:
      >>> launched({"SLURM_STEP_NUM_TASKS": "2"}), launched({"SLURM_NTASKS": "2"})
      (True, False)
    """
    # SLURM_NTASKS is set in a batch script as well, which is one process only.
    if any(environment.get(name, "1") not in ("", "1") for name in _LAUNCHERS):
        return True
    if "KUBERNETES_SERVICE_HOST" in environment and "JOB_COMPLETION_INDEX" in environment:
        return True
    return "," in environment.get("TPU_WORKER_HOSTNAMES", "")


_ending: dict[str, Any] = {"joined": False, "status": None, "line": ""}


@contextlib.contextmanager
def joined(meeting: Meeting) -> Iterator[None]:
    """Joins the other processes, where there are any; `leave` ends what begins here.

    Raises:
      InputError: options that do not fit each other, or that JAX cannot use.
    """
    by_hand = (meeting.coordinator, meeting.num_processes, meeting.process_id)
    by_launcher = launched(os.environ)
    if meeting.num_processes == 1 or (not by_launcher and by_hand == (None, None, None)):
        yield
        return
    meeting.check(by_launcher)
    import jax

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.config.update("jax_enable_preemption_service", False)  # signals are ours
    where = meeting.coordinator or "the coordinator that the launcher names"
    _ending["line"] = f"{where} could not be joined (JAX says why above)"
    _hear_of_abort()
    try:
        jax.distributed.initialize(
            meeting.coordinator,
            meeting.num_processes,
            meeting.process_id,
            heartbeat_timeout_seconds=meeting.timeout,
            shutdown_timeout_seconds=_LEAVE_SECONDS,
        )
    except (ValueError, RuntimeError) as error:
        found = str(error).strip().splitlines()[0]
        expected = "processes that can meet, or --num-processes 1 to train alone"
        raise InputError("--coordinator", found, expected) from error
    _ending["joined"] = True
    _ending["line"] = (
        "another process of this run is gone (JAX names it above); "
        "the same command for all goes on from the last checkpoint"
    )
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        # A collective may find out before the runtime does, whose word decides what it was.
        if jax.process_count() > 1 and "RESOURCE_EXHAUSTED" not in str(error):
            time.sleep(meeting.timeout + _MOST_SECONDS)
        raise


def leave(status: int) -> None:
    """Ends with the other processes: waits a little for them, and then no longer.

    Args:
      status: what this process will exit with.
    """
    if not _ending["joined"]:
        return
    import jax

    _ending["status"] = status
    sys.stdout.flush()
    sys.stderr.flush()
    if status:  # its reason was told, and stays the last line whatever the runtime has to say
        with open(os.devnull, "w") as nowhere:  # noqa: PTH123
            os.dup2(nowhere.fileno(), 2)
    jax.distributed.shutdown()  # where the others do not come, it aborts
    _ending["joined"] = False


def _hear_of_abort() -> None:
    """From now on `abort`, which is how JAX's runtime ends a process, ends in our words."""
    libc = ctypes.CDLL(None)
    plain = ctypes.c_void_p(0)  # SIG_DFL

    def aborted(number: int) -> None:
        # Python's own handlers would wait for the main thread, which waits for the dead.
        libc.alarm(_MOST_SECONDS)
        libc.signal(number, plain)
        if _ending["status"] is not None:
            os._exit(_ending["status"])
        if os.isatty(1):
            os.write(1, b"\x1b[?25h")  # the progress bar hides the cursor
        os.write(2, f"snm: error: {_ending['line']}\n".encode())
        os._exit(GONE)

    handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(aborted)
    _ending["handler"] = handler  # which must outlive this call
    libc.signal(int(signal.SIGABRT), handler)

"""Several processes that answer on one socket: started, renewed, replaced when they end, stopped.

Each maps the same files, so all of them hold one copy of a model. They are spawned, as JAX has
threads, which a fork would leave out.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from typing import Any

from prometheus_client.multiprocess import mark_process_dead

from snm.errors import InputError
from snm.serve.renewal import Renewal
from snm.system.faults import NO_ROOM, lacks_memory
from snm.system.signals import SIGNALS

__all__ = ["Work", "supervise"]

Work = Callable[[socket.socket, Callable[[], None]], None]
"""Answers on a socket until SIGTERM; can be pickled.

It calls the function once it answers, and, after each SIGHUP since, once it answers anew.
"""

_METRICS = "PROMETHEUS_MULTIPROC_DIR"  # where processes of one service keep their counts
_LOOK = 0.2  # seconds
_PAUSE = 1.0  # seconds until another try, where a process ended before it answered


def supervise(
    work: Work,
    count: int,
    listening: socket.socket,
    *,
    grace: float,
    on_ready: Callable[[int], None],
    on_end: Callable[[int, int | None], None],
    renewal: Renewal[Work] | None = None,
) -> None:
    """Answers with several processes until SIGINT or SIGTERM; open requests are finished then.

    The first starts alone, and keeps the programs that it compiles for the others.

    Args:
      work: what a process does.
      count: of processes.
      listening: the socket that all of them accept connections of.
      grace: seconds that open requests have to finish.
      on_ready: called when a process answers for the first time, with the number of those that do.
      on_end: called when a process ended by itself, with its id and status; another replaces it.
      renewal: when the processes get SIGHUP, and what those do that are started from then on; None
        is never.

    Raises:
      InputError: a process ended before it answered, and no other answers.
    """
    workers: list[_Worker] = []
    with _signalled() as stopped, _common_metrics() as metrics:
        renewing = False
        try:
            while not stopped.is_set():
                ready = sum(one.ready for one in workers)
                if renewal is not None and renewal.wished.is_set() and ready and not renewing:
                    work, renewing = _renewed(renewal, work)
                for one in workers:
                    one.renew(work)
                while len(workers) < (count if ready else 1):
                    workers.append(_Worker(work, listening))
                _wait(workers)
                for one in workers:
                    if one.newly_ready():
                        on_ready(sum(one.ready for one in workers))
                for one in [one for one in workers if not one.process.is_alive()]:
                    number, status = one.process.pid or 0, one.process.exitcode
                    workers.remove(one)
                    mark_process_dead(number, metrics)  # its sums stay
                    if stopped.is_set():
                        break
                    if not any(other.ready for other in (one, *workers)):
                        found = f"a process that ended with status {status}"
                        raise InputError("--workers", found, "one that starts to answer")
                    on_end(number, status)
                    stopped.wait(0 if one.ready else _PAUSE)
                if renewal is not None and renewing and len(workers) == count:
                    renewing = not all(one.answers is work for one in workers)
                    if not renewing:
                        renewal.on_renewed()
        finally:
            _stop(workers, grace)


def _renewed(renewal: Renewal[Work], work: Work) -> tuple[Work, bool]:
    """What processes do from now on, and whether that is new."""
    renewal.wished.clear()  # before it is opened: what is written later is another wish
    try:
        return renewal.open(), True
    except Exception as error:
        renewal.on_kept(error)
        return work, False


class _Worker:
    """A process, and what it answers with.

    Attributes:
      process: started here.
      messages: from it.
      work: that it was asked to do last.
      answers: the work that it answers with; None until it does.
    """

    def __init__(self, work: Work, listening: socket.socket):
        spawn = multiprocessing.get_context("spawn")
        self.messages, tell = spawn.Pipe(duplex=False)
        self.work = work
        self.answers: Work | None = None
        self.process: BaseProcess = spawn.Process(
            target=_work, args=(work, listening, tell), name="snm-worker"
        )
        self.process.start()
        tell.close()

    @property
    def ready(self) -> bool:
        """Whether it has answered."""
        return self.answers is not None

    def newly_ready(self) -> bool:
        """Hears what it says, and returns whether that is for the first time."""
        first = not self.ready
        with contextlib.suppress(EOFError):
            if self.messages.poll() and self.messages.recv():
                self.answers = self.work
        return first and self.ready

    def renew(self, work: Work) -> None:
        """Asks for other work, once; before it answers, it could not hear of it."""
        if self.ready and self.work is not work:
            self.work = work
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid or 0, signal.SIGHUP)


def _wait(workers: list[_Worker]) -> None:
    """Until a process says something or ends, or a while has passed."""
    sentinels = [one.process.sentinel for one in workers]
    connection.wait([*sentinels, *(one.messages for one in workers)], _LOOK)


def _work(work: Work, listening: socket.socket, tell: Any) -> None:
    # Ctrl-C signals the whole group; until this process has its own handlers, the parent decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as a terminal that closes
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        connection.wait([parent.sentinel])  # killed, so that nobody stops this process
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=follow, daemon=True).start()
    try:
        with listening:
            work(listening, lambda: tell.send(True))
    except InputError as error:
        print(f"snm: error: {error.as_flags}", file=sys.stderr)
        raise SystemExit(2) from None
    except Exception as error:
        if not lacks_memory(error):
            raise
        print(f"snm: error: {NO_ROOM}", file=sys.stderr, flush=True)
        os._exit(1)  # at once: threads may wait for others, which could not start


def _stop(workers: list[_Worker], grace: float) -> None:
    for one in workers:
        one.process.terminate()
    end = time.monotonic() + grace + 5
    for one in workers:
        one.process.join(max(end - time.monotonic(), 0))
        if one.process.is_alive():
            one.process.kill()
            one.process.join()


@contextlib.contextmanager
def _signalled() -> Iterator[threading.Event]:
    """Set by a signal, instead of what the signal did before."""
    found = threading.Event()
    before = {number: signal.signal(number, lambda *_: found.set()) for number in SIGNALS}
    try:
        yield found
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _common_metrics() -> Iterator[str]:
    """A folder where the processes started within keep their counts, for each of them to add up."""
    with tempfile.TemporaryDirectory(prefix="snm-metrics-") as folder:
        os.environ[_METRICS] = folder
        try:
            yield folder
        finally:
            del os.environ[_METRICS]

"""Several processes that answer on one socket: started, renewed, replaced when they end, stopped.

Each maps the same files, so all of them hold one copy of a model. They are spawned, as JAX has
threads, which a fork would leave out.
"""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from typing import Any, Generic, TypeVar

from prometheus_client.multiprocess import mark_process_dead

from snm.errors import InputError
from snm.serve.aside import aside, busy
from snm.serve.renewal import Renewal, unheard, why_kept
from snm.system.faults import is_out_of_memory
from snm.system.signals import SIGNALS

__all__ = ["Talk", "Work", "supervise"]

Model = TypeVar("Model")


@dataclasses.dataclass(frozen=True)
class Talk(Generic[Model]):
    """Of a process with the one that started it.

    Attributes:
      newest: the model that it is to answer with: where it is, as it was sent.
      wished: set when there is another.
      ready: to be called once it answers, and whenever it answers with another.
    """

    newest: Callable[[], Model]
    wished: threading.Event
    ready: Callable[[], None]


Work = Callable[[socket.socket, Talk[Model]], None]
"""Answers on a socket until SIGTERM; can be pickled."""

_METRICS = "PROMETHEUS_MULTIPROC_DIR"  # where processes of one service keep their counts
_LOOK = 0.2  # seconds
_PAUSE = 1.0  # seconds until another try, where a process ended before it answered


def supervise(
    work: Work[Model],
    model: Model,
    count: int,
    listening: socket.socket,
    *,
    grace: float,
    on_ready: Callable[[int], None],
    on_end: Callable[[int, int | None], None],
    renewal: Renewal[Model] | None = None,
) -> None:
    """Answers with several processes until SIGINT or SIGTERM; open requests are finished then.

    The first starts alone, and keeps the programs that it compiles for the others.

    Args:
      work: what a process does.
      model: what it answers with to begin with: where that is, which can be pickled.
      count: of processes.
      listening: the socket that all of them accept connections of.
      grace: seconds that open requests have to finish.
      on_ready: called when a process answers for the first time, with the number of those that do.
      on_end: called when a process ended by itself, with its id and status; another replaces it.
      renewal: when the processes are to answer with another model, and where that is, as an object
        of its own; None is never.

    Raises:
      InputError: a process ended before it answered, and no other answers.
    """
    workers: list[_Worker[Model]] = []
    wanted = _Wanted(model, renewal)
    with _signalled() as stopped, _common_metrics() as metrics:
        try:
            while not stopped.is_set():
                ready = any(one.ready for one in workers)
                if ready:
                    wanted.look()
                for one in workers:
                    one.renew(wanted.model)
                while len(workers) < (count if ready else 1):
                    workers.append(_Worker(work, wanted.model, listening))
                _wait(workers)
                for one in workers:
                    if one.newly_ready():
                        with unheard():
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
                    with unheard():
                        on_end(number, status)
                    stopped.wait(0 if one.ready else _PAUSE)
                if len(workers) == count and all(one.answers is wanted.model for one in workers):
                    wanted.answers()
        finally:
            _stop(workers, grace)


class _Wanted(Generic[Model]):
    """The model that all processes are to answer with.

    Another is opened here first, to say what is wrong; meanwhile processes are replaced, and the
    service can be stopped.
    """

    def __init__(self, model: Model, renewal: Renewal[Model] | None):
        self.model, self._renewal = model, renewal
        self._opening: Future[Model] | None = None
        self._untold = False  # that all answer with it

    def look(self) -> None:
        """Begins to open another model if that is wished, or takes it if it is open."""
        renewal = self._renewal
        if renewal is None:
            return
        if self._opening is None and not self._untold and renewal.wished.is_set():
            renewal.wished.clear()  # before it is opened: what is written later is another wish
            self._opening = aside(renewal.open)
        if self._opening is not None and self._opening.done():
            opened, self._opening = self._opening, None
            try:
                self.model, self._untold = opened.result(), True
            except Exception as error:
                with unheard():
                    renewal.on_kept(error)

    def answers(self) -> None:
        """Tells, once, that all answer with it."""
        if self._untold and self._renewal is not None:
            self._untold = False
            with unheard():
                self._renewal.on_renewed()


class _Worker(Generic[Model]):
    """A process, and what it answers with.

    Attributes:
      process: started here.
      messages: from it, and to it.
      model: that it was asked to answer with last.
      answers: the model that it answers with; None until it does.
      ready: whether it has answered.
    """

    def __init__(self, work: Work[Model], model: Model, listening: socket.socket):
        spawn = multiprocessing.get_context("spawn")
        self.messages, other = spawn.Pipe()
        self.model = model
        self.answers: Model | None = None
        self.ready = False
        self.process: BaseProcess = spawn.Process(
            target=_work, args=(work, model, listening, other), name="snm-worker"
        )
        self.process.start()
        other.close()

    def newly_ready(self) -> bool:
        """Hears what it says, and returns whether that is for the first time."""
        before = self.ready
        with contextlib.suppress(EOFError, OSError):  # it has ended
            if self.messages.poll() and self.messages.recv():
                self.answers, self.ready = self.model, True
        return self.ready and not before

    def renew(self, model: Model) -> None:
        """Asks for another model, once; it tells of one before it is asked for the next."""
        if self.ready and self.answers is self.model is not model:
            self.model = model
            with contextlib.suppress(OSError):  # it has ended
                self.messages.send(model)


def _wait(workers: list[_Worker[Any]]) -> None:
    """Until a process says something or ends, or a while has passed."""
    sentinels = [one.process.sentinel for one in workers]
    connection.wait([*sentinels, *(one.messages for one in workers)], _LOOK)


def _work(
    work: Work[Model], model: Model, listening: socket.socket, parent: connection.Connection
) -> None:
    # Ctrl-C signals the whole group; until this process has its own handlers, the parent decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the parent hears it, and sends what follows
    newest, wished = model, threading.Event()

    def follow() -> None:
        nonlocal newest
        with contextlib.suppress(EOFError, OSError):
            while True:
                newest = parent.recv()
                wished.set()
        os.kill(os.getpid(), signal.SIGTERM)  # it was killed, so that nobody stops this process

    threading.Thread(target=follow, daemon=True).start()
    try:
        with listening:
            work(listening, Talk(lambda: newest, wished, lambda: parent.send(True)))
    except Exception as error:
        if not isinstance(error, InputError) and not is_out_of_memory(error):
            raise
        print(f"snm: error: {why_kept(error)}", file=sys.stderr, flush=True)
        if isinstance(error, InputError):
            raise SystemExit(2) from None
        os._exit(1)  # at once: threads may wait for others, which could not start
    if busy():
        os._exit(0)  # a model that is being opened is not waited for


def _stop(workers: list[_Worker[Any]], grace: float) -> None:
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

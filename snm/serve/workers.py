"""Several processes that serve on one socket: started, reloaded, replaced when they die, stopped.

Each maps the same files, so that all of them share one copy of a model in memory. They are spawned,
not forked, because JAX has threads.
"""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import os
import signal
import socket
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
from snm.serve.background import run_in_background
from snm.serve.reloading import Reload, ignore_output_errors, why_not_opened
from snm.system.faults import is_out_of_memory
from snm.system.signals import SIGNALS, SignalEvent, signal_handlers
from snm.system.streams import exit_at_once, print_error

__all__ = ["WorkerContext", "supervise"]

Model = TypeVar("Model")


@dataclasses.dataclass(frozen=True)
class WorkerContext(Generic[Model]):
    """How a worker communicates with the process that started it.

    Attributes:
      newest_model: returns the model to serve: its location, as the parent sent it.
      reload_requested: set when the parent sends another model.
      on_ready: to be called when the worker serves, and each time that it serves another model.
    """

    newest_model: Callable[[], Model]
    reload_requested: threading.Event
    on_ready: Callable[[], None]


WorkerMain = Callable[[socket.socket, WorkerContext[Model]], None]
"""The function of a worker: serves on a socket until SIGTERM; can be pickled."""

_METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # read by prometheus_client
_POLL_SECONDS = 0.2
_RESTART_DELAY = 1.0  # seconds, after a process that ended before it served


def supervise(
    main: WorkerMain[Model],
    model: Model,
    count: int,
    listening: socket.socket,
    *,
    grace: float,
    on_ready: Callable[[int], None],
    on_end: Callable[[int, int | None], None],
    reload: Reload[Model],
) -> None:
    """Serves with several processes until SIGINT or SIGTERM; then finishes open requests.

    The first process starts alone: it fills the compilation cache for the others.

    Args:
      main: the function of a process.
      model: the location of the first model; can be pickled.
      count: number of processes.
      listening: the socket on which all of them accept connections; closed at the end.
      grace: seconds that open requests have to finish.
      on_ready: called when a process is ready for the first time, with the number of ready ones.
      on_end: called with the id and status of a process that died; another one replaces it.
      reload: when and how to reload the model; `open` returns the location of the new one, a new
        object each time.

    Raises:
      InputError: a process ended before it was ready, and no other is.
    """
    workers: list[_Worker[Model]] = []
    reloader = _ModelReloader(model, reload)
    with _stop_on_signal() as stopped, _shared_metrics() as metrics:
        try:
            while not stopped.is_set():
                ready = any(worker.ready for worker in workers)
                if ready:
                    reloader.poll()
                for worker in workers:
                    worker.switch_to(reloader.model)
                while len(workers) < (count if ready else 1):
                    workers.append(_Worker(main, reloader.model, listening))
                _wait(workers)
                # First: what a process sent before its end is in the pipe, and read below.
                ended = [worker for worker in workers if not worker.process.is_alive()]
                for worker in workers:
                    if worker.poll_ready():
                        with ignore_output_errors():
                            on_ready(sum(other.ready for other in workers))
                for worker in ended:
                    number, status = worker.process.pid or 0, worker.process.exitcode
                    workers.remove(worker)
                    mark_process_dead(number, metrics)  # keeps its counters
                    if stopped.is_set():
                        break
                    if not any(other.ready for other in (worker, *workers)):
                        found = f"a process that ended with status {status}"
                        raise InputError("--workers", found, "one that starts to answer")
                    with ignore_output_errors():
                        on_end(number, status)
                    stopped.wait(0 if worker.ready else _RESTART_DELAY)
                if len(workers) == count and all(
                    worker.serving is reloader.model for worker in workers
                ):
                    reloader.announce()
        finally:
            # Open here, it would hold new connections until the last worker has finished the old.
            listening.close()
            _stop(workers, grace)


class _ModelReloader(Generic[Model]):
    """The model that all processes should serve.

    This process opens a new model first, to report errors. It does so in the background: meanwhile
    dead workers are replaced, and the service can be stopped.

    Attributes:
      model: its location.
    """

    def __init__(self, model: Model, reload: Reload[Model]):
        self.model, self._reload = model, reload
        self._opening: Future[Model] | None = None
        self._unannounced = False  # whether `on_success` is still to be called

    def poll(self) -> None:
        """Starts to open a new model if a reload was requested; takes it once it is open."""
        reload = self._reload
        if self._opening is None and not self._unannounced and reload.requested.is_set():
            reload.requested.clear()  # before it is opened: what is written later is a new request
            self._opening = run_in_background(reload.open)
        if self._opening is not None and self._opening.done():
            opened, self._opening = self._opening, None
            try:
                self.model, self._unannounced = opened.result(), True
            except Exception as error:
                with ignore_output_errors():
                    reload.on_failure(error)

    def announce(self) -> None:
        """Calls `on_success`, once for each model; all workers serve it now."""
        if self._unannounced:
            self._unannounced = False
            with ignore_output_errors():
                self._reload.on_success()


class _Worker(Generic[Model]):
    """A process, and the model that it serves.

    Attributes:
      process: the process.
      messages: the pipe to it.
      model: the model that it was last told to serve.
      serving: the model that it serves; None until it is ready.
      ready: whether it has served any model.
    """

    def __init__(self, main: WorkerMain[Model], model: Model, listening: socket.socket):
        spawn = multiprocessing.get_context("spawn")
        self.messages, other = spawn.Pipe()
        self.model = model
        self.serving: Model | None = None
        self.ready = False
        self.process: BaseProcess = spawn.Process(
            target=_worker_main, args=(main, model, listening, other), name="snm-worker"
        )
        self.process.start()
        other.close()

    def poll_ready(self) -> bool:
        """Reads a message; returns whether the process became ready for the first time."""
        before = self.ready
        with contextlib.suppress(EOFError, OSError):  # it has ended
            if self.messages.poll() and self.messages.recv():
                self.serving, self.ready = self.model, True
        return self.ready and not before

    def switch_to(self, model: Model) -> None:
        """Sends another model, once, and only after the process serves the one before."""
        if self.ready and self.serving is self.model is not model:
            self.model = model
            with contextlib.suppress(OSError):  # it has ended
                self.messages.send(model)


def _wait(workers: list[_Worker[Any]]) -> None:
    """Waits until a process sends a message or ends, for at most `_POLL_SECONDS`."""
    sentinels = [worker.process.sentinel for worker in workers]
    connection.wait([*sentinels, *(worker.messages for worker in workers)], _POLL_SECONDS)


def _worker_main(
    main: WorkerMain[Model], model: Model, listening: socket.socket, parent: connection.Connection
) -> None:
    # Ctrl-C signals the whole group; until this process has its own handlers, the parent decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the parent handles it, and sends the new model
    newest_model, reload_requested = model, threading.Event()

    def receive_models() -> None:
        nonlocal newest_model
        with contextlib.suppress(EOFError, OSError):
            while True:
                newest_model = parent.recv()
                reload_requested.set()
        os.kill(os.getpid(), signal.SIGTERM)  # the parent died: nobody else would stop this process

    threading.Thread(target=receive_models, daemon=True).start()
    try:
        with listening:
            context = WorkerContext(
                lambda: newest_model, reload_requested, on_ready=lambda: parent.send(True)
            )
            main(listening, context)
    except Exception as error:
        if not isinstance(error, InputError) and not is_out_of_memory(error):
            raise
        print_error(why_not_opened(error))
        if isinstance(error, InputError):
            raise SystemExit(2) from None
        os._exit(1)  # at once: threads may wait for others, which could not start
    exit_at_once(0)


def _stop(workers: list[_Worker[Any]], grace: float) -> None:
    for worker in workers:
        worker.process.terminate()
    end = time.monotonic() + grace + 5
    for worker in workers:
        worker.process.join(max(end - time.monotonic(), 0))
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()


@contextlib.contextmanager
def _stop_on_signal() -> Iterator[SignalEvent]:
    """An event that signals set, instead of calling their previous handlers."""
    stopped = SignalEvent()
    with signal_handlers(lambda *_: stopped.set(), *SIGNALS):
        yield stopped


@contextlib.contextmanager
def _shared_metrics() -> Iterator[str]:
    """A folder in which the processes started within it share their metrics."""
    with tempfile.TemporaryDirectory(prefix="snm-metrics-") as folder:
        os.environ[_METRICS_FOLDER] = folder
        try:
            yield folder
        finally:
            del os.environ[_METRICS_FOLDER]

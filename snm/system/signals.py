"""Signal handlers: SIGTERM and SIGINT request an orderly stop, SIGHUP requests a reload."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from snm.system.streams import print_note

__all__ = [
    "SIGNALS",
    "SignalEvent",
    "announced_stop",
    "reload_requested",
    "signal_handlers",
    "sigterm_ends_process_1",
    "sigterm_exits",
    "sigterm_raises_exit",
    "stop_requested",
]

SIGNALS = (signal.SIGTERM, signal.SIGINT)

_DEBOUNCE_SECONDS = 1.0  # in which a repeated signal does not count
_POLL_SECONDS = 0.1


class SignalEvent:
    """An event that a signal handler sets.

    Python runs handlers between two instructions of the main thread. If these are within a method
    of a `threading.Event`, a handler that sets it waits forever for the lock that its own thread
    holds.
    """

    def __init__(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        """Whether it was set, and not cleared since."""
        return self._is_set

    def set(self) -> None:
        """Sets it."""
        self._is_set = True

    def clear(self) -> None:
        """Unsets it."""
        self._is_set = False

    def wait(self, seconds: float) -> bool:
        """Waits until it is set, at most so many seconds; returns whether it is set."""
        end = time.monotonic() + seconds
        while not self._is_set and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, _POLL_SECONDS))
        return self._is_set


@contextlib.contextmanager
def stop_requested(
    on_first: Callable[[signal.Signals], None], on_second: Callable[[], None]
) -> Iterator[Callable[[], bool]]:
    """Within the block, remembers the first of `SIGNALS` and ends the process at the second.

    Python runs its signal handlers only when the main thread returns from compiled code, which can
    take minutes. So a separate thread receives the signals as they arrive.

    A signal of the same kind within a second counts as the same one: `timeout` signals its child,
    and then the child's process group.

    Args:
      on_first: called with the first signal, in that thread.
      on_second: called at the second signal, before the process exits with status 128 + its number.

    Yields:
      A function that tells whether a signal has arrived. Outside the main thread, where Python
      cannot set handlers, signals keep their handlers and the function returns False.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    requested, first, since = threading.Event(), 0, 0.0

    def on_signal(number: int) -> None:
        nonlocal first, since
        if requested.is_set():
            if number == first and time.monotonic() - since < _DEBOUNCE_SECONDS:
                return
            try:
                on_second()
            finally:
                os._exit(128 + number)
        first, since = number, time.monotonic()
        requested.set()
        with contextlib.suppress(Exception):  # such as a closed pipe
            on_first(signal.Signals(number))

    with _signal_thread(SIGNALS, on_signal):
        yield requested.is_set


@contextlib.contextmanager
def _signal_thread(
    numbers: tuple[signal.Signals, ...], on_signal: Callable[[int], None]
) -> Iterator[None]:
    """Within the block, a separate thread calls `on_signal` with signals as they arrive."""
    receiver, sender = socket.socketpair()
    sender.setblocking(False)

    def receive() -> None:
        while arrived := receiver.recv(16):
            for number in arrived:
                if number in numbers:
                    on_signal(number)

    thread = threading.Thread(target=receive, name="signals", daemon=True)
    thread.start()
    try:
        # Python writes to the wakeup descriptor only for signals that have a handler.
        descriptor = sender.fileno()
        with signal_handlers(_handled_by_thread, *numbers, wakeup_descriptor=descriptor):
            yield
    finally:
        sender.close()
        thread.join()
        receiver.close()


@contextlib.contextmanager
def signal_handlers(
    handler: Callable[[int, Any], None], *numbers: signal.Signals, wakeup_descriptor: int = -1
) -> Iterator[None]:
    """Within the block, signals have only this handler; threads of outer blocks do not get them.

    Args:
      handler: a Python signal handler, called in the main thread.
      *numbers: the signals.
      wakeup_descriptor: as in `signal.set_wakeup_fd`; -1 for none.
    """
    old = {number: signal.signal(number, handler) for number in numbers}
    old_descriptor = signal.set_wakeup_fd(wakeup_descriptor, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(old_descriptor)
        for number, before in old.items():
            signal.signal(number, before)


def _handled_by_thread(number: int, frame: object) -> None:
    """The Python handler of signals that a separate thread handles."""


@contextlib.contextmanager
def sigterm_exits(status: int, message: str | None = None) -> Iterator[None]:
    """Within the block, SIGTERM ends the process at once, also while compiled code runs.

    Has no effect outside the main thread.

    Args:
      status: the exit status.
      message: a line for standard error.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_signal(_: int) -> None:
        try:
            if message is not None:
                _print_message(message)
        finally:
            os._exit(status)

    with _signal_thread((signal.SIGTERM,), on_signal):
        yield


def sigterm_ends_process_1() -> contextlib.AbstractContextManager[None]:
    """Within the block, SIGTERM ends this process even if it is process 1, as in a container.

    The kernel does not deliver signals without a handler to process 1.
    """
    if os.getpid() != 1 or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return contextlib.nullcontext()
    return sigterm_exits(128 + signal.SIGTERM)


def _print_message(line: str) -> None:
    """Prints the effect of a signal, while another thread may draw a progress bar."""
    from snm.system.terminal import console

    with contextlib.suppress(SystemExit):  # by rich, if the pipe is closed
        console.show_cursor(True)  # the bar hides it
    print_note(line)


@contextlib.contextmanager
def announced_stop(begins: str, again: str) -> Iterator[Callable[[], bool]]:
    """As `stop_requested`, with messages on standard error.

    Args:
      begins: the effect of the first signal.
      again: the effect of running the same command after the second signal.
    """

    def first(signal: signal.Signals) -> None:
        print_note(f"{signal.name}: {begins}")

    def second() -> None:
        _print_message(f"error: stopped at once; the same command {again}")

    with stop_requested(first, second) as requested:
        yield requested


@contextlib.contextmanager
def sigterm_raises_exit() -> Iterator[None]:
    """Within the block, SIGTERM raises SystemExit(143), so that temporary files are removed.

    Does nothing if SIGTERM has a handler already, and outside the main thread.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    if not in_main_thread or before not in (signal.SIG_DFL, _handled_by_thread):
        yield
        return

    def exit_process(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    with signal_handlers(exit_process, signal.SIGTERM):
        yield


@contextlib.contextmanager
def reload_requested() -> Iterator[SignalEvent]:
    """Within the block, SIGHUP sets an event, by which servers reload.

    A closing terminal sends SIGHUP too. That is treated as SIGTERM, or ignored if SIGHUP was
    ignored before, as by `nohup`. If the terminal goes away without a signal, a later SIGHUP is a
    reload request, so a thread watches the terminal.

    Yields:
      The event; it is never set outside the main thread, where Python cannot set handlers.
    """
    requested, finished = SignalEvent(), threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield requested
        return
    before, closed_at = signal.getsignal(signal.SIGHUP), -math.inf

    def watch() -> None:
        nonlocal closed_at
        while _has_terminal():
            if finished.wait(_DEBOUNCE_SECONDS / 5):
                return
        closed_at = time.monotonic()

    def handle(*_: object) -> None:
        is_closing = thread.is_alive() and not _has_terminal()
        if not is_closing and time.monotonic() - closed_at > _DEBOUNCE_SECONDS:
            requested.set()
        elif before is not signal.SIG_IGN:
            signal.raise_signal(signal.SIGTERM)

    thread = threading.Thread(target=watch, name="terminal", daemon=True)
    if _has_terminal():
        thread.start()
    signal.signal(signal.SIGHUP, handle)
    try:
        yield requested
    finally:
        signal.signal(signal.SIGHUP, before)
        finished.set()


def _has_terminal() -> bool:
    with contextlib.suppress(OSError):
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
        return True
    return False

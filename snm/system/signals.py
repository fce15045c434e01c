"""What signals do: SIGTERM and SIGINT ask for an orderly stop, SIGHUP asks for something again."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

__all__ = [
    "SIGNALS",
    "asked_again",
    "ends_as_first",
    "ends_in_order",
    "handled",
    "sigterm_ends",
    "stop_told",
    "stop_wished",
]

SIGNALS = (signal.SIGTERM, signal.SIGINT)

_SAME = 1.0  # seconds in which a signal of the same kind is not a second one


@contextlib.contextmanager
def stop_wished(
    on_first: Callable[[signal.Signals], None], on_second: Callable[[], None]
) -> Iterator[Callable[[], bool]]:
    """Within the block, remembers the first of `SIGNALS` and ends the process at the second.

    Python runs its signal handlers only when the main thread returns from compiled code, which can
    take minutes. So a separate thread receives the signals as they arrive.

    One of the same kind within a second of the first counts as the same: `timeout` signals its
    child, and then the group that the child is in.

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
    wished, first, since = threading.Event(), 0, 0.0

    def hear(number: int) -> None:
        nonlocal first, since
        if wished.is_set():
            if number == first and time.monotonic() - since < _SAME:
                return
            try:
                on_second()
            finally:
                os._exit(128 + number)
        first, since = number, time.monotonic()
        wished.set()
        with contextlib.suppress(Exception):  # such as a pipe that nobody reads any more
            on_first(signal.Signals(number))

    with _heard(SIGNALS, hear):
        yield wished.is_set


@contextlib.contextmanager
def _heard(numbers: tuple[signal.Signals, ...], hear: Callable[[int], None]) -> Iterator[None]:
    """Within the block, `hear` is called with signals as they arrive, in a thread of its own."""
    receiver, sender = socket.socketpair()
    sender.setblocking(False)

    def receive() -> None:
        while arrived := receiver.recv(16):
            for number in arrived:
                if number in numbers:
                    hear(number)

    # Python writes to the wakeup descriptor only for signals that have a handler.
    old = {number: signal.signal(number, _heard_aside) for number in numbers}
    old_descriptor = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    thread = threading.Thread(target=receive, name="signals", daemon=True)
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(old_descriptor)
        for number, before in old.items():
            signal.signal(number, before)
        sender.close()
        thread.join()
        receiver.close()


@contextlib.contextmanager
def handled(handler: Callable[[int, Any], None], *numbers: signal.Signals) -> Iterator[None]:
    """Within the block, signals have this handler alone: no thread of a block around it hears them.

    Args:
      handler: Python's, called in the main thread.
      *numbers: of these signals.
    """
    before = {number: signal.signal(number, handler) for number in numbers}
    old_descriptor = signal.set_wakeup_fd(-1)
    try:
        yield
    finally:
        signal.set_wakeup_fd(old_descriptor)
        for number, old in before.items():
            signal.signal(number, old)


def _heard_aside(number: int, frame: object) -> None:
    """Python's handler of a signal that a thread hears."""


@contextlib.contextmanager
def sigterm_ends(status: int, told: str | None = None) -> Iterator[None]:
    """Within the block, SIGTERM ends the process at once, also while compiled code runs.

    Outside the main thread, nothing is changed.

    Args:
      status: that it exits with.
      told: a line for standard error.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def hear(_: int) -> None:
        try:
            if told is not None:
                _tell(told)
        finally:
            os._exit(status)

    with _heard((signal.SIGTERM,), hear):
        yield


def ends_as_first() -> contextlib.AbstractContextManager[None]:
    """Within it, SIGTERM ends this process also where it is the first one, as in a container.

    The kernel keeps signals without a handler from process 1, which would then go on.
    """
    if os.getpid() != 1 or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return contextlib.nullcontext()
    return sigterm_ends(128 + signal.SIGTERM)


def _tell(line: str) -> None:
    """Says what a signal did, while another thread may draw a bar."""
    from snm.system.terminal import console

    with contextlib.suppress(SystemExit):  # rich's, where nobody reads
        console.show_cursor(True)  # the bar hides it
    print(f"snm: {line}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def stop_told(begins: str, again: str) -> Iterator[Callable[[], bool]]:
    """As `stop_wished`, and says on standard error what each signal does.

    Args:
      begins: what the first one does.
      again: what the same command does after the second.
    """

    def first(signal: signal.Signals) -> None:
        print(f"snm: {signal.name}: {begins}", file=sys.stderr, flush=True)

    def second() -> None:
        _tell(f"error: stopped at once; the same command {again}")

    with stop_wished(first, second) as wished:
        yield wished


@contextlib.contextmanager
def ends_in_order() -> Iterator[None]:
    """Within the block, SIGTERM exits with status 143 as an exception, so that files are removed.

    Where SIGTERM has a handler already, and outside the main thread, nothing is changed.
    """
    mine = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    if not mine or before not in (signal.SIG_DFL, _heard_aside):
        yield
        return

    def leave(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    with handled(leave, signal.SIGTERM):
        yield


@contextlib.contextmanager
def asked_again() -> Iterator[threading.Event]:
    """Within the block, SIGHUP sets an event, as servers open files again at it.

    A terminal that closes sends SIGHUP too. That is a SIGTERM here, or nothing where SIGHUP was
    ignored before, as `nohup` has it. A process that its terminal left without a signal is asked as
    usual later on, so a thread looks when that is.

    Yields:
      The event; it is never set outside the main thread, where Python cannot set handlers.
    """
    asked, over = threading.Event(), threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before, closed_at = signal.getsignal(signal.SIGHUP), -math.inf

    def watch() -> None:
        nonlocal closed_at
        while _has_terminal():
            if over.wait(_SAME / 5):
                return
        closed_at = time.monotonic()

    def hear(*_: object) -> None:
        closes = thread.is_alive() and not _has_terminal()
        if not closes and time.monotonic() - closed_at > _SAME:
            asked.set()
        elif before is not signal.SIG_IGN:
            signal.raise_signal(signal.SIGTERM)

    thread = threading.Thread(target=watch, name="terminal", daemon=True)
    if _has_terminal():
        thread.start()
    signal.signal(signal.SIGHUP, hear)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGHUP, before)
        over.set()


def _has_terminal() -> bool:
    with contextlib.suppress(OSError):
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
        return True
    return False

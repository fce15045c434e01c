"""Signal handlers: SIGTERM and SIGINT request an orderly stop, SIGHUP requests a reload."""

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

__all__ = ["SIGNALS", "announced_stop", "reload_requested", "sigterm_raises_exit", "stop_requested"]

SIGNALS = (signal.SIGTERM, signal.SIGINT)

_DEBOUNCE_SECONDS = 1.0  # in which a repeated signal does not count


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
    requested = threading.Event()
    receiver, sender = socket.socketpair()
    sender.setblocking(False)

    def receive() -> None:
        first, since = 0, 0.0
        while numbers := receiver.recv(16):
            for number in numbers:
                if number not in SIGNALS:
                    continue
                if requested.is_set():
                    if number == first and time.monotonic() - since < _DEBOUNCE_SECONDS:
                        continue
                    try:
                        on_second()
                    finally:
                        os._exit(128 + number)
                first, since = number, time.monotonic()
                requested.set()
                with contextlib.suppress(Exception):  # such as a closed pipe
                    on_first(signal.Signals(number))

    # Python writes to the wakeup descriptor only for signals that have a handler.
    old = {number: signal.signal(number, lambda *_: None) for number in SIGNALS}
    old_descriptor = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    thread = threading.Thread(target=receive, name="signals", daemon=True)
    thread.start()
    try:
        yield requested.is_set
    finally:
        signal.set_wakeup_fd(old_descriptor)
        for number, handler in old.items():
            signal.signal(number, handler)
        sender.close()
        thread.join()
        receiver.close()


@contextlib.contextmanager
def announced_stop(begins: str, again: str) -> Iterator[Callable[[], bool]]:
    """As `stop_requested`, with messages on standard error.

    Args:
      begins: the effect of the first signal.
      again: the effect of running the same command after the second signal.
    """
    from snm.system.terminal import console

    def first(signal: signal.Signals) -> None:
        print(f"snm: {signal.name}: {begins}", file=sys.stderr, flush=True)

    def second() -> None:
        console.show_cursor(True)  # the progress bar hides it
        print(f"snm: error: stopped at once; the same command {again}", file=sys.stderr, flush=True)

    with stop_requested(first, second) as requested:
        yield requested


@contextlib.contextmanager
def sigterm_raises_exit() -> Iterator[None]:
    """Within the block, SIGTERM raises SystemExit(143), so that temporary files are removed.

    Does nothing if SIGTERM has a handler already, and outside the main thread.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def exit_process(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, exit_process)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextlib.contextmanager
def reload_requested() -> Iterator[threading.Event]:
    """Within the block, SIGHUP sets an event, by which servers reload.

    A closing terminal sends SIGHUP too. That is treated as SIGTERM, or ignored if SIGHUP was
    ignored before, as by `nohup`. If the terminal goes away without a signal, a later SIGHUP is a
    reload request, so a thread watches the terminal.

    Yields:
      The event; it is never set outside the main thread, where Python cannot set handlers.
    """
    requested, finished = threading.Event(), threading.Event()
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

"""What SIGTERM and SIGINT do: ask for an orderly stop, or end the process as an exception does."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator

__all__ = ["SIGNALS", "ends_in_order", "stop_wished"]

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
    wished = threading.Event()
    receiver, sender = socket.socketpair()
    sender.setblocking(False)

    def receive() -> None:
        first, since = 0, 0.0
        while numbers := receiver.recv(16):
            for number in numbers:
                if number not in SIGNALS:
                    continue
                if wished.is_set():
                    if number == first and time.monotonic() - since < _SAME:
                        continue
                    try:
                        on_second()
                    finally:
                        os._exit(128 + number)
                first, since = number, time.monotonic()
                wished.set()
                with contextlib.suppress(Exception):  # such as a pipe that nobody reads any more
                    on_first(signal.Signals(number))

    # Python writes to the wakeup descriptor only for signals that have a handler.
    old = {number: signal.signal(number, lambda *_: None) for number in SIGNALS}
    old_descriptor = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    thread = threading.Thread(target=receive, name="signals", daemon=True)
    thread.start()
    try:
        yield wished.is_set
    finally:
        signal.set_wakeup_fd(old_descriptor)
        for number, handler in old.items():
            signal.signal(number, handler)
        sender.close()
        thread.join()
        receiver.close()


@contextlib.contextmanager
def ends_in_order() -> Iterator[None]:
    """Within the block, SIGTERM exits with status 143 as an exception, so that files are removed.

    Where SIGTERM has a handler already, and outside the main thread, nothing is changed.
    """
    mine = threading.current_thread() is threading.main_thread()
    if not mine or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def leave(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

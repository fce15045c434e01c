"""SIGTERM and SIGINT as a wish to stop: the first is granted in order, the second at once."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator

__all__ = ["SIGNALS", "stop_wished"]

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextlib.contextmanager
def stop_wished(
    on_first: Callable[[signal.Signals], None], on_second: Callable[[], None]
) -> Iterator[Callable[[], bool]]:
    """While it is open, the first of `SIGNALS` is remembered and the second ends the process.

    Python's own handlers wait until the main thread comes back from compiled code, which may take
    minutes; so a thread of its own hears of signals as they come.

    Args:
      on_first: told of the first signal, in that thread.
      on_second: called before the process ends with status 128 + the signal's number.

    Yields:
      Whether a signal has come. In another thread than the main one, which alone may set handlers,
      signals keep their old meaning, and the answer is always no.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    wished = threading.Event()
    hearing, telling = socket.socketpair()
    telling.setblocking(False)

    def hear() -> None:
        while numbers := hearing.recv(16):
            for number in numbers:
                if number not in SIGNALS:
                    continue
                if wished.is_set():
                    on_second()
                    os._exit(128 + number)
                wished.set()
                on_first(signal.Signals(number))

    # A handler must be there for the signal to be told, but has nothing to do.
    old = {number: signal.signal(number, lambda *_: None) for number in SIGNALS}
    told_before = signal.set_wakeup_fd(telling.fileno(), warn_on_full_buffer=False)
    thread = threading.Thread(target=hear, name="signals", daemon=True)
    thread.start()
    try:
        yield wished.is_set
    finally:
        signal.set_wakeup_fd(told_before)
        for number, handler in old.items():
            signal.signal(number, handler)
        telling.close()
        thread.join()
        hearing.close()

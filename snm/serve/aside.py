"""Work beside other work, in a thread that nobody needs to wait for, not even at the end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

__all__ = ["aside", "busy"]

Found = TypeVar("Found")

_NAME = "snm-aside"


def aside(work: Callable[[], Found]) -> Future[Found]:
    """Begins work in a daemon thread; what it raises is raised by the result.

    The threads of `asyncio.to_thread` are waited for when a loop ends, and again when the process
    does. Nobody waits for this one, so a process that is `busy` should end with `os._exit`.
    """
    found: Future[Found] = Future()
    found.set_running_or_notify_cancel()  # from here on it cannot be cancelled
    thread = threading.Thread(target=_settle, args=(found, work), name=_NAME, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:  # no room for a thread
        found.set_exception(error)
    return found


def busy() -> bool:
    """Whether work is being done aside."""
    return any(one.name == _NAME for one in threading.enumerate())


def _settle(found: Future[Found], work: Callable[[], Found]) -> None:
    try:
        found.set_result(work())
    except BaseException as error:
        found.set_exception(error)
    finally:
        del found  # else an error, its frames and the future would keep each other

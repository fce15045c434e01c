"""Functions that run in daemon threads, which neither a loop nor the process waits for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

__all__ = ["has_background_work", "run_in_background"]

Result = TypeVar("Result")

_THREAD_NAME = "snm-background"


def run_in_background(function: Callable[[], Result]) -> Future[Result]:
    """Calls a function in a daemon thread; the future has its result or its exception.

    The threads of `asyncio.to_thread` are waited for when a loop ends, and again when the process
    does. Nobody waits for this one, so a process that `has_background_work` should end with
    `os._exit`.
    """
    future: Future[Result] = Future()
    future.set_running_or_notify_cancel()  # from here on it cannot be cancelled
    thread = threading.Thread(
        target=_settle, args=(future, function), name=_THREAD_NAME, daemon=True
    )
    try:
        thread.start()
    except RuntimeError as error:  # no memory for a thread
        future.set_exception(error)
    return future


def has_background_work() -> bool:
    """Whether a function still runs in the background."""
    return any(thread.name == _THREAD_NAME for thread in threading.enumerate())


def _settle(future: Future[Result], function: Callable[[], Result]) -> None:
    try:
        future.set_result(function())
    except BaseException as error:
        future.set_exception(error)
    finally:
        del future  # else an error, its frames and the future would keep each other alive

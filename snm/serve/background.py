"""Functions that run in daemon threads, which neither a loop nor the process waits for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

__all__ = ["run_in_background"]

Result = TypeVar("Result")


def run_in_background(function: Callable[[], Result]) -> Future[Result]:
    """Calls a function in a daemon thread; the future has its result or its exception.

    The threads of `asyncio.to_thread` are waited for when a loop ends, and again when the process
    does. Nobody waits for this one, so the process should end by `exit_at_once`.
    """
    future: Future[Result] = Future()
    future.set_running_or_notify_cancel()  # from here on it cannot be cancelled
    thread = threading.Thread(
        target=_settle, args=(future, function), name="snm-background", daemon=True
    )
    try:
        thread.start()
    except RuntimeError as error:  # no memory for a thread
        future.set_exception(error)
    return future


def _settle(future: Future[Result], function: Callable[[], Result]) -> None:
    try:
        future.set_result(function())
    except BaseException as error:
        future.set_exception(error)
    finally:
        del future  # else an error, its frames and the future would keep each other alive

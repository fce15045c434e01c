"""Trains several members in parallel, each in its own thread; yields their events in order.

A step of a small model is mostly loops on one core, so members that train side by side use the
other cores. They do not affect one another: each gets the same result as alone.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import queue
import threading
from collections.abc import Callable, Generator, Sequence
from typing import Generic, TypeVar

from snm.errors import StoppedError
from snm.system.timing import part

__all__ = ["Stop", "run_members"]

T = TypeVar("T")
R = TypeVar("R")

Stop = Callable[[], bool]
"""A function that returns True if the training is to end early."""


def run_members(
    members: Sequence[Callable[[Stop], Generator[T, None, R]]],
    at_once: int,
    stop: Stop | None = None,
) -> Generator[T, None, list[R]]:
    """Runs all members; yields their events in the order of the members, and returns their results.

    Member 1 runs in the caller's thread, and its events come as they happen. The other members run
    in threads of their own; their events wait until the members before them end.

    Args:
      members: functions that start the training of a member. Their argument is a function that
        returns True if the member is to end early.
      at_once: the most members that run at a time; with 1 no thread is started.
      stop: returns True if all members are to end early.

    Raises:
      StoppedError: the first member ended early, because `stop` returned True.
      Exception: the first failure of a member. The others are stopped, and have ended by then.
    """
    stop_all = threading.Event()

    def should_stop() -> bool:
        return stop_all.is_set() or (stop is not None and stop())

    results: list[R] = []
    if at_once == 1:
        for member in members:
            results.append((yield from member(should_stop)))
        return results
    free_threads = threading.Semaphore(at_once - 1)
    with concurrent.futures.ThreadPoolExecutor(at_once, "member") as pool:
        others = [
            _ThreadedMember(member, should_stop, stop_all, free_threads, pool)
            for member in members[1:]
        ]
        try:
            results.append((yield from members[0](should_stop)))
            free_threads.release()  # member 1 is done: one more of the others may run
            for other in others:
                results.append((yield from other.events()))
        except StoppedError:
            # If another member failed and stopped this one, the caller gets that failure.
            stop_all.set()
            for other in others:
                other.raise_failure()
            raise
        finally:
            stop_all.set()
            for other in others:
                other.future.cancel()
    return results


class _ThreadedMember(Generic[T, R]):
    """A member that runs in a thread of a pool, and a queue of its events."""

    def __init__(
        self,
        member: Callable[[Stop], Generator[T, None, R]],
        should_stop: Stop,
        stop_all: threading.Event,
        free_threads: threading.Semaphore,
        pool: concurrent.futures.ThreadPoolExecutor,
    ):
        self._member, self._should_stop = member, should_stop
        self._stop_all, self._free_threads = stop_all, free_threads
        self._events: queue.SimpleQueue[T | None] = queue.SimpleQueue()  # None after the last
        self.future = pool.submit(self._run)

    def events(self) -> Generator[T, None, R]:
        """Yields the events as they come, and returns the result of the member."""
        while (event := self._next_event()) is not None:
            yield event
        return self.future.result()

    def _next_event(self) -> T | None:
        with part("other members"):
            return self._events.get()

    def raise_failure(self) -> None:
        """Waits for the end of the member, and raises its error unless it was StoppedError."""
        if not self.future.cancel():
            with contextlib.suppress(StoppedError):
                self.future.result()

    def _run(self) -> R:
        with self._free_threads:
            try:
                if self._stop_all.is_set():  # while it waited for a thread
                    raise StoppedError(0)
                return self._queue_events()
            except BaseException:
                self._stop_all.set()
                raise
            finally:
                self._events.put(None)

    def _queue_events(self) -> R:
        events = self._member(self._should_stop)
        while True:
            try:
                self._events.put(next(events))
            except StopIteration as end:
                return end.value

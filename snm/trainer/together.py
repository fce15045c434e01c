"""Trains several members at once: each in a thread of its own, their events one after the other.

A step of a small model is mostly loops that use one core, so members that train side by side use
the others. Each computes what it would compute alone: a result does not depend on who runs beside.
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

__all__ = ["Stop", "in_order"]

T = TypeVar("T")
R = TypeVar("R")

Stop = Callable[[], bool]
"""Tells whether to end early."""


def in_order(
    runs: Sequence[Callable[[Stop], Generator[T, None, R]]],
    at_once: int,
    stop: Stop | None = None,
) -> Generator[T, None, list[R]]:
    """Yields the events of all runs, those of the first run first, and returns what they return.

    The caller's thread has the first run, whose events come as they happen. Other threads have the
    other runs, and keep their events until those before are over.

    Args:
      runs: functions that begin a run; it asks the function that they are passed whether to end.
      at_once: the most that run at a time; with 1 no thread is started.
      stop: tells whether all are to end.

    Raises:
      StoppedError: the first run that ended early, as `stop` said.
      Exception: the first failure of a run. The others are told to stop, and have ended by then.
    """
    ending = threading.Event()

    def ends() -> bool:
        return ending.is_set() or (stop is not None and stop())

    results: list[R] = []
    if at_once == 1:
        for run in runs:
            results.append((yield from run(ends)))
        return results
    places = threading.Semaphore(at_once - 1)
    with concurrent.futures.ThreadPoolExecutor(at_once, "member") as pool:
        others = [_ThreadedRun(run, ends, ending, places, pool) for run in runs[1:]]
        try:
            results.append((yield from runs[0](ends)))
            places.release()  # that of the first run, for one more of the others
            for one in others:
                results.append((yield from one.events()))
        except StoppedError:
            # Perhaps because another one failed, which is then what the caller is told.
            ending.set()
            for one in others:
                one.raise_failure()
            raise
        finally:
            ending.set()
            for one in others:
                one.future.cancel()
    return results


class _ThreadedRun(Generic[T, R]):
    """A run in a thread of a pool, and its events."""

    def __init__(
        self,
        begin: Callable[[Stop], Generator[T, None, R]],
        ends: Stop,
        ending: threading.Event,
        places: threading.Semaphore,
        pool: concurrent.futures.ThreadPoolExecutor,
    ):
        self._begin, self._ends, self._ending, self._places = begin, ends, ending, places
        self._events: queue.SimpleQueue[T | None] = queue.SimpleQueue()  # None: it is over
        self.future = pool.submit(self._run)

    def events(self) -> Generator[T, None, R]:
        """Yields the events, waiting for them, and returns what the run returned."""
        while (event := self._next()) is not None:
            yield event
        return self.future.result()

    def _next(self) -> T | None:
        with part("other members"):
            return self._events.get()

    def raise_failure(self) -> None:
        """Waits for the end; raises what ended the run, unless that was a stop or nothing."""
        if not self.future.cancel():
            with contextlib.suppress(StoppedError):
                self.future.result()

    def _run(self) -> R:
        with self._places:
            try:
                if self._ending.is_set():  # while it waited
                    raise StoppedError(0)
                return self._passed_on()
            except BaseException:
                self._ending.set()
                raise
            finally:
                self._events.put(None)

    def _passed_on(self) -> R:
        run = self._begin(self._ends)
        while True:
            try:
                self._events.put(next(run))
            except StopIteration as end:
                return end.value

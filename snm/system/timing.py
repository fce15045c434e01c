"""Where the time of a process goes: seconds by part, such as reading, compiling and steps.

The parts are exclusive: a nested part is not counted twice, and compiling is not counted in the
part that needed the program. Only the thread that started the measurement is measured.
`timed_separately` gives a generator a measurement of its own.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import sys
import threading
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

__all__ = [
    "COMPILING",
    "part",
    "process_started",
    "restart",
    "timed_separately",
    "times",
]

COMPILING = "compiling"
"""The part for the time in which jax traces, lowers and compiles, or reads its cache."""

_JAX = ("/jax/core/compile/", "/jax/compilation_cache/cache_retrieval")

T = TypeVar("T")


class Times(NamedTuple):
    """A measurement.

    Attributes:
      whole: seconds since the start.
      parts: seconds by part, without those of nested parts, in the order of their starts.
      programs: seconds of tracing, lowering and compiling by the name of the function.
    """

    whole: float
    parts: dict[str, float]
    programs: dict[str, float]

    @property
    def rest(self) -> float:
        """Seconds that belong to no part."""
        return self.whole - sum(self.parts.values())


class _Clock:
    def __init__(self, began: float) -> None:
        self.began = began
        self.thread = threading.get_ident()
        self.parts: dict[str, float] = {}
        self.programs: dict[str, float] = {}
        self.inside: list[float] = []  # for each open part, the seconds of nested parts
        self.compiled: list[tuple[float, float]] = []  # intervals that are not nested


_PROCESS_CLOCK = _Clock(time.perf_counter())
_clock = contextvars.ContextVar("clock", default=_PROCESS_CLOCK)
_listening = threading.Event()


def restart(began: float | None = None, before: str = "") -> None:
    """Starts a new measurement of the calling thread and context.

    Args:
      began: the start of the measurement, on the clock of `time.perf_counter`; None is now.
      before: the part for the seconds from the start to now.
    """
    now = time.perf_counter()
    clock = _Clock(now if began is None else began)
    if before:
        clock.parts[before] = now - clock.began
    _clock.set(clock)


def timed_separately(events: Generator[T]) -> Generator[T]:
    """Yields the same events, and measures their generator separately, from the first event on.

    Several such generators may be advanced in turns. The caller's time between two events is in the
    `whole` of both generators, but in none of their parts. `events` is closed with this generator;
    an exception that is thrown into it does not reach `events`.
    """
    context = contextvars.copy_context()
    context.run(restart)
    try:
        while True:
            try:
                event = context.run(next, events)
            except StopIteration:
                return
            yield event
    finally:
        context.run(events.close)


def times() -> Times:
    """The measurement since the last `restart`."""
    clock = _clock.get()
    return Times(time.perf_counter() - clock.began, dict(clock.parts), dict(clock.programs))


@contextlib.contextmanager
def part(name: str, program: str | None = None) -> Iterator[None]:
    """Adds the seconds of a `with` block to a part, without those of nested parts.

    Args:
      name: the name of the part.
      program: the name of a function that is compiled, whose seconds are counted too; or None.
    """
    clock = _clock.get()
    if threading.get_ident() != clock.thread:
        yield
        return
    _listen()
    parts, inside, begun = clock.parts, clock.inside, time.perf_counter()
    parts.setdefault(name, 0.0)
    inside.append(0.0)
    try:
        yield
    finally:
        seconds = time.perf_counter() - begun
        own = seconds - inside.pop()
        parts[name] += own
        if program is not None:
            clock.programs[program] = clock.programs.get(program, 0.0) + own
        if inside:
            inside[-1] += seconds


def process_started() -> float:
    """The start of this process, on the clock of `time.perf_counter`; now if unknown."""
    now = time.perf_counter()
    try:
        # Field 22 of stat, counted behind the name, which may contain spaces.
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        since_boot = float(Path("/proc/uptime").read_text().split()[0])
    except (OSError, IndexError, ValueError):
        return now
    return now - max(0.0, since_boot - int(fields[19]) / os.sysconf("SC_CLK_TCK"))


def _listen() -> None:
    """Registers a listener for compile times, once jax is imported."""
    if _listening.is_set() or "jax" not in sys.modules:
        return
    from jax import monitoring

    _listening.set()
    monitoring.register_event_duration_secs_listener(_compiled)


def _compiled(event: str, duration_secs: float, **about: str | int) -> None:
    """Counts an interval that ends now, without nested intervals, which are counted already."""
    clock = _clock.get()
    if not event.startswith(_JAX) or threading.get_ident() != clock.thread:
        return
    end = time.perf_counter()
    begin = end - duration_secs
    nested = 0.0
    while clock.compiled and clock.compiled[-1][0] >= begin:
        inner_begin, inner_end = clock.compiled.pop()
        nested += inner_end - inner_begin
    clock.compiled.append((begin, end))
    own = duration_secs - nested
    clock.parts[COMPILING] = clock.parts.get(COMPILING, 0.0) + own
    name = str(about.get("fun_name", "reading stored programs"))
    clock.programs[name] = clock.programs.get(name, 0.0) + own
    if clock.inside:
        clock.inside[-1] += own

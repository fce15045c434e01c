"""Where the time of a process goes: seconds by part, such as reading, compiling and steps.

The parts are exclusive: a part inside another one is not counted twice, and compiling counts apart
from the part that needed the program. Only the main thread is measured; what other threads do
beside it costs no time.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["COMPILING", "Times", "part", "process_started", "restart", "times", "waiting_for"]

COMPILING = "compiling"
"""The part that holds the seconds in which jax traces, lowers and compiles, or reads its cache."""

_JAX = ("/jax/core/compile/", "/jax/compilation_cache/cache_retrieval")


class Times(NamedTuple):
    """What was measured.

    Attributes:
      whole: seconds since the beginning.
      parts: seconds by part, without what was inside of it, in the order of their beginnings.
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
    def __init__(self) -> None:
        self.listening = False
        self.restart(time.perf_counter())

    def restart(self, began: float) -> None:
        self.began = began
        self.thread = threading.get_ident()
        self.parts: dict[str, float] = {}
        self.programs: dict[str, float] = {}
        self.inside: list[float] = []  # for each open part, the seconds of the parts within
        self.compiled: list[tuple[float, float]] = []  # intervals that are not within another


_clock = _Clock()


def restart(began: float | None = None, before: str = "") -> None:
    """Forgets what was measured, and measures the calling thread from here on.

    Args:
      began: when what is measured began, on the clock of `time.perf_counter`; None is now.
      before: the part that has the seconds from then to now.
    """
    now = time.perf_counter()
    _clock.restart(now if began is None else began)
    if before:
        _clock.parts[before] = now - _clock.began


def times() -> Times:
    """What was measured since the last `restart`."""
    whole = time.perf_counter() - _clock.began
    return Times(whole, dict(_clock.parts), dict(_clock.programs))


def waiting_for(program: str) -> contextlib.AbstractContextManager[None]:
    """Adds the seconds of a `with` block, which waits for another thread's program, to compiling.

    Args:
      program: the name of its function.
    """
    return part(COMPILING, program)


@contextlib.contextmanager
def part(name: str, program: str | None = None) -> Iterator[None]:
    """Adds the seconds of a `with` block to a part, less those of the parts within.

    Args:
      name: of the part.
      program: the name of a function that is compiled, to add the same seconds to; or None.
    """
    if threading.get_ident() != _clock.thread:
        yield
        return
    _listen()
    parts, inside, begun = _clock.parts, _clock.inside, time.perf_counter()
    parts.setdefault(name, 0.0)
    inside.append(0.0)
    try:
        yield
    finally:
        seconds = time.perf_counter() - begun
        own = seconds - inside.pop()
        parts[name] += own
        if program is not None:
            _clock.programs[program] = _clock.programs.get(program, 0.0) + own
        if inside:
            inside[-1] += seconds


def process_started() -> float:
    """When this process began, on the clock of `time.perf_counter`; now where nobody tells."""
    now = time.perf_counter()
    try:
        # Field 22 of stat, counted behind the name, which may contain spaces.
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        since_boot = float(Path("/proc/uptime").read_text().split()[0])
    except (OSError, IndexError, ValueError):
        return now
    return now - max(0.0, since_boot - int(fields[19]) / os.sysconf("SC_CLK_TCK"))


def _listen() -> None:
    """Asks jax, once it is there, to tell how long it compiles."""
    if _clock.listening or "jax" not in sys.modules:
        return
    from jax import monitoring

    _clock.listening = True
    monitoring.register_event_duration_secs_listener(_compiled)


def _compiled(event: str, duration_secs: float, **about: str | int) -> None:
    """Counts an interval that ends now; those within it, of functions it calls, were counted."""
    if not event.startswith(_JAX) or threading.get_ident() != _clock.thread:
        return
    end = time.perf_counter()
    begin = end - duration_secs
    within = 0.0
    while _clock.compiled and _clock.compiled[-1][0] >= begin:
        inner, until = _clock.compiled.pop()
        within += until - inner
    _clock.compiled.append((begin, end))
    own = duration_secs - within
    _clock.parts[COMPILING] = _clock.parts.get(COMPILING, 0.0) + own
    name = str(about.get("fun_name", "reading stored programs"))
    _clock.programs[name] = _clock.programs.get(name, 0.0) + own
    if _clock.inside:
        _clock.inside[-1] += own

"""Checkpoints written while training goes on.

The state is copied to the host's own memory before the next step may overwrite it; a thread writes
the copy. Where that copy has no room (on a CPU it is a second set of tables) the run waits for the
writing instead. Either way the bits of the run are the same.

Of several processes each copies and writes its own parts. Their threads meet at JAX's coordinator;
what goes over devices stays in the main threads, which tell each other after every dispatch how
the writing stands, and so end a checkpoint, or the run, at the same step.
"""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Callable
from typing import Any, Protocol

from snm.checkpoints.disk_errors import REASONS, reason_number
from snm.checkpoints.store import Checkpoints
from snm.distributed.host_copy import bytes_here, host_copy
from snm.distributed.processes import Agreed, first_to_say, several
from snm.system.memory import available_memory

__all__ = ["Store", "TogetherWriter", "Writer", "has_room", "writer_for"]

_ROOM = 0.25  # of the memory that is free when a run starts: more might push others out
_UNDER_WAY = len(REASONS)  # what processes say of a checkpoint: a reason why not, or one of these
_DONE = _UNDER_WAY + 1
_PAUSE_SECONDS = 0.02


def has_room(state: Any) -> bool:
    """Whether all processes have room for a copy of their parts of a state; all must ask."""
    return bool(first_to_say(int(bytes_here(state) <= _ROOM * available_memory())))


class Store(Protocol):
    """Where states are saved: the checkpoints of a run, or a place in memory."""

    def save(self, step: int, state: Any, progress: dict[str, Any], score: float | None) -> None:
        """Saves the state after `step` steps."""


class Writer:
    """Writes checkpoints in their order, one at a time; close it, or use it as a context.

    Args:
      checkpoints: where to.
      aside: on the side, from a copy; otherwise `save` waits for the writing.
      kept: what is kept of a copy on the host, without copying it again; None is the state as it
        is given.
    """

    def __init__(
        self, checkpoints: Store, *, aside: bool, kept: Callable[[Any], Any] | None = None
    ):
        self._checkpoints, self._aside, self._kept = checkpoints, aside, kept
        self._pool = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._writing: tuple[int, concurrent.futures.Future[None]] | None = None
        self._copy: Any = None
        self._written: list[int] = []

    def save(self, step: int, state: Any, progress: dict[str, Any], score: float | None) -> None:
        """Takes a checkpoint; of the arguments nothing is kept.

        Raises:
          SavingError: this one, or the one before it, could not be written.
        """
        self.wait()
        copy = state
        if self._aside:
            copy = self._copy = host_copy(state, self._copy)
        elif self._kept is not None:
            copy = host_copy(state)
        kept = copy if self._kept is None else self._kept(copy)
        if not self._aside:
            self._checkpoints.save(step, kept, progress, score)
            self._written.append(step)
            return
        self._writing = step, self._pool.submit(self._checkpoints.save, step, kept, progress, score)

    def written(self) -> list[int]:
        """The steps whose checkpoints are whole since it was last asked; never waits.

        Raises:
          SavingError: one could not be written.
        """
        if self._writing is not None and self._writing[1].done():
            self.wait()
        found, self._written = self._written, []
        return found

    def wait(self) -> None:
        """Waits for what is being written.

        Raises:
          SavingError: it could not be.
        """
        if self._writing is not None:
            step, writing = self._writing
            self._writing = None
            writing.result()
            self._written.append(step)

    def close(self) -> None:
        """Ends the thread, after what it is writing."""
        self._pool.shutdown()
        self._copy = None

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class TogetherWriter(Writer):
    """The same for several processes, each of which calls every method at the same point.

    Where one cannot write its part, all raise the same error, at the same step.
    """

    _checkpoints: Checkpoints

    def __init__(self, checkpoints: Checkpoints, *, aside: bool):
        super().__init__(checkpoints, aside=aside)
        self._ask = Agreed()
        self._given_up = False

    def save(self, step: int, state: Any, progress: dict[str, Any], score: float | None) -> None:
        """As `Writer`; each process copies its parts, which is done when this returns."""
        self.wait()
        end = self._checkpoints.begin(step, state, progress, score)
        self._writing = step, self._pool.submit(end)
        self._ask.forget()
        if not self._aside:
            self.wait()

    def written(self) -> list[int]:
        """As `Writer`, and the same steps for all processes."""
        if self._writing is not None:
            self._look()
        found, self._written = self._written, []
        return found

    def wait(self) -> None:
        """As `Writer`; until all have written."""
        while self._writing is not None:
            self._look()
            if self._writing is not None:
                time.sleep(_PAUSE_SECONDS)

    def close(self) -> None:
        """As `Writer`; nobody waits for a thread that another process has let down."""
        self._pool.shutdown(wait=not self._given_up)

    def _look(self) -> None:
        """Tells the others how the writing stands here, and hears how it stood everywhere."""
        assert self._writing is not None
        step, writing = self._writing
        mine, error = _UNDER_WAY, None
        if writing.done():
            error = writing.exception()
            mine = _DONE if error is None else reason_number(error)
        answer = self._ask(mine)
        if answer is None or answer == _UNDER_WAY:
            return
        self._writing = None
        if answer == _DONE:
            self._written.append(step)
            return
        self._given_up = True
        if error is not None:
            raise error
        raise self._checkpoints.failure(step, REASONS[answer])


def writer_for(checkpoints: Store, state: Any, kept: Callable[[Any], Any] | None = None) -> Writer:
    """The writer of a run, on the side where all processes have room for that.

    Args:
      checkpoints: where to.
      state: arrays like those that will be saved.
      kept: as for `Writer`, for a run of one process.
    """
    aside = has_room(state)
    if not several():
        return Writer(checkpoints, aside=aside, kept=kept)
    assert isinstance(checkpoints, Checkpoints)
    return TogetherWriter(checkpoints, aside=aside)

"""Writes checkpoints in the background while training continues.

The state is copied to host memory before the next step can overwrite it, and a thread writes the
copy. If memory has no room for the copy (on a CPU it is a second set of tables), or no step
follows, training waits for the write instead. The results of the run are the same in all cases.

With several processes, each copies and writes its own shards. The background threads synchronize
through JAX's coordinator. The main threads exchange the status of the write after every dispatch,
so that all processes finish a checkpoint, or fail, at the same step. Without a
shared disk, process 0 gathers the arrays and writes them alone.
"""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from snm.checkpoints.disk_errors import REASONS, reason_number
from snm.checkpoints.store import Checkpoints
from snm.distributed.host_copy import gather_on_first, host_copy, local_bytes, state_bytes
from snm.distributed.processes import (
    AsyncMin,
    has_several_processes,
    is_first_process,
    min_over_processes,
)
from snm.errors import InputError
from snm.machine.ram import available_ram
from snm.text import format_bytes

__all__ = [
    "MultiProcessWriter",
    "Store",
    "Writer",
    "has_memory_for_copy",
    "make_writer",
]

_MAX_COPY_SHARE = 0.25  # of the free memory
# The status of a write, exchanged between processes: an index into REASONS if it failed, or
_UNDER_WAY = len(REASONS)
_DONE = _UNDER_WAY + 1
_POLL_SECONDS = 0.02


def has_memory_for_copy(state: Any) -> bool:
    """Whether every process has memory for a copy of its part of a state; all must call this."""
    return bool(min_over_processes(int(local_bytes(state) <= _MAX_COPY_SHARE * available_ram())))


class Store(Protocol):
    """A destination of states: the checkpoints of a run, or memory."""

    def save(self, step: int, state: Any, progress: dict[str, Any], score: float | None) -> None:
        """Saves the state after `step` steps."""


class _Checkpoint(NamedTuple):
    """The arguments of `Store.save`."""

    step: int
    state: Any
    progress: dict[str, Any]
    score: float | None


class Writer:
    """Writes checkpoints in order, one at a time; close it, or use it as a context manager.

    Args:
      checkpoints: where to save.
      in_background: whether to write a copy in the background; otherwise `save` waits.
      kept: maps the copy of the state on the host to the state that is saved, without another copy;
        None saves the copy itself.
    """

    def __init__(
        self, checkpoints: Store, *, in_background: bool, kept: Callable[[Any], Any] | None = None
    ):
        self._checkpoints, self._in_background, self._kept = checkpoints, in_background, kept
        self._pool = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._writing: tuple[int, concurrent.futures.Future[None]] | None = None
        self._copy: Any = None
        self._written: list[int] = []

    def save(
        self,
        step: int,
        state: Any,
        progress: dict[str, Any],
        score: float | None,
        *,
        last: bool = False,
    ) -> None:
        """Saves a checkpoint; holds no reference to the arguments after it returns.

        Args:
          step: steps done.
          state: parameters.
          progress: the counters of the training loop.
          score: of the state, or None.
          last: whether no step follows, so that a copy would gain nothing.

        Raises:
          SavingError: this checkpoint, or the one before it, could not be written.
        """
        self.wait()
        self._write(_Checkpoint(step, state, progress, score), last=last)

    def _write(self, checkpoint: _Checkpoint, *, last: bool) -> None:
        copy, in_background = checkpoint.state, self._in_background and not last
        if in_background:
            copy = self._copy = host_copy(copy, self._copy)
        elif self._kept is not None:
            copy = host_copy(copy)
        saved = checkpoint._replace(state=copy if self._kept is None else self._kept(copy))
        if in_background:
            self._writing = saved.step, self._pool.submit(self._checkpoints.save, *saved)
        else:
            self._checkpoints.save(*saved)
            self._written.append(saved.step)

    def written(self) -> list[int]:
        """The steps whose checkpoints were completed since the last call; does not wait.

        Raises:
          SavingError: a checkpoint could not be written.
        """
        if self._writing is not None and self._writing[1].done():
            self.wait()
        written, self._written = self._written, []
        return written

    def wait(self) -> None:
        """Waits until the current checkpoint is written.

        Raises:
          SavingError: it could not be written.
        """
        if self._writing is not None:
            step, writing = self._writing
            self._writing = None
            writing.result()
            self._written.append(step)

    def close(self) -> None:
        """Ends the thread after the current write."""
        self._pool.shutdown()
        self._copy = None

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class MultiProcessWriter(Writer):
    """A `Writer` for several processes, which must all call every method at the same point.

    If one process cannot write its part, all raise the same error at the same step.
    """

    _checkpoints: Checkpoints

    def __init__(self, checkpoints: Checkpoints, *, in_background: bool):
        super().__init__(checkpoints, in_background=in_background)
        self._lowest_status = AsyncMin()
        self._failed = False

    def _write(self, checkpoint: _Checkpoint, *, last: bool) -> None:
        """Writes it; when this returns, each process has copied its part."""
        finish = self._checkpoints.begin(*checkpoint)
        self._writing = checkpoint.step, self._pool.submit(finish)
        self._lowest_status.forget()
        if not self._in_background:
            self.wait()

    def written(self) -> list[int]:
        """As `Writer.written`; the same steps in all processes."""
        if self._writing is not None:
            self._exchange_status()
        written, self._written = self._written, []
        return written

    def wait(self) -> None:
        """As `Writer.wait`; waits for all processes."""
        while self._writing is not None:
            self._exchange_status()
            if self._writing is not None:
                time.sleep(_POLL_SECONDS)

    def close(self) -> None:
        """As `Writer.close`; after a failure, does not wait for the thread, which may be stuck."""
        self._pool.shutdown(wait=not self._failed)

    def _exchange_status(self) -> None:
        """Sends this process's status, and acts on the lowest status of the previous exchange."""
        assert self._writing is not None
        step, writing = self._writing
        status, error = _UNDER_WAY, None
        if writing.done():
            error = writing.exception()
            status = _DONE if error is None else reason_number(error)
        lowest = self._lowest_status(status)
        if lowest is None or lowest == _UNDER_WAY:
            return
        self._writing = None
        if lowest == _DONE:
            self._written.append(step)
            return
        self._failed = True
        if error is not None:
            raise error
        raise self._checkpoints.failure(step, REASONS[lowest])


class GatheringWriter(MultiProcessWriter):
    """A `MultiProcessWriter` without a shared disk: process 0 gathers and writes the state."""

    def _write(self, checkpoint: _Checkpoint, *, last: bool) -> None:
        """Writes it; when this returns, process 0 has copied the whole state."""
        gathered = checkpoint._replace(state=gather_on_first(checkpoint.state))

        def write() -> None:
            if is_first_process():
                self._checkpoints.save(*gathered)

        self._writing = checkpoint.step, self._pool.submit(write)
        self._lowest_status.forget()


def _check_memory_to_gather(state: Any) -> None:
    """Raises in all processes if process 0 has no memory to gather the state."""
    size = state_bytes(state)
    if not min_over_processes(int(not is_first_process() or size <= available_ram())):
        found = f"{format_bytes(size)} of tables, more than process 0 has free host memory for"
        raise InputError("--run-dir in a store", found, "a folder that all processes share")


def make_writer(checkpoints: Store, state: Any, kept: Callable[[Any], Any] | None = None) -> Writer:
    """The writer of a run; writes in the background if every process has memory for a copy.

    Args:
      checkpoints: where to save.
      state: arrays like those that will be saved.
      kept: as for `Writer`; used by runs of one process only.

    Raises:
      InputError: processes without a shared disk, and too little host memory in process 0.
    """
    in_background = has_memory_for_copy(state)
    if not has_several_processes():
        return Writer(checkpoints, in_background=in_background, kept=kept)
    assert isinstance(checkpoints, Checkpoints)
    if checkpoints.apart:
        _check_memory_to_gather(state)
    return (GatheringWriter if checkpoints.apart else MultiProcessWriter)(
        checkpoints, in_background=in_background
    )

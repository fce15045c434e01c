"""Checkpoints written while training goes on.

The state is copied to the host's own memory before the next step may overwrite it; a thread writes
the copy. Where that copy has no room (on a CPU it is a second set of tables) the run waits for the
writing instead. Either way the bits of the run are the same.
"""

from __future__ import annotations

import concurrent.futures
from typing import Any, Protocol

import jax
import numpy as np

from snm.checkpoints import host_copy
from snm.memory import available_memory

__all__ = ["Store", "Writer", "has_room", "state_bytes"]

_ROOM = 0.25  # of the memory that is free when a run starts: more might push others out


def state_bytes(state: Any) -> int:
    """Bytes of the arrays of a state; shapes and types are enough."""
    leaves = jax.tree.leaves(state)
    return sum(int(np.prod(leaf.shape)) * np.dtype(leaf.dtype).itemsize for leaf in leaves)


def has_room(state: Any) -> bool:
    """Whether this machine has room for a copy of the state that is written on the side."""
    leaves = [leaf for leaf in jax.tree.leaves(state) if isinstance(leaf, jax.Array)]
    if not all(leaf.is_fully_addressable for leaf in leaves):
        return False
    return state_bytes(state) <= _ROOM * available_memory()


class Store(Protocol):
    """Where states are saved: the checkpoints of a run, or a place in memory."""

    def save(self, step: int, state: Any, progress: dict[str, Any], score: float | None) -> None:
        """Saves the state after `step` steps."""


class Writer:
    """Writes checkpoints in their order, one at a time; close it, or use it as a context.

    Args:
      checkpoints: where to.
      aside: on the side, from a copy; otherwise `save` waits for the writing.
    """

    def __init__(self, checkpoints: Store, *, aside: bool):
        self._checkpoints, self._aside = checkpoints, aside
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
        if not self._aside:
            self._checkpoints.save(step, state, progress, score)
            self._written.append(step)
            return
        self._copy = host_copy(state, self._copy)
        arguments = (step, self._copy, progress, score)
        self._writing = step, self._pool.submit(self._checkpoints.save, *arguments)

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

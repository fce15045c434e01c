"""Communication between the processes of a run: barriers, reductions and global arrays.

All processes must call these functions in the same order. With a single process they return their
argument at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

__all__ = [
    "AgreedStop",
    "AsyncMin",
    "barrier",
    "broadcast_from_first",
    "gather_texts",
    "has_several_processes",
    "is_first_process",
    "is_mine",
    "min_over_processes",
    "replicate",
    "sum_over_processes",
]


def has_several_processes() -> bool:
    """Whether the run has more than one process."""
    return jax.process_count() > 1


def is_first_process() -> bool:
    """Whether this is process 0, which writes the files of the run."""
    return jax.process_index() == 0


def is_mine(number: int) -> bool:
    """Whether this process handles an item, if the processes take items in turn by number."""
    return number % jax.process_count() == jax.process_index()


def barrier(name: str) -> None:
    """A barrier: returns when all processes have called it with the same name."""
    if has_several_processes():
        multihost_utils.sync_global_devices(name)


def broadcast_from_first(numbers: list[int], size: int) -> list[int]:
    """Broadcasts a list of process 0: at most its last `size` numbers, each from 0 to 2**31 - 1."""
    if not has_several_processes():
        return numbers
    row = np.full(size, -1, np.int32)
    kept = numbers[-size:]
    row[: len(kept)] = kept
    row = np.asarray(multihost_utils.broadcast_one_to_all(row))
    return row[row >= 0].tolist()


def min_over_processes(number: int) -> int:
    """The minimum of the processes' numbers, each from 0 to 2**31 - 1."""
    if not has_several_processes():
        return number
    return int(np.min(multihost_utils.process_allgather(np.asarray(number, np.int32))))


def sum_over_processes(counts: np.ndarray) -> np.ndarray:
    """The sum of the processes' int64 [n] arrays; sums must be from 0 to 2**31 - 1."""
    if not has_several_processes():
        return counts
    # The first device of each process holds its array.
    firsts = {device.process_index: device for device in reversed(jax.devices())}
    mesh = Mesh(np.asarray([firsts[number] for number in sorted(firsts)]), ("process",))
    local = counts.astype(np.int32)[None]
    by_process = NamedSharding(mesh, PartitionSpec("process"))
    parts = jax.make_array_from_callback((len(firsts), *counts.shape), by_process, lambda _: local)
    total = jax.jit(lambda x: x.sum(axis=0), out_shardings=NamedSharding(mesh, PartitionSpec()))
    return np.asarray(total(parts)).astype(np.int64)


def gather_texts(text: str) -> list[str]:
    """The texts of all processes, in the order of their numbers."""
    if not has_several_processes():
        return [text]
    own = np.frombuffer(text.encode(), np.uint8).astype(np.int32)
    lengths = multihost_utils.process_allgather(np.asarray(len(own), np.int32))
    row = np.full(max(1, int(np.max(lengths))), -1, np.int32)
    row[: len(own)] = own
    rows = np.asarray(multihost_utils.process_allgather(row))
    return [bytes(part[part >= 0].tolist()).decode() for part in rows]


def replicate(tree: Any, mesh: Mesh | None) -> Any:
    """Replicates arrays, which every process holds completely, over all devices of a mesh.

    None leaves the arrays where they are.
    """
    if mesh is None:
        return tree
    sharding = NamedSharding(mesh, PartitionSpec())

    def replicate_leaf(leaf: Any) -> jax.Array:
        whole = np.asarray(leaf)
        return jax.make_array_from_callback(whole.shape, sharding, lambda index: whole[index])

    return jax.tree.map(replicate_leaf, tree)


class AsyncMin:
    """An asynchronous minimum of the processes' numbers, the same result in all of them.

    Each call starts a minimum and returns the result of the call before it. Like the losses, it is
    read after the device has finished, so that the host does not wait.
    """

    def __init__(self) -> None:
        self._pending: jax.Array | None = None
        devices = Mesh(np.asarray(jax.devices()), ("all",))
        self._sharding = NamedSharding(devices, PartitionSpec("all"))
        self._lowest = jax.jit(
            lambda numbers: numbers.min(), out_shardings=NamedSharding(devices, PartitionSpec())
        )

    def __call__(self, number: int) -> int | None:
        """Contributes `number`; all processes must call this in their main threads.

        Returns:
          The minimum of the numbers of the previous call; None at the first call.
        """
        previous = None if self._pending is None else int(np.asarray(self._pending))
        local = np.asarray([number], np.int32)
        self._pending = self._lowest(
            jax.make_array_from_callback((jax.device_count(),), self._sharding, lambda _: local)
        )
        return previous

    def forget(self) -> None:
        """Drops the pending result: the next call returns None."""
        self._pending = None


class AgreedStop:
    """Whether any process has been asked to stop; once True, it stays True.

    Args:
      stop_requested: whether this process has been asked to stop.
    """

    def __init__(self, stop_requested: Callable[[], bool]):
        self._stop_requested = stop_requested
        self._agreed = False
        self._minimum = AsyncMin()

    def __call__(self) -> bool:
        """Whether any process had been asked to stop at the previous call; all must call this."""
        if not self._agreed:
            self._agreed = self._minimum(int(not self._stop_requested())) == 0
        return self._agreed

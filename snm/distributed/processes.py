"""What the processes of a run do together: agree, wait for each other, make arrays of all.

With one process every function hands back what it was given, and waits for nobody. All processes
must call them in the same order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding

__all__ = ["Agreed", "AgreedStop", "everywhere", "first", "first_to_say", "of_first", "on_devices",
           "several", "summed", "wait"]  # fmt: skip


def several() -> bool:
    """Whether the run has more processes than this one."""
    return jax.process_count() > 1


def first() -> bool:
    """Whether this process writes what is written once."""
    return jax.process_index() == 0


def wait(what: str) -> None:
    """Goes on when all processes are here; `what` must be the same word for all."""
    if several():
        multihost_utils.sync_global_devices(what)


def of_first(numbers: list[int], room: int) -> list[int]:
    """The numbers of process 0, from 0 to 2**31 - 1 and at most `room` of them."""
    if not several():
        return numbers
    row = np.full(room, -1, np.int32)
    kept = numbers[-room:]
    row[: len(kept)] = kept
    row = np.asarray(multihost_utils.broadcast_one_to_all(row))
    return row[row >= 0].tolist()


def first_to_say(number: int) -> int:
    """The lowest of the processes' numbers, each from 0 to 2**31 - 1."""
    if not several():
        return number
    return int(np.min(multihost_utils.process_allgather(np.asarray(number, np.int32))))


def summed(counts: np.ndarray) -> np.ndarray:
    """The sum of the processes' arrays: int64 [n] each, of sums from 0 to 2**31 - 1."""
    if not several():
        return counts
    # One device of each process, the first, holds its array.
    firsts = {device.process_index: device for device in reversed(jax.devices())}
    mesh = Mesh(np.asarray([firsts[number] for number in sorted(firsts)]), ("process",))
    mine = counts.astype(np.int32)[None]
    by_process = NamedSharding(mesh, PartitionSpec("process"))
    parts = on_devices((len(firsts), *counts.shape), by_process, lambda _: mine)
    total = jax.jit(lambda x: x.sum(axis=0), out_shardings=NamedSharding(mesh, PartitionSpec()))
    return np.asarray(total(parts)).astype(np.int64)


def on_devices(
    shape: tuple[int, ...], sharding: Sharding, part: Callable[[Any], np.ndarray]
) -> jax.Array:
    """An array over devices of all processes, each of which asks `part` for what it holds."""
    return jax.make_array_from_callback(shape, sharding, part)


def everywhere(tree: Any, mesh: Mesh) -> Any:
    """Arrays that every process has whole, on all devices of a mesh."""
    sharding = NamedSharding(mesh, PartitionSpec())

    def one(leaf: Any) -> jax.Array:
        whole = np.asarray(leaf)
        return on_devices(whole.shape, sharding, lambda index: whole[index])

    return jax.tree.map(one, tree)


class Agreed:
    """The lowest of the processes' numbers, the same answer for all at the same question.

    A question is answered with what the processes said at the one before it: like the losses, it
    is read when the device has long finished, so that the host never waits.
    """

    def __init__(self) -> None:
        self._asked: jax.Array | None = None
        devices = Mesh(np.asarray(jax.devices()), ("all",))
        self._sharding = NamedSharding(devices, PartitionSpec("all"))
        self._lowest = jax.jit(
            lambda numbers: numbers.min(), out_shardings=NamedSharding(devices, PartitionSpec())
        )

    def __call__(self, number: int) -> int | None:
        """Asks, as all processes must in their main threads; the first question has no answer."""
        answer = None if self._asked is None else int(np.asarray(self._asked))
        mine = np.asarray([number], np.int32)
        self._asked = self._lowest(
            on_devices((jax.device_count(),), self._sharding, lambda _: mine)
        )
        return answer

    def forget(self) -> None:
        """Makes the next question a first one."""
        self._asked = None


class AgreedStop:
    """Whether any process wishes to stop: `Agreed`, and yes for good.

    Args:
      wished: of this process.
    """

    def __init__(self, wished: Callable[[], bool]):
        self._wished = wished
        self._agreed = False
        self._ask = Agreed()

    def __call__(self) -> bool:
        """Asks; all processes must."""
        if not self._agreed:
            self._agreed = self._ask(int(not self._wished())) == 0
        return self._agreed

"""What arrays weigh, and their copies on the host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

__all__ = ["bytes_here", "host_copy", "state_bytes"]


def state_bytes(state: Any) -> int:
    """Bytes of the arrays of a state; shapes and types are enough."""
    leaves = jax.tree.leaves(state)
    return sum(int(np.prod(leaf.shape)) * np.dtype(leaf.dtype).itemsize for leaf in leaves)


def bytes_here(state: Any) -> int:
    """Bytes of what this process holds of a state, each part once; places are enough."""
    total = 0
    for leaf in jax.tree.leaves(state):
        sharding = getattr(leaf, "sharding", None)
        if sharding is None:
            total += state_bytes(leaf)
            continue
        places = sharding.addressable_devices_indices_map(leaf.shape).values()
        part = jax.ShapeDtypeStruct(sharding.shard_shape(leaf.shape), leaf.dtype)
        total += len({str(place) for place in places}) * state_bytes(part)
    return total


def host_copy(state: Any, into: Any = None) -> Any:
    """The arrays of a state in the host's own memory, which no later step can write to.

    Args:
      state: a pytree of arrays, all of whose parts this process holds.
      into: what an earlier call returned: its memory is used again.
    """

    def copied(leaf: Any, old: np.ndarray | None = None) -> np.ndarray:
        whole = np.empty(leaf.shape, leaf.dtype) if old is None else old
        for place, part in _parts(leaf):
            whole[place] = part
        return whole

    return jax.tree.map(copied, state, *([] if into is None else [into]))


def _parts(leaf: Any) -> Iterator[tuple[Any, np.ndarray]]:
    """Where the parts of a leaf belong, and their views, which are let go one by one.

    An array of jax keeps the view of itself that it once gave, and is then copied, not donated, by
    the next step; its shards are arrays of their own.
    """
    if not isinstance(leaf, jax.Array):
        yield ..., np.asarray(leaf)
        return
    if not leaf.is_fully_addressable:
        raise ValueError("a state that other processes hold parts of has no copy on one host")
    for shard in leaf.addressable_shards:
        if shard.replica_id == 0:
            yield shard.index or ..., np.asarray(shard.data)

"""Copies arrays of a state to host memory, and measures their size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

__all__ = ["bytes_here", "host_copy", "state_bytes"]


def state_bytes(state: Any) -> int:
    """The total bytes of the arrays of a state; `jax.ShapeDtypeStruct` leaves suffice."""
    leaves = jax.tree.leaves(state)
    return sum(int(np.prod(leaf.shape)) * np.dtype(leaf.dtype).itemsize for leaf in leaves)


def bytes_here(state: Any) -> int:
    """The bytes that this process holds of a state, replicas counted once.

    Leaves with a shape, a type and a sharding suffice.
    """
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
    """Copies the arrays of a state to host memory that no later step can overwrite.

    Args:
      state: a pytree of arrays that this process holds completely.
      into: the result of an earlier call, whose memory is reused.

    Raises:
      ValueError: other processes hold parts of the state.
    """

    def copied(leaf: Any, old: np.ndarray | None = None) -> np.ndarray:
        whole = np.empty(leaf.shape, leaf.dtype) if old is None else old
        for place, part in _parts(leaf):
            whole[place] = part
        return whole

    return jax.tree.map(copied, state, *([] if into is None else [into]))


def _parts(leaf: Any) -> Iterator[tuple[Any, np.ndarray]]:
    """Yields (index, NumPy view) for each shard of a leaf.

    The views are of the shards, not of the array: a JAX array keeps the NumPy view that it once
    gave out, and the next step would then copy instead of donate it.
    """
    if not isinstance(leaf, jax.Array):
        yield ..., np.asarray(leaf)
        return
    if not leaf.is_fully_addressable:
        raise ValueError("a state that other processes hold parts of has no copy on one host")
    for shard in leaf.addressable_shards:
        if shard.replica_id == 0:
            yield shard.index or ..., np.asarray(shard.data)

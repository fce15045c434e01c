"""Copies the arrays of a state to host memory of one or all processes, and measures their size."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from snm.distributed.processes import is_first_process

__all__ = ["gather_on_first", "host_copy", "local_bytes", "state_bytes"]

_BLOCK = 1 << 26  # bytes of an array that every device receives at once


def state_bytes(state: Any) -> int:
    """The total bytes of the arrays of a state; `jax.ShapeDtypeStruct` leaves suffice."""
    leaves = jax.tree.leaves(state)
    return sum(int(np.prod(leaf.shape)) * np.dtype(leaf.dtype).itemsize for leaf in leaves)


def local_bytes(state: Any) -> int:
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

    def copy_leaf(leaf: Any, old: np.ndarray | None = None) -> np.ndarray:
        whole = np.empty(leaf.shape, leaf.dtype) if old is None else old
        for index, part in _parts(leaf):
            whole[index] = part
        return whole

    return jax.tree.map(copy_leaf, state, *([] if into is None else [into]))


def _parts(leaf: Any) -> Iterator[tuple[Any, np.ndarray]]:
    """Yields (index, NumPy view) for each shard of a leaf.

    The views are of the shards, not of the array: a JAX array caches its NumPy view, and the next
    step would then copy the array instead of donating it.
    """
    if not isinstance(leaf, jax.Array):
        yield ..., np.asarray(leaf)
        return
    if not leaf.is_fully_addressable:
        raise ValueError("a state that other processes hold parts of has no copy on one host")
    for shard in leaf.addressable_shards:
        if shard.replica_id == 0:
            yield shard.index or ..., np.asarray(shard.data)


def gather_on_first(state: Any) -> Any:
    """Copies global arrays to the host memory of process 0; all processes must call this.

    Devices receive one block of rows at a time, so none needs memory for a table.

    Args:
      state: a pytree of arrays of all processes, split over rows or not at all.

    Returns:
      The state with NumPy arrays in process 0, and with None in the others.
    """
    return jax.tree.map(_gather_leaf, state)


def _gather_leaf(leaf: Any) -> np.ndarray | None:
    if not isinstance(leaf, jax.Array) or leaf.is_fully_replicated:
        whole = leaf.addressable_data(0) if isinstance(leaf, jax.Array) else leaf
        return np.array(whole) if is_first_process() else None
    rows = len(leaf)
    count = max(1, min(rows, _BLOCK * rows // leaf.nbytes))
    gathered = np.empty(leaf.shape, leaf.dtype) if is_first_process() else None
    assert isinstance(leaf.sharding, NamedSharding)
    take = _take_rows(leaf.sharding.mesh, count)
    for begin in range(0, rows, count):
        begin = min(begin, rows - count)
        block = take(leaf, np.int32(begin))
        if gathered is not None:
            gathered[begin : begin + count] = np.asarray(block.addressable_data(0))
        else:
            block.block_until_ready()  # no device holds more than a block
    return gathered


@functools.cache
def _take_rows(mesh: Mesh, count: int) -> Callable[..., jax.Array]:
    """The program that replicates a block of rows of a sharded array on all devices."""
    replicated = NamedSharding(mesh, PartitionSpec())

    def take(whole: jax.Array, begin: jax.Array) -> jax.Array:
        return jax.lax.dynamic_slice_in_dim(whole, begin, count)

    return jax.jit(take, out_shardings=replicated)

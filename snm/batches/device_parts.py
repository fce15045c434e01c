"""Batches on a mesh: which axis each array is sharded over, and their placement on devices.

The mesh axis `data` cuts the points of a batch into data parts, of which each device has one.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from snm.batches.batch import POINT_FIELDS
from snm.distributed.mesh import DATA
from snm.distributed.processes import make_global_array, replicate

__all__ = [
    "local_data_parts",
    "points_specs",
    "spread_points",
    "spread_stack",
    "stack_specs",
]


def local_data_parts(mesh: Mesh) -> range:
    """The data parts of a batch that devices of this process hold."""
    mine = [place[0] for place, device in np.ndenumerate(mesh.devices)
            if device.process_index == jax.process_index()]  # fmt: skip
    return range(min(mine), max(mine) + 1)


def stack_specs(stack: Any, data_parts: int) -> Any:
    """How the batches of a dispatch are sharded: what belongs to points is cut over `data`.

    Args:
      stack: from `Source.stack`; what belongs to points has axes [steps, parts, ...].
      data_parts: the size of `data`; 1 leaves everything whole.

    Returns:
      A PartitionSpec for each leaf.
    """

    def of(name: str) -> Any:
        cut = data_parts > 1 and name in POINT_FIELDS
        spec = PartitionSpec(None, DATA) if cut else PartitionSpec()
        return jax.tree.map(lambda _: spec, getattr(stack, name))

    return type(stack)(**{name: of(name) for name in stack._fields})


def spread_points(points: Any, data_parts: int, mesh: Mesh) -> Any:
    """Places arrays of points, stacked by data part, on the devices: each gets those of its part.

    Args:
      points: arrays whose first axis is this process's data parts; with one part, no such axis.
      data_parts: the size of `data`.
      mesh: the devices.
    """
    if data_parts == 1:
        return replicate(points, mesh)
    return jax.tree.map(lambda leaf: _spread_data_parts(leaf, 0, mesh), points)


def points_specs(resident: Any, data_parts: int) -> Any:
    """How the arrays of `spread_points` are sharded: a PartitionSpec for each leaf."""
    spec = PartitionSpec(DATA) if data_parts > 1 else PartitionSpec()
    return jax.tree.map(lambda _: spec, resident)


def spread_stack(stack: Any, data_parts: int, mesh: Mesh) -> Any:
    """Places the batches of a dispatch, of which this process has made only its own data parts."""

    def placed(leaf: Any, spec: PartitionSpec) -> jax.Array:
        return _spread_data_parts(leaf, 1, mesh) if len(spec) == 2 else replicate(leaf, mesh)

    return jax.tree.map(placed, stack, stack_specs(stack, data_parts))


def _spread_data_parts(array: np.ndarray, axis: int, mesh: Mesh) -> jax.Array:
    """Places an array, of which this process has its own data parts along an axis, on a mesh."""
    start, data_parts = local_data_parts(mesh).start, mesh.shape[DATA]
    shape = (*array.shape[:axis], data_parts, *array.shape[axis + 1 :])

    def part(index: Any) -> np.ndarray:
        first, last, _ = index[axis].indices(data_parts)
        return array[(slice(None),) * axis + (slice(first - start, last - start),)]

    spec = PartitionSpec(*[None] * axis, DATA)
    return make_global_array(shape, NamedSharding(mesh, spec), part)

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
from snm.distributed.processes import replicate

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


def stack_specs(stack: Any, mesh: Mesh) -> Any:
    """How the batches of a dispatch are sharded: what belongs to points is cut over `data`.

    Args:
      stack: from `Source.stack`; what belongs to points has axes [steps, parts, ...] if there are
        several parts.
      mesh: the devices.

    Returns:
      A PartitionSpec for each leaf.
    """

    def of(name: str) -> Any:
        cut = mesh.shape[DATA] > 1 and name in POINT_FIELDS
        spec = PartitionSpec(None, DATA) if cut else PartitionSpec()
        return jax.tree.map(lambda _: spec, getattr(stack, name))

    return type(stack)(**{name: of(name) for name in stack._fields})


def points_specs(points: Any, mesh: Mesh) -> Any:
    """How the arrays of `spread_points` are sharded: a PartitionSpec for each leaf."""
    spec = PartitionSpec(DATA) if mesh.shape[DATA] > 1 else PartitionSpec()
    return jax.tree.map(lambda _: spec, points)


def spread_points(points: Any, mesh: Mesh | None) -> Any:
    """Places arrays of points, stacked by data part, on the devices: each gets those of its part.

    Args:
      points: arrays whose first axis is this process's data parts; with one part, no such axis.
      mesh: the devices; None leaves the arrays where they are.
    """
    if mesh is None:
        return points
    if mesh.shape[DATA] == 1:
        return replicate(points, mesh)
    return jax.tree.map(lambda leaf: _spread_data_parts(leaf, 0, mesh), points)


def spread_stack(stack: Any, mesh: Mesh | None) -> Any:
    """Places the batches of a dispatch, of which this process has made only its own data parts.

    Args:
      stack: as in `stack_specs`.
      mesh: the devices; None leaves the arrays where they are.
    """
    if mesh is None:
        return stack

    def placed(leaf: Any, spec: PartitionSpec) -> jax.Array:
        return _spread_data_parts(leaf, 1, mesh) if len(spec) == 2 else replicate(leaf, mesh)

    return jax.tree.map(placed, stack, stack_specs(stack, mesh))


def _spread_data_parts(array: np.ndarray, axis: int, mesh: Mesh) -> jax.Array:
    """Places an array, of which this process has its own data parts along an axis, on a mesh."""
    start, data_parts = local_data_parts(mesh).start, mesh.shape[DATA]
    shape = (*array.shape[:axis], data_parts, *array.shape[axis + 1 :])

    def part(index: Any) -> np.ndarray:
        first, last, _ = index[axis].indices(data_parts)
        return array[(slice(None),) * axis + (slice(first - start, last - start),)]

    spec = PartitionSpec(*[None] * axis, DATA)
    return jax.make_array_from_callback(shape, NamedSharding(mesh, spec), part)

"""Batches on a mesh: which axis each array is sharded over, and placement on devices."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from snm.batches.source import OF_POINTS
from snm.distributed.mesh import DATA
from snm.distributed.processes import everywhere, on_devices

__all__ = [
    "lanes_here",
    "points_specs",
    "spread_lanes",
    "spread_points",
    "spread_stack",
    "stack_specs",
]


def lanes_here(mesh: Mesh) -> range:
    """The parts of a batch that devices of this process hold."""
    mine = [place[0] for place, device in np.ndenumerate(mesh.devices)
            if device.process_index == jax.process_index()]  # fmt: skip
    return range(min(mine), max(mine) + 1)


def stack_specs(stack: Any, lanes: int) -> Any:
    """How a dispatch's batches lie: what belongs to points is cut over `data`."""

    def of(name: str) -> Any:
        spec = PartitionSpec(None, DATA) if lanes > 1 and name in OF_POINTS else PartitionSpec()
        return jax.tree.map(lambda _: spec, getattr(stack, name))

    return type(stack)(**{name: of(name) for name in stack._fields})


def spread_points(points: Any, lanes: int, mesh: Mesh) -> Any:
    """Arrays of points, stacked by lane, on the devices: each has those of its lane."""
    if lanes == 1:
        return everywhere(points, mesh)
    return jax.tree.map(lambda leaf: spread_lanes(leaf, 0, mesh), points)


def points_specs(resident: Any, lanes: int) -> Any:
    """How they lie."""
    spec = PartitionSpec(DATA) if lanes > 1 else PartitionSpec()
    return jax.tree.map(lambda _: spec, resident)


def spread_stack(stack: Any, lanes: int, mesh: Mesh) -> Any:
    """A dispatch's batches on a mesh, of which this process has made only its own lanes."""

    def placed(leaf: Any, spec: PartitionSpec) -> jax.Array:
        return spread_lanes(leaf, 1, mesh) if len(spec) == 2 else everywhere(leaf, mesh)

    return jax.tree.map(placed, stack, stack_specs(stack, lanes))


def spread_lanes(array: np.ndarray, axis: int, mesh: Mesh) -> jax.Array:
    """An array on a mesh, of which this process has made its own lanes, along an axis of them."""
    start, lanes = lanes_here(mesh).start, mesh.shape[DATA]
    shape = (*array.shape[:axis], lanes, *array.shape[axis + 1 :])

    def part(index: Any) -> np.ndarray:
        first, last, _ = index[axis].indices(lanes)
        return array[(slice(None),) * axis + (slice(first - start, last - start),)]

    spec = PartitionSpec(*[None] * axis, DATA)
    return on_devices(shape, NamedSharding(mesh, spec), part)

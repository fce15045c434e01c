"""Parameters on a mesh: how they are sharded, initialised in place, and copied to the host."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from snm.distributed.host_copy import host_copy
from snm.distributed.mesh import on_mesh, table_axes
from snm.distributed.processes import make_global_array
from snm.head.state import Head
from snm.machine.compiler import answer_options
from snm.model.inference import join
from snm.model.model import Model, TrainState, abstract_state, init_state
from snm.tables.table import RowTable

__all__ = [
    "abstract_on",
    "gathered",
    "initial",
    "jitted_start",
    "join_on_mesh",
    "shapes_on",
    "spread",
    "state_specs",
    "table_bytes",
    "without_added",
]


def state_specs(state: TrainState, mesh: Mesh) -> TrainState:
    """The `PartitionSpec` of each array of a state, in the structure of the state."""
    replicate = PartitionSpec()
    axes = table_axes(mesh)

    def by_rows(of: Any, axis: str | None = axes.label) -> Any:
        return jax.tree.map(lambda x: PartitionSpec(axis, *[None] * (len(x.shape) - 1)), of)

    return TrainState(
        features=by_rows(state.features, axes.features),
        tower=jax.tree.map(lambda _: replicate, state.tower),
        tower_state=jax.tree.map(lambda _: replicate, state.tower_state),
        head=Head(by_rows(state.head.table), by_rows(state.head.bias), replicate),  # type: ignore[arg-type]
    )


def initial(
    model: Model, mesh: Mesh | None = None, *, seed: int = 0, rows: bool = True
) -> TrainState:
    """`init_state`, compiled; on a mesh, each device makes its shard, with equal numbers.

    Args:
      model: the description.
      mesh: the devices, or None for one.
      seed: of the parameters; its lowest 32 bits count.
      rows: whether to make the rows of the tables; without, they are None, and need no room.
    """
    return jitted_start(model, mesh, rows)(np.uint32(seed % 2**32))


@functools.lru_cache(maxsize=8)
def jitted_start(model: Model, mesh: Mesh | None, rows: bool = True) -> jax.stages.Wrapped:
    """`jax.jit` of `init_state`, which members share; it takes a seed.

    It compiles at its first call, or by `.lower(...).compile()`.
    """

    def init(seed: jax.Array, **parts: Any) -> TrainState:
        state = init_state(model, seed, **parts)
        return state if rows else _without_rows(state)

    if mesh is None:
        return jax.jit(init, compiler_options=answer_options())
    axes = table_axes(mesh)

    def own(seed: jax.Array) -> TrainState:
        part, feature_part = (
            (jax.lax.axis_index(axis), mesh.shape[axis]) for axis in (axes.label, axes.features)
        )
        return init(seed, part=part, feature_part=feature_part)

    shapes = jax.eval_shape(init, np.uint32(0))
    start = on_mesh(mesh, own, (PartitionSpec(),), state_specs(shapes, mesh))
    return jax.jit(start, compiler_options=answer_options())


def _without_rows(state: TrainState) -> TrainState:
    def bare(table: RowTable) -> RowTable:
        return dataclasses.replace(table, rows=None)  # type: ignore[arg-type]

    head = dataclasses.replace(state.head, table=bare(state.head.table))
    return dataclasses.replace(state, features=bare(state.features), head=head)


def spread(state: TrainState, mesh: Mesh) -> TrainState:
    """A state of the host or of one device, sharded over a mesh."""

    def placed(x: Any, like: Any) -> jax.Array:
        x = np.asarray(x)

        def part(index: Any) -> np.ndarray:
            rows = x[index]
            if not index:
                return rows
            first, last, _ = index[0].indices(like.shape[0])
            return np.pad(rows, [(0, last - first - len(rows))] + [(0, 0)] * (x.ndim - 1))

        return make_global_array(like.shape, like.sharding, part)

    return jax.tree.map(placed, state, shapes_on(state, mesh))


def abstract_on(mesh: Mesh | None, model: Model) -> TrainState:
    """Shapes, dtypes and, on a mesh, shardings of a state, without arrays."""
    state = abstract_state(model)
    return state if mesh is None else shapes_on(state, mesh)


def table_bytes(model: Model, mesh: Mesh | None = None) -> list[int]:
    """Bytes of the feature rows and of the class rows that each device holds, of all members."""
    state = abstract_on(mesh, model)

    def own(rows: Any) -> int:
        shape = rows.shape if mesh is None else rows.sharding.shard_shape(rows.shape)
        return math.prod(shape) * rows.dtype.itemsize * model.members

    return [own(state.features.rows), own(state.head.table.rows)]


def shapes_on(state: TrainState, mesh: Mesh) -> TrainState:
    """Shapes, dtypes and shardings on a mesh of a state, given as shapes or arrays."""

    def one(x: Any, spec: PartitionSpec) -> jax.ShapeDtypeStruct:
        shape = list(x.shape)
        if len(spec):
            shape[0] += -shape[0] % mesh.shape[spec[0]]
        return jax.ShapeDtypeStruct(tuple(shape), x.dtype, sharding=NamedSharding(mesh, spec))

    return jax.tree.map(one, state, state_specs(state, mesh))


def join_on_mesh(states: list[TrainState], mesh: Mesh) -> TrainState:
    """`inference.join` of states that are sharded over a mesh; the result is too."""
    if len(states) == 1:
        return states[0]
    specs = state_specs(jax.eval_shape(join, states), mesh)
    places = jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs)
    return jax.jit(join, out_shardings=places)(states)


def gathered(state: TrainState, model: Model) -> TrainState:
    """A copy on the host without padding rows, as checkpoints hold it."""
    return without_added(host_copy(state), model)


def without_added(whole: TrainState, model: Model) -> TrainState:
    """A state of the host without padding rows: views, no copies."""

    def cut(table: Any, count: int) -> Any:
        return jax.tree.map(lambda x: x[:count], table)

    labels = model.spec.num_labels
    head = dataclasses.replace(
        whole.head, table=cut(whole.head.table, labels), bias=cut(whole.head.bias, labels)
    )
    return dataclasses.replace(whole, features=cut(whole.features, model.num_features), head=head)

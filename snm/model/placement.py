"""Parameters on a mesh: how they are sharded, initialized in place, and copied to the host."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from snm.distributed.host_copy import host_copy
from snm.distributed.mesh import on_mesh, table_axes
from snm.head.state import Head
from snm.machine.compiler import answer_options
from snm.machine.platform import cached_by_platform
from snm.model.inference import join_members
from snm.model.model import Model, TrainState, abstract_state, init_state
from snm.tables.table import RowTable

__all__ = [
    "abstract_state_on",
    "gather_to_host",
    "init_state_on",
    "jitted_init",
    "join_members_on_mesh",
    "remove_padding_rows",
    "shard_state",
    "sharded_shapes",
    "state_specs",
    "table_bytes",
]


def state_specs(state: TrainState, mesh: Mesh) -> TrainState:
    """The `PartitionSpec` of each array of a state, in the structure of the state."""
    replicated = PartitionSpec()
    axes = table_axes(mesh)

    def by_rows(arrays: Any, axis: str | None = axes.label) -> Any:
        return jax.tree.map(lambda x: PartitionSpec(axis, *[None] * (len(x.shape) - 1)), arrays)

    return TrainState(
        features=by_rows(state.features, axes.features),
        tower=jax.tree.map(lambda _: replicated, state.tower),
        tower_state=jax.tree.map(lambda _: replicated, state.tower_state),
        head=Head(by_rows(state.head.table), by_rows(state.head.bias), replicated),  # type: ignore[arg-type]
    )


def init_state_on(
    model: Model, mesh: Mesh | None = None, *, seed: int = 0, rows: bool = True
) -> TrainState:
    """`init_state`, compiled; on a mesh, each device makes its own shard, with the same values.

    Args:
      model: the description.
      mesh: the devices, or None for one.
      seed: of the parameters; its lowest 32 bits count.
      rows: whether to make the rows of the tables; if not, they are None and take no memory.
    """
    return jitted_init(model, mesh, rows)(np.uint32(seed % 2**32))


@cached_by_platform(maxsize=8)
def jitted_init(model: Model, mesh: Mesh | None, rows: bool = True) -> jax.stages.Wrapped:
    """`jax.jit` of `init_state` as a function of the seed; all members share it.

    It compiles at its first call, or by `.lower(...).compile()`.
    """

    def init(seed: jax.Array, **parts: Any) -> TrainState:
        state = init_state(model, seed, **parts)
        return state if rows else _without_rows(state)

    if mesh is None:
        return jax.jit(init, compiler_options=answer_options())
    axes = table_axes(mesh)

    def init_shard(seed: jax.Array) -> TrainState:
        part, feature_part = (
            (jax.lax.axis_index(axis), mesh.shape[axis]) for axis in (axes.label, axes.features)
        )
        return init(seed, part=part, feature_part=feature_part)

    shapes = jax.eval_shape(init, np.uint32(0))
    sharded_init = on_mesh(mesh, init_shard, (PartitionSpec(),), state_specs(shapes, mesh))
    return jax.jit(sharded_init, compiler_options=answer_options())


def _without_rows(state: TrainState) -> TrainState:
    def remove_rows(table: RowTable) -> RowTable:
        return dataclasses.replace(table, rows=None)  # type: ignore[arg-type]

    head = dataclasses.replace(state.head, table=remove_rows(state.head.table))
    return dataclasses.replace(state, features=remove_rows(state.features), head=head)


def shard_state(state: TrainState, mesh: Mesh) -> TrainState:
    """Shards a state of the host or of one device over a mesh."""

    def shard_array(x: Any, target: Any) -> jax.Array:
        x = np.asarray(x)

        def shard_at(index: Any) -> np.ndarray:
            rows = x[index]
            if not index:
                return rows
            first, last, _ = index[0].indices(target.shape[0])
            return np.pad(rows, [(0, last - first - len(rows))] + [(0, 0)] * (x.ndim - 1))

        return jax.make_array_from_callback(target.shape, target.sharding, shard_at)

    return jax.tree.map(shard_array, state, sharded_shapes(state, mesh))


def abstract_state_on(mesh: Mesh | None, model: Model) -> TrainState:
    """Shapes, dtypes and, on a mesh, shardings of a state, without arrays."""
    state = abstract_state(model)
    return state if mesh is None else sharded_shapes(state, mesh)


def table_bytes(model: Model, mesh: Mesh | None = None) -> list[int]:
    """Bytes of the feature rows and of the class rows per device, of all members."""
    state = abstract_state_on(mesh, model)

    def bytes_per_device(rows: Any) -> int:
        shape = rows.shape if mesh is None else rows.sharding.shard_shape(rows.shape)
        return math.prod(shape) * rows.dtype.itemsize * model.members

    return [bytes_per_device(state.features.rows), bytes_per_device(state.head.table.rows)]


def sharded_shapes(state: TrainState, mesh: Mesh) -> TrainState:
    """Shapes, dtypes and shardings of a state on a mesh; `state` has shapes or arrays.

    The rows of sharded tables are padded to a multiple of the number of shards.
    """

    def shape_of(x: Any, spec: PartitionSpec) -> jax.ShapeDtypeStruct:
        shape = list(x.shape)
        if len(spec):
            shape[0] += -shape[0] % mesh.shape[spec[0]]
        return jax.ShapeDtypeStruct(tuple(shape), x.dtype, sharding=NamedSharding(mesh, spec))

    return jax.tree.map(shape_of, state, state_specs(state, mesh))


def join_members_on_mesh(states: list[TrainState], mesh: Mesh) -> TrainState:
    """`inference.join_members` of states that are sharded over a mesh, as the result is."""
    if len(states) == 1:
        return states[0]
    specs = state_specs(jax.eval_shape(join_members, states), mesh)
    shardings = jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs)
    return jax.jit(join_members, out_shardings=shardings)(states)


def gather_to_host(state: TrainState, model: Model) -> TrainState:
    """A copy of a state on the host without padding rows, as checkpoints store it."""
    return remove_padding_rows(host_copy(state), model)


def remove_padding_rows(state: TrainState, model: Model) -> TrainState:
    """A state on the host without padding rows: views, no copies."""

    def first_rows(table: Any, count: int) -> Any:
        return jax.tree.map(lambda x: x[:count], table)

    num_labels = model.spec.num_labels
    head = dataclasses.replace(
        state.head,
        table=first_rows(state.head.table, num_labels),
        bias=first_rows(state.head.bias, num_labels),
    )
    features = first_rows(state.features, model.num_features)
    return dataclasses.replace(state, features=features, head=head)

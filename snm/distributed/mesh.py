"""Meshes: parsing `--mesh`, laying parameters and batches out over devices, and back onto one.

Class rows are cut over `label`, feature rows over the longer axis, everything else of the
parameters is on every device. Tables get as many rows more as make the parts equal; the rows that
were added are zeros, are no label or feature, and never change. What is kept in files has none of
them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from snm.batches.source import OF_POINTS
from snm.distributed.host_copy import host_copy
from snm.distributed.processes import everywhere, on_devices
from snm.errors import InputError
from snm.head.head import Head
from snm.model.model import Model, TrainState, abstract_state, init_state, join

__all__ = ["DATA", "LABEL", "abstract_on", "feature_axis", "gathered", "initial", "joined",
           "lanes_here", "make_mesh", "on_mesh", "parse_mesh", "points_specs", "shapes_on",
           "spread", "spread_lanes", "spread_points", "spread_stack", "stack_specs",
           "state_specs", "table_axes",
           "without_added"]  # fmt: skip

DATA, LABEL = "data", "label"


def parse_mesh(text: str) -> tuple[int, int]:
    """The sizes of `data` and `label` in `data=2,label=4`; an axis that is not named has 1.

    Raises:
      InputError: anything else.

    Example:
      >>> parse_mesh("data=2,label=4"), parse_mesh("label=8"), parse_mesh("")
      ((2, 4), (1, 8), (1, 1))
    """
    sizes = {DATA: 1, LABEL: 1}
    seen = set()
    for part in filter(None, text.replace(" ", "").split(",")):
        name, _, size = part.partition("=")
        if name not in sizes or name in seen or not size.isdecimal() or int(size) < 1:
            raise InputError("--mesh", repr(text), "for example data=2,label=4")
        seen.add(name)
        sizes[name] = int(size)
    return sizes[DATA], sizes[LABEL]


def make_mesh(text: str, num_labels: int, batch_size: int) -> Mesh | None:
    """The mesh of a setting, over the first devices of each process; None for one device.

    The devices of a process stand together, first along `label`, so that where `label` divides
    them all that crosses it stays within the process.

    Raises:
      InputError: more devices than there are, or a number that the processes cannot share
        equally; fewer labels than parts, a batch that the parts do not divide.
    """
    data, label = parse_mesh(text)
    processes = jax.process_count()
    if data * label == 1 and processes == 1:
        return None
    if data * label % processes:
        expected = f"a multiple of the {processes} processes, for example data={processes}"
        raise InputError(f"--mesh {text}".rstrip(), f"{data * label} devices", expected)
    each = data * label // processes
    of_process = [
        [device for device in jax.devices() if device.process_index == number][:each]
        for number in range(processes)
    ]
    chosen = [device for devices in of_process for device in devices]
    if len(chosen) < data * label:
        hint = " (on a CPU, XLA_FLAGS=--xla_force_host_platform_device_count=N makes N)"
        more = hint if jax.default_backend() == "cpu" else ""
        where = "here" if processes == 1 else f"of {processes} processes"
        found = f"{data * label} devices"
        raise InputError(f"--mesh {text}", found, f"at most the {len(jax.devices())} {where}{more}")
    if num_labels < label:
        raise InputError(f"--mesh {text}", f"{num_labels} labels", f"at least one a part ({label})")
    if batch_size % data:
        expected = f"a multiple of data={data}"
        raise InputError(f"--mesh {text}", f"--batch-size {batch_size}", expected)
    return Mesh(np.asarray(chosen).reshape(data, label), (DATA, LABEL))


def feature_axis(data: int, label: int) -> str:
    """The axis that the feature table is cut over, by their sizes: the longer one.

    The more parts, the fewer rows a device holds, and steps. Of equal sizes it is `label`: its
    parts have the same points and add up their sums, where those of `data` must also tell each
    other their points.

    Example:
      >>> feature_axis(data=8, label=1), feature_axis(data=2, label=4), feature_axis(2, 2)
      ('data', 'label', 'label')
    """
    return DATA if data > label else LABEL


def table_axes(mesh: Mesh) -> dict[str, str]:
    """Names of the mesh axes that the tables are cut over, as keyword arguments of a step."""
    return {"label_axis": LABEL, "feature_axis": feature_axis(mesh.shape[DATA], mesh.shape[LABEL])}


def lanes_here(mesh: Mesh) -> range:
    """The parts of a batch that devices of this process hold."""
    mine = [place[0] for place, device in np.ndenumerate(mesh.devices)
            if device.process_index == jax.process_index()]  # fmt: skip
    return range(min(mine), max(mine) + 1)


def state_specs(state: TrainState, mesh: Mesh) -> TrainState:
    """How parameters lie on a mesh: a partition for each array, in the state's structure."""
    everywhere = PartitionSpec()
    axes = table_axes(mesh)

    def by_rows(of: Any, axis: str = axes["label_axis"]) -> Any:
        return jax.tree.map(lambda x: PartitionSpec(axis, *[None] * (len(x.shape) - 1)), of)

    return TrainState(
        features=by_rows(state.features, axes["feature_axis"]),
        tower=jax.tree.map(lambda _: everywhere, state.tower),
        tower_state=jax.tree.map(lambda _: everywhere, state.tower_state),
        head=Head(by_rows(state.head.table), by_rows(state.head.bias), everywhere),  # type: ignore[arg-type]
    )


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


def on_mesh(mesh: Mesh, run: Callable[..., Any], in_specs: Any, out_specs: Any) -> Any:
    """`run` on every device of a mesh, each with its part."""
    # The loops over rows start from constants, which the check of varying axes refuses.
    return jax.shard_map(run, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)


def initial(model: Model, mesh: Mesh) -> TrainState:
    """`init_state` on a mesh, the same numbers: every device makes its own rows, and no other."""
    axes = table_axes(mesh)

    def own() -> TrainState:
        part, feature_part = (
            (jax.lax.axis_index(axis), mesh.shape[axis])
            for axis in (axes["label_axis"], axes["feature_axis"])
        )
        return init_state(model, part=part, feature_part=feature_part)

    return jax.jit(on_mesh(mesh, own, (), state_specs(abstract_state(model), mesh)))()


def spread(state: TrainState, mesh: Mesh) -> TrainState:
    """A state of the host or of one device, laid out on a mesh."""

    def placed(x: Any, like: Any) -> jax.Array:
        x = np.asarray(x)

        def part(index: Any) -> np.ndarray:
            rows = x[index]
            if not index:
                return rows
            first, last, _ = index[0].indices(like.shape[0])
            return np.pad(rows, [(0, last - first - len(rows))] + [(0, 0)] * (x.ndim - 1))

        return on_devices(like.shape, like.sharding, part)

    return jax.tree.map(placed, state, shapes_on(state, mesh))


def abstract_on(mesh: Mesh | None, model: Model) -> TrainState:
    """Shapes, types and, on a mesh, places of a state, without its arrays."""
    state = abstract_state(model)
    return state if mesh is None else shapes_on(state, mesh)


def shapes_on(state: TrainState, mesh: Mesh) -> TrainState:
    """Shapes, types and places on a mesh of a state that is given in shapes or arrays."""

    def one(x: Any, spec: PartitionSpec) -> jax.ShapeDtypeStruct:
        shape = list(x.shape)
        if len(spec):
            shape[0] += -shape[0] % mesh.shape[spec[0]]
        return jax.ShapeDtypeStruct(tuple(shape), x.dtype, sharding=NamedSharding(mesh, spec))

    return jax.tree.map(one, state, state_specs(state, mesh))


def joined(states: list[TrainState], mesh: Mesh) -> TrainState:
    """`join` of states that lie on a mesh, where they lie."""
    if len(states) == 1:
        return states[0]
    specs = state_specs(jax.eval_shape(join, states), mesh)
    places = jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs)
    return jax.jit(join, out_shardings=places)(states)


def gathered(state: TrainState, model: Model) -> TrainState:
    """A state as it is kept in files: on the host, without the rows that a mesh added."""
    return without_added(host_copy(state), model)


def without_added(whole: TrainState, model: Model) -> TrainState:
    """A state of the host without the rows that a mesh added: views, no copies."""

    def cut(table: Any, count: int) -> Any:
        return jax.tree.map(lambda x: x[:count], table)

    labels = model.head.num_labels
    head = dataclasses.replace(
        whole.head, table=cut(whole.head.table, labels), bias=cut(whole.head.bias, labels)
    )
    return dataclasses.replace(whole, features=cut(whole.features, model.num_features), head=head)

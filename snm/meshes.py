"""Meshes: parsing `--mesh`, laying parameters and batches out over devices, and back onto one.

Both tables are cut by rows over `label`, everything else of the parameters is on every device.
Tables get as many rows more as make the parts equal; the rows that were added are zeros, are no
label or feature, and never change. What is kept in files has none of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from snm.batches import OF_POINTS
from snm.errors import InputError
from snm.head import Head
from snm.model import Model, TrainState, abstract_state, init_state

__all__ = ["DATA", "LABEL", "gathered", "initial", "make_mesh", "on_mesh", "parse_mesh", "spread",
           "stack_specs", "state_specs"]  # fmt: skip

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
    """The mesh of a setting, over the first devices; None for one device.

    Raises:
      InputError: more devices than there are, fewer labels than parts, a batch that the parts
        do not divide.
    """
    data, label = parse_mesh(text)
    if data * label == 1:
        return None
    if data * label > len(jax.devices()):
        hint = " (on a CPU, XLA_FLAGS=--xla_force_host_platform_device_count=N makes N)"
        more = hint if jax.default_backend() == "cpu" else ""
        found = f"{data * label} devices"
        raise InputError(f"--mesh {text}", found, f"at most the {len(jax.devices())} here{more}")
    if num_labels < label:
        raise InputError(f"--mesh {text}", f"{num_labels} labels", f"at least one a part ({label})")
    if batch_size % data:
        expected = f"a multiple of data={data}"
        raise InputError(f"--mesh {text}", f"--batch-size {batch_size}", expected)
    devices = np.asarray(jax.devices()[: data * label]).reshape(data, label)
    return Mesh(devices, (DATA, LABEL))


def state_specs(state: TrainState) -> TrainState:
    """How parameters lie on a mesh: a partition for each array, in the state's structure."""
    everywhere = PartitionSpec()

    def by_rows(of: Any) -> Any:
        return jax.tree.map(lambda x: PartitionSpec(LABEL, *[None] * (len(x.shape) - 1)), of)

    return TrainState(
        features=by_rows(state.features),
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


def on_mesh(mesh: Mesh, run: Callable[..., Any], in_specs: Any, out_specs: Any) -> Any:
    """`run` on every device of a mesh, each with its part."""
    # The loops over rows start from constants, which the check of varying axes refuses.
    return jax.shard_map(run, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)


def initial(model: Model, mesh: Mesh) -> TrainState:
    """`init_state` on a mesh, the same numbers: every device makes its own rows, and no other."""
    parts = mesh.shape[LABEL]

    def own() -> TrainState:
        return init_state(model, part=(jax.lax.axis_index(LABEL), parts))

    return jax.jit(on_mesh(mesh, own, (), state_specs(abstract_state(model))))()


def spread(state: TrainState, mesh: Mesh) -> TrainState:
    """A state of the host or of one device, laid out on a mesh."""
    parts = mesh.shape[LABEL]

    def placed(x: Any, spec: PartitionSpec) -> jax.Array:
        x = np.asarray(x)
        if len(spec) and spec[0] == LABEL:
            x = np.pad(x, [(0, -len(x) % parts)] + [(0, 0)] * (x.ndim - 1))
        return jax.device_put(x, NamedSharding(mesh, spec))

    return jax.tree.map(placed, state, state_specs(state))


def gathered(state: TrainState, model: Model) -> TrainState:
    """A state as it is kept in files: on the host, without the rows that a mesh added."""
    whole = jax.tree.map(_on_host, state)

    def cut(table: Any, count: int) -> Any:
        return jax.tree.map(lambda x: x[:count], table)

    labels = model.head.num_labels
    head = dataclasses.replace(
        whole.head, table=cut(whole.head.table, labels), bias=cut(whole.head.bias, labels)
    )
    return dataclasses.replace(whole, features=cut(whole.features, model.num_features), head=head)


def _on_host(x: jax.Array) -> np.ndarray:
    """From the parts themselves: an array keeps a view of its whole, and cannot be donated then."""
    out = np.empty(x.shape, x.dtype)
    for part in x.addressable_shards:
        out[part.index] = np.asarray(part.data)
    return out

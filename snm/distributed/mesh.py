"""Parses `--mesh` and builds the device mesh.

The axis `label` shards the class rows, the larger axis shards the feature rows, and all other
parameters are replicated. Tables are padded with rows of zeros to make the shards equal. Padding
rows belong to no label or feature, never change, and are not written to files.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from snm.errors import InputError

__all__ = [
    "DATA",
    "LABEL",
    "ONE_DEVICE",
    "Axes",
    "feature_axis",
    "make_mesh",
    "on_mesh",
    "parse_mesh",
    "table_axes",
    "training_axes",
]

DATA, LABEL = "data", "label"


def parse_mesh(text: str) -> tuple[int, int]:
    """The sizes of `data` and `label` in `data=2,label=4`; an axis that is not named has size 1.

    Raises:
      InputError: the text has another form.

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
    """Builds a mesh from the first devices of each process; None for one device.

    The devices of a process are adjacent, along `label` first. So if `label` divides their number,
    communication along `label` stays within a process.

    Raises:
      InputError: the mesh needs more devices than there are, or a number that is no multiple of the
        processes; there are fewer labels than `label` shards; `data` does not divide the batch.
    """
    data, label = parse_mesh(text)
    processes = jax.process_count()
    if data * label == 1 and processes == 1:
        return None
    if data * label % processes:
        expected = f"a multiple of the {processes} processes, for example data={processes}"
        raise InputError(f"--mesh {text}".rstrip(), f"{data * label} devices", expected)
    per_process = data * label // processes
    by_process = [
        [device for device in jax.devices() if device.process_index == number][:per_process]
        for number in range(processes)
    ]
    chosen = [device for devices in by_process for device in devices]
    if len(chosen) < data * label:
        hint = " (with JAX_NUM_CPU_DEVICES=N, a CPU simulates N)"
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
    """The axis that shards the feature table, given the sizes of both: the larger one.

    More shards mean fewer rows to hold and to step on each device. At equal sizes it is `label`:
    its devices have the same examples and only sum their results, whereas the devices along `data`
    must exchange their examples as well.

    Example:
      >>> feature_axis(data=8, label=1), feature_axis(data=2, label=4), feature_axis(2, 2)
      ('data', 'label', 'label')
    """
    return DATA if data > label else LABEL


class Axes(NamedTuple):
    """The mesh axes that shard a step or a prediction; None where nothing is sharded.

    Attributes:
      label: shards the class rows.
      features: shards the feature rows; equal to one of the other two.
      data: shards the points; see `snm.distributed.collectives`. Without it, all devices have the
        same points.
    """

    label: str | None = None
    features: str | None = None
    data: str | None = None


ONE_DEVICE = Axes()
"""Nothing is sharded."""


def table_axes(mesh: Mesh) -> Axes:
    """The mesh axes that shard the class and feature tables, for points that are not sharded."""
    return Axes(LABEL, feature_axis(mesh.shape[DATA], mesh.shape[LABEL]))


def training_axes(mesh: Mesh | None) -> Axes:
    """The mesh axes of a training step, whose points are sharded as well."""
    return ONE_DEVICE if mesh is None else table_axes(mesh)._replace(data=DATA)


def on_mesh(mesh: Mesh, run: Callable[..., Any], in_specs: Any, out_specs: Any) -> Any:
    """`jax.shard_map` of `run` over a mesh."""
    # check_vma rejects the loops over rows, because they start from constants.
    return jax.shard_map(run, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)

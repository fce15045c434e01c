"""Meshes: parsing `--mesh`, laying parameters and batches out over devices, and back onto one.

Class rows are cut over `label`, feature rows over the longer axis, everything else of the
parameters is on every device. Tables get as many rows more as make the parts equal; the rows that
were added are zeros, are no label or feature, and never change. What is kept in files has none of
them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from snm.errors import InputError

__all__ = ["DATA", "LABEL", "feature_axis", "make_mesh", "on_mesh", "parse_mesh", "table_axes"]

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


def on_mesh(mesh: Mesh, run: Callable[..., Any], in_specs: Any, out_specs: Any) -> Any:
    """`run` on every device of a mesh, each with its part."""
    # The loops over rows start from constants, which the check of varying axes refuses.
    return jax.shard_map(run, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)

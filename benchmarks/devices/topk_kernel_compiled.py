"""Compiles the kernel of `snm.topk` for TPUs that this machine lacks; see `topk_kernel`."""

from __future__ import annotations

import dataclasses
import re
import time
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import SingleDeviceSharding

from snm.machine.platform import compiling_for
from snm.targets import devices
from snm.targets.account import account
from snm.targets.module import Module
from snm.targets.table import TARGETS
from snm.topk import Masked, product_top_k

MIB = 2**20
QUERIES, SLOTS, DIM = 512, 32768, 512  # the batch, the sample and the rows of `amazon670k`


@dataclasses.dataclass(frozen=True)
class Search:
    """A search for the best of a sample, compiled for a target.

    Attributes:
      target: its name.
      count: k'.
      dtype: of the rows.
      dim: of the rows.
      kernel: auto, which takes it for these sizes on a TPU, or off.
    """

    target: str
    count: int
    dtype: str = "float32"
    dim: int = DIM
    kernel: str = "auto"

    @property
    def name(self) -> str:
        """The name in the results."""
        kernel = "kernel" if self.kernel == "auto" else "XLA"
        return f"{self.target}, k' {self.count}, {self.dtype}, dim {self.dim}, {kernel}"

    def compiled(self, device: Any) -> Any:
        """The search with a bias and a slot left out of each query."""
        place = SingleDeviceSharding(device)
        target = TARGETS[self.target]

        def shape(*sizes: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct(sizes, dtype, sharding=place)

        def search(queries: Any, rows: Any, bias: Any, own: Any) -> Any:
            masked = Masked(jnp.arange(QUERIES, dtype=jnp.int32), own)
            return product_top_k(
                queries, rows, self.count, bias=bias, masked=masked, kernel=self.kernel
            )

        rows = shape(SLOTS, self.dim, dtype=jnp.dtype(self.dtype))
        with (
            compiling_for(target.backend, target.memory),
            jax.default_matmul_precision("float32"),
        ):
            own = shape(QUERIES, dtype=jnp.int32)
            lowered = jax.jit(search).lower(shape(QUERIES, self.dim), rows, shape(SLOTS), own)
            return devices.compile_for_target(lowered)

    def row(self) -> dict[str, Any]:
        """Statistics of the compiler."""
        (device,) = devices.make_devices(TARGETS[self.target], 1)
        begun = time.perf_counter()
        compiled = self.compiled(device)
        seconds = time.perf_counter() - begun
        module = Module(compiled.as_text())
        found = {
            "temporary_mib": round(compiled.memory_analysis().temp_size_in_bytes / MIB, 1),
            "score_matrix_mib": round(score_bytes(module) / MIB, 1),
            "moved_mib": round(account(module).moved / MIB, 1),
            "compile_seconds": round(seconds),
        }
        if self.kernel == "auto":
            found["on_chip_kib"] = round(on_chip(compiled.as_text()) / 1024, 1)
        return found


def on_chip(text: str) -> int:
    """Bytes of VMEM that the kernel takes."""
    (line,) = [line for line in text.splitlines() if "tpu_custom_call" in line]
    used = line[line.rindex("used_scoped_memory_configs") :]
    return int(re.findall(r'"size":"(\d+)"', used)[0])


def score_bytes(module: Module) -> int:
    """Bytes of the largest result with a score for each query and slot, outside of fusions."""
    inside = {one.called("calls") for one in module.all() if one.opcode == "fusion"}
    return max(
        (
            shape.size
            for name in module.computations
            if name not in inside
            for one in module.computations[name]
            for shape in one.shapes
            if shape.size >= 4 * QUERIES * SLOTS and set(shape.dims) >= {QUERIES, SLOTS}
            and one.opcode != "parameter"
        ),
        default=0,
    )  # fmt: skip


KINDS = ((16, "float32"), (256, "float32"), (16, "bfloat16"))
SEARCHES = [
    *(Search(target, *kind) for target in ("v5e", "v5p", "v6e") for kind in KINDS),
    *(Search(target, *kind, kernel="off") for target in ("v5e", "v5p") for kind in KINDS[:2]),
]

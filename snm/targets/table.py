"""The accelerators that `snm plan --target` knows: peak rates, memory, and their compilers' names.

Rates are the vendors' peaks for one device, dense. A step never reaches them; times that follow
from them are lower bounds.
"""

from __future__ import annotations

import dataclasses

from snm.errors import InputError

__all__ = ["MAX_GPUS", "TARGETS", "Target", "find_target"]


@dataclasses.dataclass(frozen=True)
class Target:
    """An accelerator.

    Attributes:
      name: the name for `--target`.
      platform: the platform of XLA: tpu or cuda.
      memory: bytes of a device.
      bandwidth: bytes a second between a device and its memory.
      rates: operations a second of matrix products, by the type of their factors.
      link: bytes a second that a device sends to others of its host or slice.
      topologies: TPU: number of devices -> libtpu's name; the next larger one serves fewer.
      on_chip: TPU: bytes of its on-chip memory (VMEM).
      gpu: GPU: fields of XLA's text proto `GpuDeviceInfoProto` that differ between GPUs.
      source: the source of the numbers.
    """

    name: str
    platform: str
    memory: int
    bandwidth: float
    rates: dict[str, float]
    link: float
    topologies: dict[int, str] = dataclasses.field(default_factory=dict)
    on_chip: int = 0
    gpu: dict[str, str] = dataclasses.field(default_factory=dict)
    source: str = ""

    @property
    def extra(self) -> str:
        """The extra of this package that installs the compiler."""
        return {"tpu": "target-tpu", "cuda": "target-cuda"}[self.platform]

    @property
    def usable(self) -> int:
        """Bytes that JAX uses: three quarters on a GPU (XLA_PYTHON_CLIENT_MEM_FRACTION)."""
        return self.memory * 3 // 4 if self.platform == "cuda" else self.memory

    @property
    def default_products(self) -> str:
        """The type to which XLA rounds float32 factors if a program specifies no precision."""
        return {"tpu": "bfloat16", "cuda": "tensorfloat32"}[self.platform]

    @property
    def backend(self) -> str:
        """The platform as `jax.default_backend` calls it."""
        return {"tpu": "tpu", "cuda": "gpu"}[self.platform]


def _tpu(
    name: str,
    memory: int,
    on_chip: int,
    bandwidth: float,
    bf16: float,
    link: float,
    topologies: dict[int, str],
) -> Target:
    # XLA computes a float32 product from 6 bfloat16 products, a tensorfloat32 one from 3.
    rates = {"bfloat16": bf16, "tensorfloat32": bf16 / 3, "float32": bf16 / 6}
    source = f"cloud.google.com/tpu/docs/{name}; products of parts: XLA's precision configuration"
    source += "; on-chip memory: jax.experimental.pallas.tpu.get_tpu_info"
    return Target(name, "tpu", memory, bandwidth, rates, link, topologies, on_chip, source=source)


def _gpu(
    name: str, bf16: float, tf32: float, f32: float, link: float, sheet: str, **fields: str
) -> Target:
    rates = {"bfloat16": bf16, "tensorfloat32": tf32, "float32": f32}
    return Target(
        name,
        "cuda",
        int(fields["device_memory_size"]),
        float(fields["memory_bandwidth"]),
        rates,
        link,
        gpu=fields,
        source=f"NVIDIA {sheet} data sheet, dense rates; device: openxla/xla, "
        "xla/backends/gpu/target_config/specs",
    )


TARGETS = {
    target.name: target
    for target in (
        _tpu("v5e", 16 << 30, 128 << 20, 819e9, 197e12, 200e9, {4: "v5e:2x2", 8: "v5e:2x4"}),
        _tpu("v5p", 95 << 30, 64 << 20, 2765e9, 459e12, 600e9, {4: "v5p:2x2x1", 8: "v5p:2x2x2"}),
        _tpu("v6e", 32 << 30, 128 << 20, 1638e9, 918e12, 400e9, {4: "v6e:2x2", 8: "v6e:2x4"}),
        _gpu(
            "h100", 989e12, 495e12, 67e12, 450e9, "H100 SXM", core_count="132",
            clock_rate_ghz="1.98",
            memory_bandwidth="3352320000000", device_memory_size="84942979072",
            l2_cache_size="52428800", capability="9", described="NVIDIA H100 80GB HBM3",
        ),
        _gpu(
            "h200", 989e12, 495e12, 67e12, 450e9, "H200 SXM", core_count="132",
            clock_rate_ghz="1.98",
            memory_bandwidth="4800000000000", device_memory_size="151397597184",
            l2_cache_size="52428800", capability="9", described="NVIDIA H200 141GB HBM3e",
        ),
        _gpu(
            "b200", 2250e12, 1125e12, 75e12, 900e9, "DGX B200", core_count="148",
            clock_rate_ghz="1.965", memory_bandwidth="7672320000000",
            device_memory_size="191514411008", l2_cache_size="132644864", capability="10",
            described="NVIDIA B200",
        ),
    )
}  # fmt: skip
"""Name -> accelerator."""

MAX_GPUS = 8  # of one host


def find_target(text: str) -> tuple[Target, int | None]:
    """The target and the number of devices in `v5e`, `h100-4`; None where no number is given.

    Raises:
      InputError: an unknown name, or a number of devices that the compiler has no name for.

    Example:
      >>> find_target("h100-4")[0].memory, find_target("v5e-8")[1], find_target("v5p")[1]
      (84942979072, 8, None)
    """
    name, dash, number = text.strip().lower().partition("-")
    known = ", ".join(TARGETS)
    if name not in TARGETS:
        raise InputError("--target", repr(text), f"one of {known}, with -N for N devices")
    target = TARGETS[name]
    if not dash:
        return target, None
    most = max(target.topologies, default=MAX_GPUS)
    if not number.isdecimal() or not 1 <= int(number) <= most:
        raise InputError("--target", repr(text), f"{name}-1 to {name}-{most}")
    return target, int(number)

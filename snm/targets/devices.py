"""Descriptions of absent devices, for the compilers of libtpu and of the CUDA plugin."""

from __future__ import annotations

import os
from typing import Any

import jax

from snm.errors import InputError
from snm.targets.table import MAX_GPUS, Target
from snm.text import first_line, pip_install

__all__ = ["compile_for_target", "make_devices", "use_cpus_only"]

# Otherwise libtpu would ask a metadata server, and write logs.
_QUIET = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_LOG_DIR": "disabled",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # nothing is run, so several processes may compile
}


def use_cpus_only() -> None:
    """Makes JAX use CPUs only, even if there is an accelerator; call it before JAX starts.

    The compilers' packages register as devices, which JAX would try to start.
    """
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    jax.config.update("jax_platforms", "cpu")


def make_devices(target: Target, count: int) -> list[Any]:
    """Describes `count` devices of a target, to compile for.

    Raises:
      InputError: the compiler is not installed, or does not support such devices.
    """
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    from jax.experimental import topologies

    options: dict[str, Any] = {}
    if target.platform == "cuda":
        options = {"topology": f"1x1x{MAX_GPUS}", "target_config": _gpu_config(target)}
        name = "gpu"
    else:
        name = next(name for size, name in target.topologies.items() if size >= count)
    try:
        topology = topologies.get_topology_desc(
            platform=target.platform, topology_name=name, **options
        )
    except (RuntimeError, NotImplementedError, ValueError, jax.errors.JaxRuntimeError) as error:
        raise InputError(
            f"--target {target.name}",
            f"no compiler for it ({first_line(error)})",
            pip_install(target.extra),
        ) from None
    return list(topology.devices)[:count]


def compile_for_target(lowered: Any) -> Any:
    """Compiles a lowered program for absent devices, without JAX's persistent cache.

    These compilers cannot read their own cached programs: each compilation after the first would
    fail, with a warning.
    """
    from jax.experimental.compilation_cache.compilation_cache import reset_cache

    # JAX reads the setting once, until its cache is reset.
    enabled = jax.config.values["jax_enable_compilation_cache"]
    jax.config.update("jax_enable_compilation_cache", False)
    reset_cache()
    try:
        return lowered.compile()
    finally:
        jax.config.update("jax_enable_compilation_cache", enabled)
        reset_cache()


def _gpu_config(target: Target) -> str:
    """XLA's `GpuTargetConfigProto` of a GPU, as text."""
    fields = dict(target.gpu)
    capability, name = fields.pop("capability"), fields.pop("described")
    own = " ".join(f"{key}: {value}" for key, value in fields.items())
    return f"""
        gpu_device_info {{
          {own}
          threads_per_block_limit: 1024 threads_per_warp: 32 threads_per_core_limit: 2048
          fpus_per_core: 128 shared_memory_per_block: 49152 shared_memory_per_core: 233472
          shared_memory_per_block_optin: 232448 registers_per_core_limit: 65536
          registers_per_block_limit: 65536 block_dim_limit_x: 2147483647
          block_dim_limit_y: 65535 block_dim_limit_z: 65535
          cuda_compute_capability {{
            major: {capability} minor: 0 feature_extension: ACCELERATED_FEATURES
          }}
        }}
        platform_name: "CUDA"
        dnn_version_info {{ major: 9 minor: 10 patch: 0 }}
        runtime_version {{ major: 12 minor: 8 patch: 0 }}
        device_description_str: "{name}"
    """

"""Describes the software versions and the machine that produced a result.

jax is imported inside functions, so that `snm --version` need not import it.
"""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Any

from snm.machine.cores import xla_threads
from snm.machine.ram import peak_ram

__all__ = ["environment_record", "machine_record", "package_version", "versions"]


def environment_record() -> dict[str, Any]:
    """`machine_record`, and the peak memory of this process on host and device in bytes."""
    import jax

    stats = jax.local_devices()[0].memory_stats() or {}
    return {
        "peak_memory_bytes": peak_ram(),
        "peak_device_memory_bytes": stats.get("peak_bytes_in_use"),
        **machine_record(),
    }


def machine_record() -> dict[str, Any]:
    """The software versions, the JAX device, the processor's architecture and cores in use."""
    import jax

    device = jax.local_devices()[0]
    return {
        "versions": versions(),
        "device": f"{device.platform}: {device.device_kind}",
        "machine": platform.machine(),
        "cores": xla_threads(),
    }


def versions() -> dict[str, str]:
    """The versions of Python and of the libraries that the results depend on."""
    packages = ("snm", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy", "scipy")
    return {
        "python": platform.python_version(),
        **{package: package_version(package) for package in packages},
    }


def package_version(package: str) -> str:
    """The version of a package, or "not installed", as where snm runs from a clone."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"

"""What `snm --version` prints."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

from snm.machine.versions import package_version

__all__ = ["version_lines"]

_TIMEOUT = 120  # seconds that a device may take to start
_LIST_DEVICES = (
    "import jax; print('\\n'.join(f'{d.platform} ({d.device_kind})' for d in jax.devices()))"
)


def version_lines() -> list[str]:
    """What `snm --version` prints: versions, and the devices that jax finds.

    jax looks for them in another process, because a broken driver may crash it or hang.
    """
    versions = [f"{package} {package_version(package)}" for package in ("snm", "jax", "jaxlib")]
    where = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    return [versions[0], ", ".join([*versions[1:], where]), f"devices: {_describe_devices()}"]


def _describe_devices() -> str:
    command = [sys.executable, "-c", _LIST_DEVICES]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT
        )
    except subprocess.TimeoutExpired:
        return f"jax did not answer within {_TIMEOUT} s"
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        forced = os.environ.get("JAX_PLATFORMS")
        why = f" (JAX_PLATFORMS is {forced!r})" if forced else ""
        return f"none, jax cannot start: {lines[-1][:200]}{why}"
    kinds = done.stdout.splitlines()
    return ", ".join(f"{kinds.count(kind)} x {kind}" for kind in dict.fromkeys(kinds))

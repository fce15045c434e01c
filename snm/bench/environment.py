"""Describes where and with which command `snm bench` measured a row."""

from __future__ import annotations

import datetime
import os
import platform
import re
import sys
from pathlib import Path
from typing import Any

from snm.machine.cores import num_cores
from snm.machine.versions import package_version

__all__ = ["describe_environment"]


def describe_environment() -> dict[str, Any]:
    """The machine, versions of installed packages, memory allocator, date and command."""
    import jax

    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = re.findall(r"model name\s*: (.*)", info.read_text(encoding="utf-8"))
        cpu = names[0] if names else cpu
    packages = ("jax", "numpy", "torch", "faiss-cpu", "scikit-learn")
    versions = {package: package_version(package) for package in packages}
    tuned = [name for name in os.environ if name.startswith("MALLOC_") or name == "LD_PRELOAD"]
    return {
        "device": jax.devices()[0].device_kind,
        "processor": cpu,
        "cores": num_cores(),
        "python": platform.python_version(),
        "versions": {name: found for name, found in versions.items() if found != "not installed"},
        "malloc": " ".join(f"{name}={os.environ[name]}" for name in sorted(tuned)) or "default",
        "date": datetime.date.today().isoformat(),
        "command": _command(),
    }


def _command() -> str:
    """The command line, without the paths of its files, which are private."""
    words = ["snm", *sys.argv[1:]]
    for flag in ("--json", "--vs"):
        if flag in words[:-1]:
            words[words.index(flag) + 1] = "FILE"
    return " ".join(words)

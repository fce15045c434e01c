"""Checks this machine: package versions, devices, cache folder, memory pages."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import jax
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from snm.doctor.findings import Finding
from snm.errors import InputError
from snm.machine.platform import device_error
from snm.machine.versions import package_version
from snm.system.faults import describe_error, is_out_of_memory
from snm.system.files.cache_folder import cache_folder
from snm.text import first_line, format_bytes, pip_install

__all__ = ["examine_environment"]

_LITTLE_DISK = 2 * 2**30
_HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_TUNABLE = "glibc.malloc.hugetlb=1"
_HAS_TUNABLE = SpecifierSet(">=2.35")  # versions of glibc


def examine_environment() -> list[Finding]:
    """Checks the packages, the devices that JAX sees, the cache folder, and memory pages."""
    return [*_packages(), *_devices(), *_cache(), *_pages()]


def _packages() -> Iterator[Finding]:
    wrong = []
    for requirement in map(Requirement, _required()):
        # An extra is for those who want it.
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            version = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            wrong.append(f"{requirement.name} is not installed")
            continue
        wrong += [
            f"{requirement.name} {version} is not {bound}"
            for bound in requirement.specifier
            if not bound.contains(version, prereleases=True)
        ]
    if wrong:
        advice = "pip install -e . -c constraints.txt"
        yield Finding("error", "packages", "; ".join(wrong), advice)
    else:
        snm_version, jax_version = package_version("snm"), package_version("jax")
        found = f"Python {platform.python_version()}, snm {snm_version}, jax {jax_version}"
        yield Finding("ok", "packages", found)


def _required() -> list[str]:
    """What the package needs; nothing in a clone that was not installed."""
    try:
        return metadata.requires("snm") or []
    except metadata.PackageNotFoundError:
        return []


def _devices() -> Iterator[Finding]:
    if (error := device_error()) is not None:
        if is_out_of_memory(error):
            raise error
        found = f"jax cannot start: {first_line(error)}"
        yield Finding("error", "devices", found, "check JAX_PLATFORMS")
        return
    seen = jax.devices()
    kinds = ", ".join(sorted({f"{d.platform} ({d.device_kind})" for d in seen}))
    there = gpus()
    if there and seen[0].platform == "cpu":
        forced = os.environ.get("JAX_PLATFORMS", "")
        advice = (
            f"JAX_PLATFORMS is {forced!r}: unset it"
            if forced
            else f"{pip_install('cuda13')} (or cuda12, for older drivers)"
        )
        found = f"jax sees only the CPU, though there is {', '.join(there)}"
        yield Finding("warning", "devices", found, advice)
    else:
        yield Finding("ok", "devices", f"jax sees {len(seen)}: {kinds}")


def gpus() -> list[str]:
    """The names of this machine's NVIDIA GPUs, whether or not JAX can use them."""
    program = shutil.which("nvidia-smi")
    if program is not None:
        try:
            done = subprocess.run([program, "--query-gpu=name", "--format=csv,noheader"],
                                  capture_output=True, text=True, timeout=20)  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return []
        if done.returncode:  # it prints its errors where the names would be
            return []
        lines = (line.strip() for line in done.stdout.splitlines())
        return [line for line in lines if line and line != "No devices were found"]
    return ["an NVIDIA GPU"] if Path("/proc/driver/nvidia/version").exists() else []


def _cache() -> Iterator[Finding]:
    try:
        place = cache_folder()
    except InputError as error:
        yield Finding("error", "cache", f"{error.where}: {error.found}", error.expected)
        return
    if place is None:
        advice = "set SNM_CACHE to a folder"
        yield Finding("note", "cache", "no folder: every start parses and compiles again", advice)
        return
    try:
        there = next(parent for parent in (place, *place.parents) if parent.exists())
    except OSError as error:  # a folder above it may not be searched, or the name is too long
        found = f"{place} cannot be reached: {describe_error(error)}"
        yield Finding("warning", "cache", found, "set SNM_CACHE to another folder")
        return
    if not there.is_dir() or not os.access(there, os.W_OK):
        found = f"{place} cannot be written to"
        yield Finding("warning", "cache", found, "set SNM_CACHE to another folder")
        return
    free = shutil.disk_usage(there).free
    found = f"{place}, {format_bytes(free)} free"
    if free < _LITTLE_DISK:
        yield Finding("warning", "cache", found, "make room, or set SNM_CACHE to another disk")
    else:
        yield Finding("ok", "cache", found)


def _pages() -> Iterator[Finding]:
    """Notes huge pages, if Linux offers them on request and this process does not request them."""
    try:
        on_request = "[madvise]" in _HUGE_PAGES.read_text()
    except OSError:
        return
    library, version = platform.libc_ver()
    can = library == "glibc" and _HAS_TUNABLE.contains(version)
    if on_request and can and _TUNABLE not in os.environ.get("GLIBC_TUNABLES", ""):
        found = "small pages: on a CPU, steps with hundreds of thousands of labels take longer"
        yield Finding("note", "memory pages", found, f"set GLIBC_TUNABLES={_TUNABLE}")

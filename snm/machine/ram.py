"""Measures the RAM of this process, without JAX."""

from __future__ import annotations

import contextlib
import itertools
import os
import resource
import sys
from pathlib import Path

from snm.errors import InputError
from snm.machine.groups import control_groups
from snm.text import format_bytes

__all__ = [
    "available_ram",
    "check_available_ram",
    "check_ulimits",
    "peak_ram",
    "peak_ram_of_children",
    "ram_limit_name",
    "reset_peak",
    "resident_ram",
]


# The files of limit and usage, and the field of cached files, in version 2 and 1 of control groups.
_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)

_ULIMITS = (
    (resource.RLIMIT_DATA, "VmData", "ulimit -d", 384 << 20),
    (resource.RLIMIT_AS, "VmSize", "ulimit -v", 1536 << 20),
)
"""Each limit of this process, what it limits, its name, and the least that a training needs.

The last are multiples of 128 MiB. On one core, JAX, SciPy and a first operation take 263 MiB of
`ulimit -d`, but a training of dim 8 still ended by a signal with 352 MiB; of `ulimit -v` they take
1,445 MiB. Each core adds to both.
"""


def peak_ram() -> int:
    """The peak resident memory in bytes.

    On Linux, the peak from getrusage includes that of the parent process before exec, so
    `/proc/self/status` is preferred.
    """
    peak = _status("VmHWM")
    if peak is not None:
        return peak
    return _maxrss(resource.RUSAGE_SELF)


def peak_ram_of_children() -> int:
    """The peak resident memory in bytes of the largest child process that has ended.

    It is at least the memory of this process when the child started; 0 without children.
    """
    return _maxrss(resource.RUSAGE_CHILDREN)


def _maxrss(who: int) -> int:
    peak = resource.getrusage(who).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def resident_ram() -> int:
    """The resident memory in bytes; the peak on systems other than Linux."""
    resident = _status("VmRSS")
    return peak_ram() if resident is None else resident


def available_ram() -> int:
    """The bytes that this process can still allocate on its machine or in its control groups."""
    return _least_limit()[0]


def ram_limit_name() -> str:
    """What `available_ram` is the limit of, such as `ulimit -d`."""
    return _least_limit()[1]


def _least_limit() -> tuple[int, str]:
    """The bytes that can still be allocated, and the name of the limit."""
    machine, limits = "memory of this machine", []
    with contextlib.suppress(OSError, ValueError, IndexError):
        text = Path("/proc/meminfo").read_text(encoding="ascii")
        limits.append((int(text.split("MemAvailable:")[1].split()[0]) * 1024, machine))
    for group, (limit, used, cached) in itertools.product(control_groups("memory"), _FILES):
        with contextlib.suppress(OSError, ValueError):
            free = _number(group / limit) - _number(group / used)
            free += _cached(group / "memory.stat", cached)
            limits.append((free, "memory of the control group"))
    for resource_limit, field, name, _ in _ULIMITS:
        allowed = resource.getrlimit(resource_limit)[0]
        if allowed != resource.RLIM_INFINITY:
            limits.append((allowed - (_status(field) or 0), name))
    with contextlib.suppress(OSError, ValueError):
        limits.append((os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), machine))
    least, name = min(limits, default=(0, machine))
    return max(least, 0), name


def check_ulimits() -> None:
    """Refuses limits of this process under which a training cannot start, before it imports JAX.

    Libraries end the process where they get no memory while they are loaded, or try again for ever.

    Raises:
      InputError: a limit that is too low.
    """
    for resource_limit, _, name, needed in _ULIMITS:
        allowed = resource.getrlimit(resource_limit)[0]
        if allowed != resource.RLIM_INFINITY and allowed < needed:
            expected = f"{format_bytes(needed)} or more, which JAX and its programs need to start"
            raise InputError(name, format_bytes(allowed), expected)


def check_available_ram(where: str, needed: float) -> None:
    """Refuses a size for which there is no memory.

    Args:
      where: the option of the size.
      needed: its bytes.

    Raises:
      InputError: more than is available.
    """
    free = available_ram()
    if needed > free:
        found = f"a size that needs {format_bytes(needed)} of memory"
        raise InputError(where, found, f"one for the {format_bytes(free)} that are free")


def _number(file: Path) -> int:
    return int(file.read_text(encoding="ascii"))


def _cached(file: Path, field: str) -> int:
    """Bytes of cached files that a group counts as used, but frees when memory is needed."""
    with contextlib.suppress(OSError, ValueError):
        fields = dict(line.split() for line in file.read_text(encoding="ascii").splitlines())
        return int(fields.get(field, 0))
    return 0


def _status(field: str) -> int | None:
    """A field of `/proc/self/status` in bytes, or None if the system has no such file."""
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    for line in status.read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    return None


def reset_peak() -> None:
    """Resets `peak_ram` to the current resident memory, if the kernel supports it."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")

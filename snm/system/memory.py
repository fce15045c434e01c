"""How much memory this process holds, without jax."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
from pathlib import Path

__all__ = [
    "available_memory",
    "peak_memory",
    "reset_peak",
    "resident_memory",
]


def peak_memory() -> int:
    """Bytes at the peak.

    On Linux the peak that getrusage tells begins with that of the process which started this one,
    so the kernel's own account is read where there is one.
    """
    found = _status("VmHWM")
    if found is not None:
        return found
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def resident_memory() -> int:
    """Bytes now; elsewhere than on Linux those at the peak."""
    found = _status("VmRSS")
    return peak_memory() if found is None else found


def available_memory() -> int:
    """Bytes that this process may still take: of the machine, or of its control group."""
    rooms = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        text = Path("/proc/meminfo").read_text(encoding="ascii")
        rooms.append(int(text.split("MemAvailable:")[1].split()[0]) * 1024)
    with contextlib.suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        limit = int((group / "memory.max").read_text(encoding="ascii"))
        rooms.append(limit - int((group / "memory.current").read_text(encoding="ascii")))
    with contextlib.suppress(OSError, ValueError):
        rooms.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return max(min(rooms), 0) if rooms else 0


def _status(field: str) -> int | None:
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    for line in status.read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    return None


def reset_peak() -> None:
    """Lets `peak_memory` begin again at what is held now, where the kernel can do that."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")

"""The control groups of this process on Linux, which limit it in a container."""

from __future__ import annotations

from pathlib import Path

__all__ = ["control_groups"]

_PROC, _GROUPS = Path("/proc/self"), Path("/sys/fs/cgroup")


def control_groups(controller: str) -> list[Path]:
    """The folders of the groups that may limit this process: its own and its parents; [] if none.

    Args:
      controller: such as cpu or memory. In version 1, each controller has its own groups; in
        version 2, one group has the files of all.
    """
    try:
        lines = (_PROC / "cgroup").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return []
    groups: set[Path] = set()
    for line in lines.splitlines():
        _, _, rest = line.partition(":")
        names, _, name = rest.partition(":")
        if names and controller not in names.split(","):
            continue
        # Version 1 is mounted under all of its controllers' names or under each, in any order.
        roots = [_GROUPS / names, _GROUPS / controller] if names else [_GROUPS]
        for root in roots:
            group = root / name.lstrip("/")
            # Inside a container, the root is often its own group, whatever the name.
            groups |= {path for path in (group, *group.parents, root) if path.is_relative_to(root)}
    return sorted(groups)

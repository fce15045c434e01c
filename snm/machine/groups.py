"""The control groups of this process on Linux, which limit it in a container."""

from __future__ import annotations

from pathlib import Path

__all__ = ["control_groups"]

_PROC, _GROUPS = Path("/proc/self"), Path("/sys/fs/cgroup")


def control_groups(controller: str) -> list[Path]:
    """Folders of the groups that may limit this process: its own and those above; [] elsewhere.

    Args:
      controller: such as cpu or memory. Each has groups of its own in the first version of control
        groups; in the second one group has the files of all.
    """
    try:
        lines = (_PROC / "cgroup").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return []
    found: set[Path] = set()
    for line in lines.splitlines():
        _, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if names and controller not in names.split(","):
            continue
        # The first is mounted under all of its controllers' names or under each, in any order.
        roots = [_GROUPS / names, _GROUPS / controller] if names else [_GROUPS]
        for root in roots:
            group = root / path.lstrip("/")
            # Seen from a container, the root is often its own group, whatever the path.
            found |= {one for one in (group, *group.parents, root) if one.is_relative_to(root)}
    return sorted(found)

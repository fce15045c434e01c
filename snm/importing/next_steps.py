"""The commands for data that `snm data import --like` or `snm data interactions --like` made."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from snm.runs.manifest import CONFIG
from snm.runs.warm_start_hint import IF_ALL_POINTS, warm_start_flags

__all__ = ["is_run", "next_in_known_ids"]


def is_run(folder: Path) -> bool:
    """Whether the folder after `--like` is a run, and not a data set."""
    return (folder / CONFIG).is_file()


def next_in_known_ids(like: Path, out: Path) -> Iterator[str]:
    """Lines with the commands for a data set whose ids are those of a run or another data set.

    Args:
      like: the folder of the run or of the other data set.
      out: the folder of the data set.
    """
    data = shlex.quote(str(out))
    trained = f"snm train {data} --run-dir NEW"
    if not is_run(like):
        yield f"next: {trained} {warm_start_flags(Path('RUN'))}"
        return
    yield f"next: snm evaluate {shlex.quote(str(like))} --data {data}"
    yield f"  or: {trained} {warm_start_flags(like)}"
    yield f"      {IF_ALL_POINTS}"

"""The note where a run is unfinished."""

from __future__ import annotations

from pathlib import Path

from snm.runs.folder import RunFolder
from snm.runs.stored_run import StoredRun
from snm.stores.address import is_hub_address
from snm.stores.copies import local_copy
from snm.system.streams import print_note

__all__ = ["note_if_unfinished"]


def note_if_unfinished(run: str | Path) -> None:
    """Prints a line on standard error if a run is not finished, and nothing for an export.

    Args:
      run: the run folder, or its address in a store; or anything else that `snm.load` takes.

    Raises:
      InputError: a damaged run, or one without a checkpoint.
    """
    if is_hub_address(str(run)):  # always an export
        return
    folder = RunFolder(local_copy(run))
    if not folder.config.exists() or folder.finished():
        return
    stored = StoredRun.open(folder.path)
    step, members = f"step {stored.checkpoints.step(1):,}", stored.config.members
    what = step if members == 1 else f"member 1 of {members} alone, at {step}"
    print_note(f"{run} is not finished, this is {what}; the same `snm train` command goes on")

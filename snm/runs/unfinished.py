"""Whether what a run writes at its end is there and fits; the remark where a run is unfinished."""

from __future__ import annotations

from pathlib import Path

from snm.config.settings import Config
from snm.errors import InputError
from snm.memory.store import load_memory
from snm.runs.folder import RunFolder
from snm.runs.stored_run import StoredRun
from snm.stores.address import is_hub_address
from snm.stores.copies import local
from snm.system.stderr import remark

__all__ = ["memory_is_readable", "remark_unfinished", "result_is_current"]


def result_is_current(folder: RunFolder, config: Config) -> bool:
    """Whether there is a result for the current number of epochs, with the AUC if it is on."""
    try:
        if not folder.finished():
            return False
        result = folder.read_result()
    except InputError:  # damaged: it is made again
        return False
    if config.auc and result["metrics"].get("points") and "AUC" not in result["metrics"]:
        return False
    return result["epochs_asked"] == config.epochs


def memory_is_readable(folder: RunFolder) -> bool:
    """Whether the memory, the adjustment and the calibration of a run are readable."""
    try:
        record, origin = folder.read_memory_record(), folder.read_origin()
        if record.used:
            load_memory(
                folder.checked(folder.memory),
                num_features=origin.num_features,
                num_labels=origin.num_labels,
            )
        folder.read_adjustment(origin.num_labels)
    except InputError:
        return False
    return True


def remark_unfinished(run: str | Path) -> None:
    """Prints a line on standard error if a run is not finished, and nothing for an export.

    Args:
      run: the run folder, or its address in a store; or anything else that `snm.load` takes.

    Raises:
      InputError: a damaged run, or one without a checkpoint.
    """
    if is_hub_address(str(run)):  # always an export
        return
    folder = RunFolder(local(run))
    if not folder.config.exists() or folder.finished():
        return
    stored = StoredRun.open(folder.path)
    step, members = f"step {stored.checkpoints.step(1):,}", stored.config.members
    what = step if members == 1 else f"member 1 of {members} alone, at {step}"
    remark(f"{run} is not finished, this is {what}; the same `snm train` command goes on")

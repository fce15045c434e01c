"""Checks whether the files that a run writes at its end are readable and fit its settings."""

from __future__ import annotations

from snm.config.settings import Config
from snm.errors import InputError
from snm.memory.store import load_memory
from snm.runs.folder import RunFolder

__all__ = ["memory_is_readable", "result_is_current"]


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

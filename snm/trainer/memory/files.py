"""Writes, checks and removes the files of the memory of a run."""

from __future__ import annotations

from snm.config.resolved import ResolvedConfig
from snm.data.dataset import Dataset
from snm.errors import InputError
from snm.memory.adjustment import save_shifts
from snm.memory.store import load_memory, save_memory
from snm.prediction.predictor import Predictor
from snm.runs.folder import RunFolder, write_json
from snm.runs.schema import MemoryRecord
from snm.runs.typed_json import as_json
from snm.system import disk
from snm.trainer.memory.trial import ChosenMemory, choose_memory

__all__ = ["memory_is_readable", "remove_memory", "try_memory", "write_memory"]


def try_memory(
    folder: RunFolder,
    config: ResolvedConfig,
    dataset: Dataset,
    first_member: Predictor,
    all_members: Predictor,
) -> MemoryRecord:
    """Chooses a memory, and writes it to the run folder if it pays.

    Args:
      folder: the run; gets `memory.json`, `memory.npz` if the memory pays, and `adjustment.npy`
        if a logit adjustment does.
      config: as in `choose_memory`.
      dataset: as loaded.
      first_member: as in `choose_memory`.
      all_members: as in `choose_memory`.

    Returns:
      the content of `memory.json`.
    """
    disk.remove(folder.memory_record)
    return write_memory(folder, choose_memory(config, dataset, first_member, all_members))


def remove_memory(folder: RunFolder) -> None:
    """Removes the memory, the adjustment and their record from a run folder."""
    for path in (folder.memory_record, folder.memory, folder.adjustment):
        disk.remove(path)


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


def write_memory(folder: RunFolder, chosen: ChosenMemory) -> MemoryRecord:
    """Writes the files of a run, and returns the content of `memory.json`."""
    if chosen.memory is None:
        disk.remove(folder.memory)
    else:
        save_memory(folder.memory, chosen.memory)
    if chosen.shifts is None:
        disk.remove(folder.adjustment)
    else:
        save_shifts(folder.adjustment, chosen.shifts)
    write_json(folder.memory_record, as_json(chosen.record))
    return chosen.record

"""The files of a run's memory: written where one was tried or taken over, and removed."""

from __future__ import annotations

from snm.config.resolved import ResolvedConfig
from snm.data.dataset import Dataset
from snm.memory.adjustment import save_shifts
from snm.memory.store import save_memory
from snm.prediction.predictor import Predictor
from snm.runs.folder import RunFolder, write_json
from snm.runs.schema import MemoryRecord
from snm.runs.typed_json import as_json
from snm.system import disk
from snm.trainer.memory.trial import Remembered, find_memory

__all__ = ["forget_memory", "keep_memory", "try_memory"]


def try_memory(
    folder: RunFolder,
    config: ResolvedConfig,
    dataset: Dataset,
    first_member: Predictor,
    all_members: Predictor,
) -> MemoryRecord:
    """Chooses a memory, and writes it to the run folder if it pays.

    Args:
      folder: of the run; gets `memory.json`, `memory.npz` if the memory pays, and `adjustment.npy`
        if a logit adjustment does.
      config: as in `find_memory`.
      dataset: as loaded.
      first_member: as in `find_memory`.
      all_members: as in `find_memory`.

    Returns:
      the content of `memory.json`.
    """
    disk.remove(folder.memory_record)
    return keep_memory(folder, find_memory(config, dataset, first_member, all_members))


def forget_memory(folder: RunFolder) -> None:
    """Removes what held-out points once chose for a run, in which they choose no more."""
    for path in (folder.memory_record, folder.memory, folder.adjustment):
        disk.remove(path)


def keep_memory(folder: RunFolder, remembered: Remembered) -> MemoryRecord:
    """Writes the files of a run, and returns the content of `memory.json`."""
    if remembered.memory is None:
        disk.remove(folder.memory)
    else:
        save_memory(folder.memory, remembered.memory)
    if remembered.shifts is None:
        disk.remove(folder.adjustment)
    else:
        save_shifts(folder.adjustment, remembered.shifts)
    write_json(folder.memory_record, as_json(remembered.record))
    return remembered.record

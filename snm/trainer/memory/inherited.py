"""What a run takes over from the run that it starts from: memory, adjustment and probabilities.

The points of a run may be among those that the other one was trained on. What a model answers for
these tells nothing of new points, so that they cannot choose. Those that chose for the other run
were new to it.
"""

from __future__ import annotations

import dataclasses
import time

import numpy as np
from numpy.typing import NDArray

from snm.config.resolved import ResolvedConfig
from snm.data.dataset import Dataset
from snm.memory.adjustment import label_shifts
from snm.prediction.calibration import Calibration
from snm.prediction.predictor import Predictor
from snm.prediction.thresholds import Threshold
from snm.runs.folder import RunFolder
from snm.runs.schema import MemoryRecord, RunOrigin
from snm.system import disk
from snm.trainer.memory.files import keep_memory
from snm.trainer.memory.stored import memory_of, stored_rows
from snm.trainer.memory.trial import Remembered
from snm.trainer.prepare import label_name_points
from snm.trainer.warm_start import WarmStart

__all__ = ["inherit_memory", "inherited"]

_OF_SCORES = ("loss", "transformation", "temperature", "score_scale", "learn_score_scale")
"""Settings that give scores another unit, in which the weight of votes and curves are."""


def inherited(
    folder: RunFolder, config: ResolvedConfig, start: WarmStart, origin: RunOrigin
) -> tuple[MemoryRecord | None, str | None]:
    """Looks for what can be taken over.

    Args:
      folder: of the run. One that was begun goes on with what it found then.
      config: its settings.
      start: the run that it starts from.
      origin: of the run; it names that one, and says which settings were given.

    Returns:
      The content of `memory.json`, for the labels and members of this run; None is nothing. And why
      that is nothing, or not all; None where there is no reason to tell.

    Raises:
      InputError: a damaged file of that run.
    """
    parent, name = RunFolder(start.run), str(origin.warm_start)
    if config.memory == "off":
        by = "auto tries none here" if "memory" in origin.given else "--memory off"
        off = (
            f"memory: none, so that that of {name} and its probabilities are not taken over ({by})"
        )
        return None, off if parent.has(parent.memory_record) else None
    if folder.config.exists():  # the other run may be gone by now
        begun = folder.read_origin()
        if not isinstance(begun.inherited, str):
            return begun.inherited, None
    if not parent.has(parent.memory_record):
        return None, (
            f"memory: not tried, as {name} has chosen none, and may have been trained on the "
            "points that would choose it"
        )
    record, theirs = parent.read_memory_record(), parent.settings()
    others = [one for one in _OF_SCORES if getattr(config, one) != getattr(theirs, one)]
    if others:
        found = f"{getattr(theirs, others[0])} there, {getattr(config, others[0])} here"
        why = f"{others[0]} is {found}, which gives other scores"
        return None, f"memory: none of {name} can be taken over, as {why}"
    factor = config.members / theirs.members  # scores of the members are added
    settings = dataclasses.replace(record.settings, weight=record.settings.weight * factor)
    adjustment, calibration = record.adjustment, record.calibration
    note: str | None = None
    if adjustment is not None and config.logit_adjustment == "off":
        adjustment = calibration = None
        note = f"probabilities: none, as those of {name} are of scores with a logit adjustment"
    if adjustment is not None:
        adjustment = dataclasses.replace(adjustment, strength=adjustment.strength * factor)
    if calibration is not None and (slots := start.slots) is not None:
        calibration = _renumbered(calibration, slots)
    taken = dataclasses.replace(
        record,
        settings=settings,
        adjustment=adjustment,
        calibration=calibration,
        inherited_from=name,
    )
    return taken, note


def inherit_memory(
    folder: RunFolder,
    config: ResolvedConfig,
    dataset: Dataset,
    taken: MemoryRecord,
    all_members: Predictor,
) -> MemoryRecord:
    """Takes over what `inherited` found.

    Args:
      folder: of the run; gets the files of `try_memory`.
      config: its settings.
      dataset: as loaded; a memory stores its training points.
      taken: what was found.
      all_members: their predictor.

    Returns:
      the content of `memory.json`.
    """
    begun = time.perf_counter()
    disk.remove(folder.memory_record)
    memory, shifts = None, None
    if taken.used:
        rows, names = stored_rows(config, dataset), label_name_points(config, dataset)
        memory = memory_of(all_members, dataset.train, rows, taken.settings, names)
    if taken.adjustment is not None:
        shifts = label_shifts(dataset.label_frequency(), taken.adjustment.strength)
    record = dataclasses.replace(
        taken,
        points=0 if memory is None else len(memory.rows),
        bytes=0 if memory is None else memory.nbytes,
        seconds=time.perf_counter() - begun,
    )
    return keep_memory(folder, Remembered(record, memory, shifts))


def _renumbered(calibration: Calibration, slots: NDArray[np.int64]) -> Calibration:
    """Curves whose thresholds are of the labels here; `slots` has the id of each there, or -1."""
    here = {int(there): label for label, there in enumerate(slots) if there >= 0}

    def one(threshold: Threshold) -> Threshold:
        pairs = zip(threshold.labels, threshold.own, strict=True)
        kept = sorted((here[label], own) for label, own in pairs if label in here)
        return Threshold(
            threshold.overall,
            None if threshold.k is None else min(threshold.k, len(slots)),
            labels=tuple(label for label, _ in kept),
            own=tuple(own for _, own in kept),
        )

    thresholds = {name: one(found) for name, found in calibration.thresholds.items()}
    return dataclasses.replace(calibration, thresholds=thresholds)

"""Inherits the memory, the logit adjustment and the calibration of the run of `--warm-start`.

The parent run may have been trained on the held-out points of this run, which therefore cannot
choose a memory. The held-out points of the parent run were new to it.
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
from snm.trainer.memory.stored import make_memory, stored_rows
from snm.trainer.memory.trial import ChosenMemory
from snm.trainer.start.training_points import label_name_points
from snm.trainer.start.warm_start import WarmStart

__all__ = ["find_inherited_memory", "inherit_memory"]

_SCORE_SETTINGS = ("loss", "transformation", "temperature", "score_scale", "learn_score_scale")
"""Settings that change the unit of scores, and so of the weight of votes and the calibration."""


def find_inherited_memory(
    folder: RunFolder, config: ResolvedConfig, start: WarmStart, origin: RunOrigin
) -> tuple[MemoryRecord | None, str | None]:
    """Finds the memory, the logit adjustment and the calibration that a run can inherit.

    Args:
      folder: the run. A run that resumes keeps what it found at its first start.
      config: its settings.
      start: the parent run.
      origin: the origin of the run; it names the parent run, and the settings that were given.

    Returns:
      The content of `memory.json`, adapted to the labels and members of this run; None to inherit
      nothing. And a note for the user if nothing, or not all, is inherited; else None.

    Raises:
      InputError: a file of the parent run is damaged.
    """
    parent, name = RunFolder(start.run), str(origin.warm_start)
    if config.memory == "off":
        reason = "auto tries none here" if "memory" in origin.given else "--memory off"
        unused = (
            f"memory of neighbours: that of {name} and its probabilities are not taken over "
            f"({reason})"
        )
        return None, unused if parent.has(parent.memory_record) else None
    if folder.config.exists():  # the parent run may be gone by now
        first_origin = folder.read_origin()
        if not isinstance(first_origin.inherited, str):
            return first_origin.inherited, None
    if not parent.has(parent.memory_record):
        return None, (
            f"memory of neighbours: not tried, as {name} has chosen none, and may have been "
            "trained on the points that would choose it"
        )
    record, parent_config = parent.read_memory_record(), parent.settings()
    for setting in _SCORE_SETTINGS:
        there, here = getattr(parent_config, setting), getattr(config, setting)
        if there != here:
            reason = f"{setting} is {there} there, {here} here, which gives other scores"
            return None, f"memory of neighbours: that of {name} is not taken over, as {reason}"
    factor = config.members / parent_config.members  # the scores of the members are added
    settings = dataclasses.replace(record.settings, weight=record.settings.weight * factor)
    adjustment, calibration = record.adjustment, record.calibration
    note: str | None = None
    if adjustment is not None and config.logit_adjustment == "off":
        adjustment = calibration = None
        note = f"probabilities: none, as those of {name} are of scores with a logit adjustment"
    if adjustment is not None:
        adjustment = dataclasses.replace(adjustment, strength=adjustment.strength * factor)
    if calibration is not None and (slots := start.slots) is not None:
        calibration = _renumber_labels(calibration, slots)
    inherited = dataclasses.replace(
        record,
        settings=settings,
        adjustment=adjustment,
        calibration=calibration,
        inherited_from=name,
    )
    return inherited, note


def inherit_memory(
    config: ResolvedConfig,
    dataset: Dataset,
    inherited: MemoryRecord,
    all_members: Predictor,
) -> ChosenMemory:
    """Makes the inherited memory.

    Args:
      config: the settings.
      dataset: as loaded; the memory stores its training points.
      inherited: the record that `find_inherited_memory` returned.
      all_members: the predictor of all members.
    """
    start_time = time.perf_counter()
    memory, shifts = None, None
    if inherited.used:
        rows, names = stored_rows(config, dataset), label_name_points(config, dataset)
        memory = make_memory(all_members, dataset.train, rows, inherited.settings, names)
    if inherited.adjustment is not None:
        shifts = label_shifts(dataset.label_frequency(), inherited.adjustment.strength)
    record = dataclasses.replace(
        inherited,
        points=0 if memory is None else len(memory.rows),
        bytes=0 if memory is None else memory.nbytes,
        seconds=time.perf_counter() - start_time,
    )
    return ChosenMemory(record, memory, shifts)


def _renumber_labels(calibration: Calibration, slots: NDArray[np.int64]) -> Calibration:
    """Replaces the label ids of the parent run in the thresholds by those of this run.

    Args:
      calibration: of the parent run.
      slots: int64 [K], the id of each label in the parent run; -1 for a new label.
    """
    new_ids = {int(old): label for label, old in enumerate(slots) if old >= 0}

    def renumber(threshold: Threshold) -> Threshold:
        pairs = zip(threshold.labels, threshold.own, strict=True)
        kept = sorted((new_ids[label], own) for label, own in pairs if label in new_ids)
        return Threshold(
            threshold.overall,
            None if threshold.k is None else min(threshold.k, len(slots)),
            labels=tuple(label for label, _ in kept),
            own=tuple(own for _, own in kept),
        )

    thresholds = {name: renumber(threshold) for name, threshold in calibration.thresholds.items()}
    return dataclasses.replace(calibration, thresholds=thresholds)

"""Writes a grown run: the checkpoints, memory and result of a run, with more labels."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from snm.data.dataset import Dataset, points_from_names
from snm.data.load import absolute_source
from snm.errors import InputError
from snm.grow.grown_memory import grown_memory
from snm.grow.rows import NewRowCounts, grow_state, new_rows, predict_biases
from snm.machine.versions import versions
from snm.memory.adjustment import label_shifts, save_shifts
from snm.memory.memory import Memory
from snm.memory.store import save_memory
from snm.prediction.predictor import Predictor
from snm.runs.events import Counters
from snm.runs.folder import RunFolder, write_json
from snm.runs.members import member_seed, train_phase
from snm.runs.schema import MemoryRecord
from snm.runs.stored_run import StoredRun
from snm.runs.typed_json import as_json
from snm.trainer.result import data_summary

__all__ = ["write_grown"]


def write_grown(
    old: StoredRun,
    new: RunFolder,
    predictor: Predictor,
    names: tuple[str, ...],
    dataset: Dataset | None,
    source: str | None,
) -> tuple[NewRowCounts, Memory | None]:
    """Writes the run that a finished one grows to.

    Args:
      old: the finished run.
      new: the folder to write to.
      predictor: the model of the old run, with its memory.
      names: the names of all labels, the old ones first. If the old run has no names, and there is
        no new label, the new run has none either.
      dataset: data with all labels, or None.
      source: the path or name of the data; None for data in memory.

    Returns:
      The number of new rows by origin, and the memory of the new run.

    Raises:
      InputError: a file of the finished run is missing.
    """
    folder, config = old.folder, old.config
    if folder.has(folder.adjustment) and not folder.has(folder.memory_record):
        found = f"{folder.adjustment.name} without {folder.memory_record.name}"
        raise InputError(str(folder.path), found, "all files of the run")
    origin = dataclasses.replace(
        old.origin,
        num_labels=len(names),
        grown_from=str(folder.path.resolve()),
        inherited="unknown",  # known only for the old labels
    )
    if dataset is not None:
        data = dataset.name if source is None else absolute_source(source)
        origin = dataclasses.replace(
            origin, data=data, in_memory=source is None, sha256=dataset.sha256
        )
    vectorizer = folder.checked(folder.vectorizer) if folder.has(folder.vectorizer) else None
    is_named = predictor.label_names is not None or len(names) > predictor.model.spec.num_labels
    new.write(config, origin, predictor.weighting, names if is_named else None, vectorizer)
    counts = _write_members(old, new, predictor, names, dataset, origin.sha256)
    result = folder.read_result()
    measured = ("by_label_frequency", "by_popularity", "without_repeats", "points_without_features",
                "reliability", "validation", "memory")  # fmt: skip
    for name in measured:
        result.pop(name, None)
    if dataset is not None:
        result["data"] = data_summary(dataset, origin)
    memory = None
    # Even if the memory did not pay: the record has probabilities and thresholds.
    if folder.has(folder.memory_record):
        record, memory = _write_memory(old, new, predictor, names, dataset)
        result["memory"] = as_json(record)
    result |= {"metrics": {}, "grown_from": origin.grown_from}
    new.finish(result, StoredRun(new, config, origin, all_trained=True).checkpoints.seals())
    return counts, memory


def _write_members(
    old: StoredRun,
    new: RunFolder,
    predictor: Predictor,
    names: tuple[str, ...],
    dataset: Dataset | None,
    sha256: str,
) -> NewRowCounts:
    """Writes a checkpoint of each member with rows of the new labels.

    Returns:
      The number of new rows by origin.
    """
    first, config = predictor.model.spec.num_labels, old.config
    frequency = None if dataset is None else dataset.label_frequency()
    counts = NewRowCounts(0, 0, 0)
    for member in range(1, predictor.model.members + 1):
        model, state = old.model, old.member(member)
        single = dataclasses.replace(predictor, model=model, state=state, memory=None)
        seed = member_seed(config.seed, member)
        rows, counts = new_rows(single, names[first:], dataset, seed)
        bias = None
        if state.head.bias is not None:
            bias = predict_biases(np.asarray(state.head.bias), frequency, len(names) - first)
        phase = train_phase(member)
        step = old.folder.checkpoints(config.keep_checkpoints, phase).latest() or 0
        progress = dataclasses.asdict(Counters(step=step))
        about = {"data_sha256": sha256, "seed": seed, "versions": versions()}
        store = new.checkpoints(config.keep_checkpoints, phase, about)
        store.save(step, grow_state(state, rows, bias), progress, None)
    return counts


def _write_memory(
    old: StoredRun,
    new: RunFolder,
    predictor: Predictor,
    names: tuple[str, ...],
    dataset: Dataset | None,
) -> tuple[MemoryRecord, Memory | None]:
    """Writes the memory if one is used, its record, and the logit adjustment if there is one."""
    record, first = old.folder.read_memory_record(), predictor.model.spec.num_labels
    memory = None
    if predictor.memory is not None:
        new_names = None
        if old.config.label_text == "on" and predictor.vectorizer is not None:
            new_names = points_from_names(names[first:], predictor.vectorizer, first)
        memory = grown_memory(predictor.memory, predictor, dataset, len(names), new_names)
        save_memory(new.memory, memory)
        record = dataclasses.replace(record, points=len(memory.rows), bytes=memory.nbytes)
    write_json(new.memory_record, as_json(record))
    if (shifts := old.folder.read_adjustment(first)) is not None:
        save_shifts(new.adjustment, _grown_shifts(shifts, record, len(names) - first, dataset))
    return record, memory


def _grown_shifts(
    shifts: NDArray[np.float32], record: MemoryRecord, num_new: int, dataset: Dataset | None
) -> NDArray[np.float32]:
    """The logit adjustment with shifts of new labels: by their frequency, or the median."""
    new = np.full(num_new, np.median(shifts), np.float32)
    if dataset is not None and record.adjustment is not None:
        frequency = dataset.label_frequency()[len(shifts) :]
        new = label_shifts(frequency, record.adjustment.strength)
    return np.concatenate([shifts, new])

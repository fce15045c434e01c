"""Tries a memory of the training points at the end of a run, and keeps it where it pays."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.config.resolved import ResolvedConfig
from snm.config.settings import Config
from snm.data.dataset import Dataset, Points
from snm.data.mapped import is_mapped
from snm.distributed.processes import has_several_processes
from snm.errors import counted
from snm.evaluation.evaluate import KS, judged
from snm.evaluation.filters import kept_first, most_filtered, pairs_of
from snm.memory.adjustment import save_shifts, shifts_of
from snm.memory.choose import Trial, choose
from snm.memory.memory import FOUND, NAME, Memory, MemorySettings, joint_cosines
from snm.memory.neighbors import Stored
from snm.memory.store import save_memory
from snm.prediction.calibration import Calibration
from snm.prediction.predictor import Predictor
from snm.prediction.thresholds import LOOKED_AT, HeldOut, fit_thresholds
from snm.runs.events import Noted
from snm.runs.folder import RunFolder, write_json
from snm.system import disk
from snm.trainer.phase import open_log
from snm.trainer.prepare import trained_beside

__all__ = [
    "Remembered",
    "find_memory",
    "memory_of",
    "memory_split",
    "never_tried",
    "noted",
    "summaries",
    "try_memory",
    "unit_queries",
]

_SHARE, _LEAST, _MOST = 0.1, 50, 2000  # of the points, those that choose the memory
_LEAST_ADJUSTED = 500  # of those points, below which their choice of an adjustment is chance
_LABELS = 100  # of the model's best labels, those that the choice looks at
_TOLD = 10  # of a point's answers, those that curves of probabilities are fitted on


def memory_split(
    config: ResolvedConfig, dataset: Dataset
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """The rows of train that the first member trains on, and those that choose the memory.

    The latter are the validation points where there are some, else a tenth of all points, at least
    50 and at most 2000. None where no memory is tried, or either part has no point with a label and
    a feature; the labels of the latter points that are filtered do not count.
    """
    if config.memory == "off":
        return None
    total = dataset.train.num_points
    share = config.validation_fraction or min(max(_SHARE, _LEAST / total), _MOST / total)
    kept, held = dataset.rows_of_split(share, config.seed)
    held = _with_labels(dataset.train, held)
    if dataset.train.filter is not None:
        held = held[np.diff(judged(dataset.train.take(held)).labels.indptr) > 0]
    if not len(held) or not len(_with_labels(dataset.train, kept)):
        return None
    return kept, held[:: max(1, -(-len(held) // _MOST))]


def try_memory(
    folder: RunFolder,
    config: ResolvedConfig,
    dataset: Dataset,
    first: Predictor,
    whole: Predictor,
) -> dict[str, Any]:
    """Chooses a memory, and writes it to the run folder if it pays.

    Args:
      folder: of the run; gets `memory.json`, `memory.npz` if the memory pays, and `adjustment.npy`
        if a logit adjustment does.
      config: as in `find_memory`.
      dataset: as loaded.
      first: as in `find_memory`.
      whole: as in `find_memory`.

    Returns:
      the content of `memory.json`.
    """
    disk.remove(folder.memory_trial)
    remembered = find_memory(config, dataset, first, whole)
    if remembered.memory is None:
        disk.remove(folder.memory)
    else:
        save_memory(folder.memory, remembered.memory)
    if remembered.shifts is None:
        disk.remove(folder.adjustment)
    else:
        save_shifts(folder.adjustment, remembered.shifts)
    write_json(folder.memory_trial, remembered.found)
    return remembered.found


class Remembered(NamedTuple):
    """What held-out points chose.

    Attributes:
      found: the content of `memory.json`.
      memory: or None, if it does not pay.
      shifts: float32 [K], of the logit adjustment; or None, if none pays.
    """

    found: dict[str, Any]
    memory: Memory | None
    shifts: NDArray[np.float32] | None


def find_memory(
    config: ResolvedConfig, dataset: Dataset, first: Predictor, whole: Predictor
) -> Remembered:
    """Chooses a memory, and a logit adjustment.

    Args:
      config: the settings, with `memory` on.
      dataset: with the training points.
      first: the first member alone, which did not see the points that choose.
      whole: all members.

    Returns:
      `found` is of: `used`; `held_out`, how many points chose; `gain` of the mean of P@1, P@3 and
      P@5 and its standard `error`; `before` and `precision`, the three without and with it;
      `settings`; `calibration`, the curve from scores to probabilities that the same points tell,
      if they can, with thresholds; `adjustment`, with its `strength`, `precision` and that
      `before`, or None; `points` and `bytes` of the memory, 0 if it is not used; `seconds`.
    """
    begun = time.perf_counter()
    split = memory_split(config, dataset)
    assert split is not None
    # Room for the fullest block of all points, so that one program serves all blocks here.
    room = first.most_entries(dataset.train.features)
    first, whole = (dataclasses.replace(one, block_entries=room) for one in (first, whole))
    kept, held = _with_labels(dataset.train, split[0]), split[1]
    frequency = None
    if config.logit_adjustment == "on" and len(held) >= _LEAST_ADJUSTED:
        frequency = dataset.label_frequency()
    names = trained_beside(config, dataset)
    stored = dataset.train.take(kept).beside(names)
    choosing = judged(dataset.train.take(held))
    trial = _trial(first, stored, choosing, frequency)
    # Scores of the members are added, so that the votes must grow with their number.
    settings = dataclasses.replace(trial.settings, weight=trial.settings.weight * config.members)
    memory = None
    if trial.sure_gain > 0:
        every = kept
        if config.refit or not config.validation_fraction:
            every = np.arange(dataset.train.num_points)
        memory = memory_of(whole, dataset.train, every, settings, names)
    calibration = _calibration(trial, choosing)
    shifts, adjustment = None, None
    if frequency is not None and trial.strength > 0:
        strength = trial.strength * config.members  # as the weight
        shifts = shifts_of(frequency, strength)
        adjustment = {"strength": strength, "before": trial.unadjusted, "precision": trial.adjusted}
    found = {
        "used": memory is not None,
        "held_out": len(held),
        "gain": trial.gain,
        "error": trial.error,
        "before": trial.before,
        "precision": trial.precision,
        "settings": dataclasses.asdict(settings),
        "adjustment": adjustment,
        "calibration": None if calibration is None else dataclasses.asdict(calibration),
        "points": 0 if memory is None else len(memory.rows),
        "bytes": 0 if memory is None else memory.nbytes,
        "seconds": time.perf_counter() - begun,
    }
    return Remembered(found, memory, shifts)


def _calibration(trial: Trial, held: Points) -> Calibration | None:
    """Curves from scores to probabilities, and the thresholds of these."""
    assert trial.labels is not None and trial.scores is not None and trial.right is not None
    best = (slice(None), slice(_TOLD))
    fitted = Calibration.fit(trial.scores[best], trial.right[best], held.weights)
    if fitted is None:
        return None
    likely = fitted(trial.scores)
    thresholds = fit_thresholds(HeldOut(trial.labels, likely, trial.right, held.labels))
    return dataclasses.replace(fitted, thresholds=thresholds)


def memory_of(
    predictor: Predictor,
    points: Points,
    rows: NDArray[np.int64],
    settings: MemorySettings,
    names: Points | None = None,
) -> Memory:
    """A memory of those of the `rows` (int64 [m]) of `points` that have a label and a feature.

    The points that label names make are stored after them.
    """
    rows = _with_labels(points, rows)
    stored = _stored(predictor, points.take(rows).beside(names))
    if names is not None:
        rows = np.append(rows, np.full(names.num_points, NAME))
    queries = None if settings.feature_share == 1 else unit_queries(predictor, stored.features)
    features = predictor.weighting.apply(stored.features)
    return Memory(features, stored.labels, queries, rows, settings, stored.weights)


def never_tried(config: Config, dataset: Dataset) -> str | None:
    """Why no memory is tried here that the settings ask for or allow, in one line; else None."""
    if config.memory == "off":
        return None
    if has_several_processes():
        return "memory: off, because it needs one process"
    if is_mapped(dataset.train.features.indices):
        return "memory: off, because the data take a large part of this machine's memory"
    return None


def _of_memory(found: dict[str, Any]) -> str:
    before, after = _shown(found["before"]), _shown(found["precision"])
    what = (
        f"P {before} -> {after} on {counted(found['held_out'], 'point')} that member 1 did not see"
    )
    if not found["used"]:
        return f"memory: off, it does not surely pay (at best {what})"
    return (
        f"memory: {found['settings']['neighbors']} nearest of {found['points']:,} training points, "
        f"{what}; {found['bytes'] / 2**20:,.0f} MiB, {found['seconds']:.1f} s"
    )


def summaries(found: dict[str, Any]) -> list[str]:
    """What `try_memory` found, a line each: of the memory, and of an adjustment that is used."""
    lines = [_of_memory(found)]
    if (adjustment := found.get("adjustment")) is not None:
        before, after = _shown(adjustment["before"]), _shown(adjustment["precision"])
        lines.append(
            f"logit adjustment: the score of a label with n training points is lowered by "
            f"{adjustment['strength']:.2g} log n, P {before} -> {after} on the same points"
        )
    return lines


def noted(folder: RunFolder, found: dict[str, Any], step: int) -> Iterator[Noted]:
    """Yields what `try_memory` tried, a line each, and keeps the lines in a log of their own.

    Args:
      folder: of the run.
      found: what `try_memory` returned.
      step: the last one.
    """
    lines = [Noted(step, line) for line in summaries(found)]
    with open_log(folder.path, "memory", step) as log:
        for one in lines:
            log.write(one)
    yield from lines


def _shown(precision: Sequence[float]) -> str:
    return " / ".join(f"{x:.1f}" for x in precision)


def _trial(
    first: Predictor, stored: Points, held: Points, frequency: NDArray[np.int64] | None
) -> Trial:
    """Tries memories of `stored` on the points `held`, which are `judged`."""
    stored = _stored(first, stored)
    never = np.zeros((0, 2), np.int64) if held.filter is None else held.filter
    count = min(_LABELS, stored.num_labels)
    labels, scores = first.predict(
        held.features, min(count + most_filtered(never), stored.num_labels)
    )
    labels, places = kept_first(labels, never, stored.num_labels, count)
    scores = np.take_along_axis(scores, places, axis=1)
    among = Stored(first.weighting.apply(stored.features))
    found = among.similar(first.weighting.apply(held.features), FOUND)
    queries = np.concatenate(list(first.queries(held.features)))
    cosines = joint_cosines(found.ids, queries, unit_queries(first, stored.features))
    if first.model.drop_seen:
        never = np.concatenate([never, pairs_of(held.features)])
    own = None
    if len(never):
        own = csr_matrix((np.ones(len(never), np.float32), never.T), shape=held.labels.shape)
    ks = tuple(k for k in KS if k <= stored.num_labels)
    truth, weights = held.labels, stored.weights
    return choose(
        labels,
        scores,
        found,
        cosines,
        stored.labels,
        truth,
        weights=weights,
        own=own,
        frequency=frequency,
        ks=ks,
        answers=LOOKED_AT,
    )


def _stored(predictor: Predictor, points: Points) -> Points:
    """The points as a memory stores them.

    Where features and labels are the same items, a neighbour speaks for all of its items, and all
    of them make it a neighbour.
    """
    return points.baskets() if predictor.model.drop_seen else points


def unit_queries(predictor: Predictor, features: csr_matrix) -> NDArray[np.float16]:
    """Queries of length 1, float16 [n, D]."""
    blocks = [np.zeros((0, predictor.model.members * predictor.model.dim), np.float16)]
    for queries in predictor.queries(features):
        lengths = np.linalg.norm(queries, axis=1, keepdims=True)
        blocks.append((queries / np.where(lengths > 0, lengths, 1)).astype(np.float16))
    return np.concatenate(blocks)


def _with_labels(points: Points, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Those of the rows that have a label and a feature, and do not weigh 0."""
    return points.labelled(rows[np.diff(points.features.indptr)[rows] > 0])

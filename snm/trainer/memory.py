"""Tries a memory of the training points at the end of a run, and keeps it where it pays."""

from __future__ import annotations

import dataclasses
import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.config.resolved import ResolvedConfig
from snm.data.dataset import Dataset, Points
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
from snm.runs.folder import RunFolder, write_json
from snm.system import disk
from snm.trainer.prepare import trained_beside

__all__ = [
    "Remembered",
    "find_memory",
    "forget_memory",
    "keep_memory",
    "memory_of",
    "memory_split",
    "stored_rows",
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
    return keep_memory(folder, find_memory(config, dataset, first, whole))


def forget_memory(folder: RunFolder) -> None:
    """Removes what held-out points once chose for a run, in which they choose no more."""
    for path in (folder.memory_trial, folder.memory, folder.adjustment):
        disk.remove(path)


def keep_memory(folder: RunFolder, remembered: Remembered) -> dict[str, Any]:
    """Writes the files of a run, and returns the content of `memory.json`."""
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
        every = stored_rows(config, dataset)
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


def stored_rows(config: ResolvedConfig, dataset: Dataset) -> NDArray[np.int64]:
    """The rows of train that a memory stores: those that some member trains on."""
    if config.refit or not config.validation_fraction:
        return np.arange(dataset.train.num_points)
    return dataset.rows_of_split(config.validation_fraction, config.seed)[0]


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

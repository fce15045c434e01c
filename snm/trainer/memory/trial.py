"""Chooses a memory and a logit adjustment on points that are held out from member 1."""

from __future__ import annotations

import dataclasses
import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.config.resolved import ResolvedConfig
from snm.config.settings import Config
from snm.data.dataset import Dataset, Points
from snm.evaluation.evaluate import remove_filtered_labels
from snm.evaluation.filters import first_unfiltered, max_filtered, nonzero_pairs
from snm.evaluation.metrics import KS
from snm.memory.adjustment import label_shifts
from snm.memory.choose import Choice, ModelAnswers, Voters, choose
from snm.memory.memory import NUM_FOUND, Memory, joint_cosines
from snm.memory.neighbors import StoredPoints
from snm.prediction.calibration import Calibration
from snm.prediction.fitted_model import make_blocks
from snm.prediction.predictor import Predictor
from snm.prediction.thresholds import DEFAULT_THRESHOLD_K, HeldOut, fit_thresholds
from snm.runs.schema import Adjustment, MemoryRecord
from snm.trainer.memory.stored import (
    make_memory,
    normalized_queries,
    select_usable_rows,
    stored_points,
    stored_rows,
)
from snm.trainer.start.training_points import label_name_points

__all__ = [
    "MIN_ADJUSTMENT_POINTS",
    "ChosenMemory",
    "MemorySplit",
    "choose_memory",
    "split_for_memory",
]

_HELD_OUT_FRACTION = 0.1  # of the points, without a validation set
_MIN_HELD_OUT, _MAX_HELD_OUT = 50, 2000  # points
_NUM_LABELS = 100  # labels of a point that memories are compared on
_CALIBRATION_LABELS = 10  # labels of a point that the calibration is fitted on

MIN_ADJUSTMENT_POINTS = 500
"""Held-out points that a logit adjustment needs; with fewer, its choice is chance."""


class MemorySplit(NamedTuple):
    """Rows of the training set, each ascending.

    Attributes:
      kept: int64 [n], the rows that member 1 trains on.
      held: int64 [m], the held-out rows that choose the memory.
    """

    kept: NDArray[np.int64]
    held: NDArray[np.int64]


def split_for_memory(config: Config, dataset: Dataset) -> MemorySplit | None:
    """Chooses the points that choose the memory, and those that member 1 trains on.

    The former are the validation points, if there are some; else a tenth of all points, at least 50
    and at most 2000.

    Returns:
      The rows of both. None if no memory is tried, or if either part has no point with a label and
      a feature. Filtered labels of held-out points do not count.
    """
    if config.memory == "off":
        return None
    total = dataset.train.num_points
    share = config.validation_fraction or min(
        max(_HELD_OUT_FRACTION, _MIN_HELD_OUT / total), _MAX_HELD_OUT / total
    )
    kept, held = dataset.rows_of_split(share, config.seed)
    held = select_usable_rows(dataset.train, held)
    if dataset.train.filter is not None:
        held = held[np.diff(remove_filtered_labels(dataset.train.take(held)).labels.indptr) > 0]
    if not len(held) or not len(select_usable_rows(dataset.train, kept)):
        return None
    return MemorySplit(kept, held[:: max(1, -(-len(held) // _MAX_HELD_OUT))])


class ChosenMemory(NamedTuple):
    """The memory and the logit adjustment that held-out points chose.

    Attributes:
      record: the content of `memory.json`.
      memory: None if no memory pays.
      shifts: float32 [K], the logit adjustment; None if no adjustment pays.
    """

    record: MemoryRecord
    memory: Memory | None
    shifts: NDArray[np.float32] | None


def choose_memory(
    config: ResolvedConfig,
    dataset: Dataset,
    split: MemorySplit,
    first_member: Predictor,
    all_members: Predictor,
) -> ChosenMemory:
    """Chooses a memory and a logit adjustment, and fits the calibration, on held-out points.

    Args:
      config: the settings, with `memory` on.
      dataset: with the training points.
      split: of `split_for_memory`.
      first_member: the predictor of member 1, which did not train on the held-out points.
      all_members: the predictor of all members.
    """
    start_time = time.perf_counter()
    # The size of the largest block of all points, so that one program serves all blocks.
    block_entries = make_blocks(first_member, None).most_entries(dataset.train.features)
    first_member, all_members = (
        dataclasses.replace(predictor, block_entries=block_entries)
        for predictor in (first_member, all_members)
    )
    kept, held = select_usable_rows(dataset.train, split.kept), split.held
    frequency = None
    if config.logit_adjustment == "on" and len(held) >= MIN_ADJUSTMENT_POINTS:
        frequency = dataset.label_frequency()
    names = label_name_points(config, dataset)
    stored = dataset.train.take(kept).concatenate(names)
    held_out = remove_filtered_labels(dataset.train.take(held))
    choice = _choose(first_member, stored, held_out, frequency)
    tried = choice.tried
    # The scores of the members are added, so the weight of the votes grows with their number.
    settings = dataclasses.replace(tried.settings, weight=tried.settings.weight * config.members)
    memory = None
    if tried.pays:
        rows = stored_rows(config, dataset)
        memory = make_memory(all_members, dataset.train, rows, settings, names)
    calibration = _fit_calibration(choice, held_out)
    shifts, adjustment = None, None
    if frequency is not None and choice.strength > 0:
        strength = choice.strength * config.members  # like the weight
        shifts = label_shifts(frequency, strength)
        adjustment = Adjustment(strength, choice.unadjusted, choice.adjusted)
    record = MemoryRecord(
        used=memory is not None,
        held_out=len(held),
        gain=tried.gain,
        error=tried.error,
        before=tried.before,
        precision=tried.precision,
        settings=settings,
        adjustment=adjustment,
        calibration=calibration,
        points=0 if memory is None else len(memory.rows),
        bytes=0 if memory is None else memory.nbytes,
        seconds=time.perf_counter() - start_time,
    )
    return ChosenMemory(record, memory, shifts)


def _fit_calibration(choice: Choice, held_out: Points) -> Calibration | None:
    """Fits curves from scores to probabilities, and thresholds of the probabilities."""
    best = (slice(None), slice(_CALIBRATION_LABELS))
    calibration = Calibration.fit(choice.scores[best], choice.right[best], held_out.weights)
    if calibration is None:
        return None
    probabilities = calibration(choice.scores)
    answers = HeldOut(choice.labels, probabilities, choice.right, held_out.labels)
    return dataclasses.replace(calibration, thresholds=fit_thresholds(answers))


def _choose(
    predictor: Predictor, stored: Points, held_out: Points, frequency: NDArray[np.int64] | None
) -> Choice:
    """Tries memories of the points `stored` on the points `held_out`.

    Args:
      predictor: of member 1.
      stored: the points that member 1 trains on, and those made of label names.
      held_out: without filtered labels.
      frequency: int64 [K], of the labels, to try logit adjustments; None to try none.
    """
    stored = stored_points(predictor, stored)
    excluded = np.zeros((0, 2), np.int64) if held_out.filter is None else held_out.filter
    count = min(_NUM_LABELS, stored.num_labels)
    labels, scores = predictor.predict(
        held_out.features, min(count + max_filtered(excluded), stored.num_labels)
    )
    labels, columns = first_unfiltered(labels, excluded, stored.num_labels, count)
    scores = np.take_along_axis(scores, columns, axis=1)
    search = StoredPoints(predictor.weighting.apply(stored.features))
    neighbors = search.similar(predictor.weighting.apply(held_out.features), NUM_FOUND)
    queries = np.concatenate(list(predictor.queries(held_out.features)))
    # Only neighbours of held-out points are embedded: of many stored points, most are none.
    found, positions = np.unique(neighbors.ids, return_inverse=True)
    if 2 * len(found) > stored.num_points:  # a copy of their features gains little
        embedded, ids = stored.features, neighbors.ids
    else:
        embedded = stored.features[np.maximum(found, 0)]
        ids = positions.reshape(neighbors.ids.shape).astype(np.int32)
    cosines = joint_cosines(ids, queries, normalized_queries(predictor, embedded))
    if predictor.model.drop_seen:
        excluded = np.concatenate([excluded, nonzero_pairs(held_out.features)])
    mask = None
    if len(excluded):
        ones = np.ones(len(excluded), np.float32)
        mask = csr_matrix((ones, excluded.T), shape=held_out.labels.shape)
    return choose(
        ModelAnswers(labels, scores, held_out.labels, mask),
        Voters(neighbors, cosines, stored.labels, stored.weights),
        frequency=frequency,
        ks=tuple(k for k in KS if k <= stored.num_labels),
        answers=DEFAULT_THRESHOLD_K,
    )

"""Chooses a memory of the training points, and a logit adjustment, on points new to member 1."""

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
from snm.prediction.predictor import Predictor
from snm.prediction.thresholds import DEFAULT_THRESHOLD_K, HeldOut, fit_thresholds
from snm.runs.schema import Adjustment, MemoryRecord
from snm.trainer.memory.stored import as_stored, memory_of, stored_rows, unit_queries, with_labels
from snm.trainer.prepare import label_name_points

__all__ = ["LEAST_ADJUSTED", "Remembered", "find_memory", "memory_split"]

_SHARE, _LEAST, _MOST = 0.1, 50, 2000  # of the points, those that choose the memory
_LABELS = 100  # of the model's best labels, those that the choice looks at
_TOLD = 10  # of a point's answers, those that curves of probabilities are fitted on

LEAST_ADJUSTED = 500
"""Points that choose the memory, below which their choice of a logit adjustment is chance."""


def memory_split(
    config: Config, dataset: Dataset
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
    held = with_labels(dataset.train, held)
    if dataset.train.filter is not None:
        held = held[np.diff(remove_filtered_labels(dataset.train.take(held)).labels.indptr) > 0]
    if not len(held) or not len(with_labels(dataset.train, kept)):
        return None
    return kept, held[:: max(1, -(-len(held) // _MOST))]


class Remembered(NamedTuple):
    """What held-out points chose.

    Attributes:
      record: the content of `memory.json`.
      memory: or None, if it does not pay.
      shifts: float32 [K], of the logit adjustment; or None, if none pays.
    """

    record: MemoryRecord
    memory: Memory | None
    shifts: NDArray[np.float32] | None


def find_memory(
    config: ResolvedConfig, dataset: Dataset, first_member: Predictor, all_members: Predictor
) -> Remembered:
    """Chooses a memory, and a logit adjustment.

    Args:
      config: the settings, with `memory` on.
      dataset: with the training points.
      first_member: the predictor of member 1, which did not see the points that choose.
      all_members: the predictor of all.

    Returns:
      What was found, the memory, and the shifts of the adjustment. The same points tell the
      curves from scores to probabilities, if they can.
    """
    begun = time.perf_counter()
    split = memory_split(config, dataset)
    assert split is not None
    # Room for the fullest block of all points, so that one program serves all blocks here.
    room = first_member.most_entries(dataset.train.features)
    first_member, all_members = (
        dataclasses.replace(one, block_entries=room) for one in (first_member, all_members)
    )
    kept, held = with_labels(dataset.train, split[0]), split[1]
    frequency = None
    if config.logit_adjustment == "on" and len(held) >= LEAST_ADJUSTED:
        frequency = dataset.label_frequency()
    names = label_name_points(config, dataset)
    stored = dataset.train.take(kept).concatenate(names)
    choosing = remove_filtered_labels(dataset.train.take(held))
    choice = _choice(first_member, stored, choosing, frequency)
    tried = choice.tried
    # Scores of the members are added, so that the votes must grow with their number.
    settings = dataclasses.replace(tried.settings, weight=tried.settings.weight * config.members)
    memory = None
    if tried.pays:
        every = stored_rows(config, dataset)
        memory = memory_of(all_members, dataset.train, every, settings, names)
    calibration = _calibration(choice, choosing)
    shifts, adjustment = None, None
    if frequency is not None and choice.strength > 0:
        strength = choice.strength * config.members  # as the weight
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
        seconds=time.perf_counter() - begun,
    )
    return Remembered(record, memory, shifts)


def _calibration(choice: Choice, held: Points) -> Calibration | None:
    """Curves from scores to probabilities, and the thresholds of these."""
    best = (slice(None), slice(_TOLD))
    fitted = Calibration.fit(choice.scores[best], choice.right[best], held.weights)
    if fitted is None:
        return None
    likely = fitted(choice.scores)
    thresholds = fit_thresholds(HeldOut(choice.labels, likely, choice.right, held.labels))
    return dataclasses.replace(fitted, thresholds=thresholds)


def _choice(
    predictor: Predictor, stored: Points, held: Points, frequency: NDArray[np.int64] | None
) -> Choice:
    """Tries memories of `stored` on the points `held`, `remove_filtered_labels`."""
    stored = as_stored(predictor, stored)
    never = np.zeros((0, 2), np.int64) if held.filter is None else held.filter
    count = min(_LABELS, stored.num_labels)
    labels, scores = predictor.predict(
        held.features, min(count + max_filtered(never), stored.num_labels)
    )
    labels, places = first_unfiltered(labels, never, stored.num_labels, count)
    scores = np.take_along_axis(scores, places, axis=1)
    among = StoredPoints(predictor.weighting.apply(stored.features))
    found = among.similar(predictor.weighting.apply(held.features), NUM_FOUND)
    queries = np.concatenate(list(predictor.queries(held.features)))
    cosines = joint_cosines(found.ids, queries, unit_queries(predictor, stored.features))
    if predictor.model.drop_seen:
        never = np.concatenate([never, nonzero_pairs(held.features)])
    own = None
    if len(never):
        own = csr_matrix((np.ones(len(never), np.float32), never.T), shape=held.labels.shape)
    return choose(
        ModelAnswers(labels, scores, held.labels, own),
        Voters(found, cosines, stored.labels, stored.weights),
        frequency=frequency,
        ks=tuple(k for k in KS if k <= stored.num_labels),
        answers=DEFAULT_THRESHOLD_K,
    )

"""The temperature of the softmax of `predict_proba`, fitted on held-out points.

One positive number that divides the scores does not change their order, and corrects most of the
overconfidence of a model (Guo, Pleiss, Sun and Weinberger, On calibration of modern neural
networks, ICML 2017, section 4.2).
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from snm.config.resolved import ResolvedConfig
from snm.data.dataset import Dataset
from snm.prediction.predictor import Predictor
from snm.trainer.memory.stored import make_memory
from snm.trainer.memory.trial import ChosenMemory, MemorySplit

__all__ = ["fit_temperature", "held_out_temperature"]

_LOG_RANGE = (-3.0, 4.0)  # natural logarithm of the temperature: 0.05 to 55
_MIN_POINTS = 50
_MAX_ENTRIES = 1 << 23  # scores of all classes: 32 MiB


def held_out_temperature(
    config: ResolvedConfig,
    dataset: Dataset,
    split: MemorySplit,
    first_member: Predictor,
    chosen: ChosenMemory,
) -> float | None:
    """The temperature of the scores of one member, on the points that choose the memory.

    Args:
      config: the settings, with `memory` on.
      dataset: with the training points, one class each.
      split: of `split_for_memory`.
      first_member: member 1, which did not train on the held-out points; without a memory.
      chosen: the memory and the logit adjustment that answer, for the scores of all members.

    Returns:
      Above 0. None for so many classes that 2**23 scores are those of fewer than 50 points.
    """
    num_labels = dataset.train.num_labels
    num_points = _MAX_ENTRIES // num_labels
    if num_points < _MIN_POINTS:
        return None
    points = dataset.train.take(split.held[:num_points])
    shifts = None if chosen.shifts is None else chosen.shifts / config.members
    memory = chosen.memory
    if memory is not None:
        settings = memory.settings
        settings = dataclasses.replace(settings, weight=settings.weight / config.members)
        memory = make_memory(first_member, dataset.train, split.kept, settings)
    predictor = first_member.with_choice(memory, shifts, None)
    labels, scores = predictor.predict(points.features, num_labels)
    right = labels == points.labels.indices[:, None]
    return fit_temperature(scores, right, points.weights)


def fit_temperature(
    scores: NDArray[np.floating],
    right: NDArray[np.bool_],
    weights: NDArray[np.floating] | None = None,
) -> float:
    """The temperature with the lowest log loss of softmax(scores / temperature).

    If all best labels are right, the log loss falls towards 0 with the temperature. So the target
    of a point is not 1 but (n + 1) / (n + 2) for its class, and the rest is spread over all
    classes, as Platt's targets for a logistic function.

    Args:
      scores: float [n, K].
      right: bool [n, K], one True a row.
      weights: float [n], above 0, of the points; None is 1 for all.
    """
    scores = np.asarray(scores, np.float64)
    counts = np.ones(len(scores)) if weights is None else np.asarray(weights, np.float64)
    counts = counts / counts.sum()
    smoothing = 1 / (len(scores) + 2)
    expected = (1 - smoothing) * scores[right] + smoothing * scores.mean(axis=1)

    def loss(log_temperature: float) -> float:
        inverse = np.exp(-log_temperature)
        return float(counts @ (logsumexp(scores * inverse, axis=1) - expected * inverse))

    return float(np.exp(minimize_scalar(loss, bounds=_LOG_RANGE, method="bounded").x))

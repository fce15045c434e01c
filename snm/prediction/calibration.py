"""Calibration: curves from scores to probabilities, fitted on held-out points.

The probability of a label depends on the other scores of its point: a top label is right more often
than a fifth label of another point with the same score. So a curve is a function of
z = a s + b log(1 + r) + c s_1 + d [r = 0], with the score s, the rank r from 0, and the best score
s_1 of the point. The last term corrects that the maximum of many scores is biased upwards. s_1 is
clipped to the range of the fit: c is often negative, and a very low s_1 would make every label of
the point likely. With a >= 0 the curve does not decrease with the score. If it increases with the
rank, an answer gets the probability of the one before it, so that the order stays. Among candidates
rank and best score have another meaning, so a second curve depends on the score alone.

A curve is a logistic function (Platt, 1999), for which few points suffice, or the isotonic
regression on z (Zadrozny and Elkan, 2002), which has any shape but needs many points.
Cross-validation chooses the one with the lower log loss.

References:
  Platt, Probabilistic outputs for support vector machines and comparisons to regularized likelihood
  methods, Advances in Large Margin Classifiers, 1999.
  Zadrozny and Elkan, Transforming classifier scores into accurate multiclass probability estimates,
  KDD 2002.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from snm.config.auto import MIN_MEMORY_POINTS
from snm.config.marks import between
from snm.prediction.thresholds import Threshold

__all__ = ["NOT_LOADED", "UNCALIBRATED", "Calibration", "Curve"]

UNCALIBRATED = (
    "a model without probabilities",
    f"one trained to its end with --memory on, without --warm-start, on {MIN_MEMORY_POINTS} points "
    "or more: some of these are held out to fit probabilities",
)
"""What was found and what is expected, for messages about a model without a calibration."""

NOT_LOADED = "a model that was loaded with memory=False", "memory=True"
"""The same for a model whose calibration was not loaded."""

_BEST_SCORE = 2  # the column of s_1 in the inputs of z
_NUM_FOLDS = 3  # of the cross-validation that chooses the method of a curve
_LOWEST_SCORE = -1e30  # replaces the score of padding, which may be minus infinity
_NUM_KNOTS = 129  # of a logistic function, interpolated linearly
_MIN_PROBABILITY = 1e-6  # of any curve, and of 1 - p
_Knots = tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclasses.dataclass(frozen=True)
class Curve:
    """A function from z to probabilities, linear between its knots and constant outside.

    Attributes:
      method: `isotonic` or `logistic`.
      weights: a, b, c and d of z.
      knots: z, ascending.
      probabilities: at the knots, in [0, 1], ascending.
      best_scores: lowest and highest s_1 of the points that it was fitted on.
    """

    method: str
    weights: tuple[float, float, float, float]
    knots: tuple[float, ...]
    probabilities: tuple[Annotated[float, between(0, 1)], ...]
    best_scores: tuple[float, float]

    def __post_init__(self) -> None:
        if not self.knots or len(self.probabilities) != len(self.knots):
            raise ValueError("at least one knot, and a probability at each")
        for values in (self.knots, self.probabilities, self.best_scores):
            if list(values) != sorted(values):
                raise ValueError("knots, probabilities and best_scores that ascend")

    @classmethod
    def fit(
        cls, inputs: NDArray, right: NDArray, counts: NDArray, fold: NDArray, *, alone: bool
    ) -> Curve:
        """Fits a curve on answers.

        Args:
          inputs: float64 [n, 4], from `_inputs`.
          right: float64 [n], 1 or 0.
          counts: float64 [n], above 0, the weight of each answer.
          fold: int [n], the fold of each answer's point.
          alone: whether the curve depends on the score alone: b, c and d are 0.
        """
        losses = dict.fromkeys(_METHODS, 0.0)
        for number in range(_NUM_FOLDS):
            test, train = fold == number, fold != number
            if not (test.any() and 0 < right[train].sum() < train.sum()):
                continue
            targets = right[train], counts[train]
            weights, offset = _fit_logistic(inputs[train], *targets, alone=alone)
            for name, method in _METHODS.items():
                knots = method(inputs[train] @ weights, *targets, offset)
                p = np.interp(inputs[test] @ weights, *knots)
                losses[name] -= counts[test] @ np.log(np.where(right[test] > 0, p, 1 - p))
        best = min(losses, key=lambda name: losses[name])
        weights, offset = _fit_logistic(inputs, right, counts, alone=alone)
        z, p = _METHODS[best](inputs @ weights, right, counts, offset)
        best_scores = float(inputs[:, _BEST_SCORE].min()), float(inputs[:, _BEST_SCORE].max())
        return cls(best, tuple(weights.tolist()), tuple(z.tolist()), tuple(p.tolist()), best_scores)

    def __call__(self, inputs: NDArray) -> NDArray[np.float32]:
        """Probabilities float32 [...] of inputs [..., 4]."""
        inputs = inputs.copy()
        inputs[..., _BEST_SCORE] = np.clip(inputs[..., _BEST_SCORE], *self.best_scores)
        z = inputs @ np.array(self.weights)
        return np.interp(z, self.knots, self.probabilities).astype(np.float32)


@dataclasses.dataclass(frozen=True)
class Calibration:
    """The curves from the scores of a model to probabilities.

    Attributes:
      answers: the number of answers that they were fitted on.
      ranked: the curve of the top labels among all.
      alone: the curve that depends on the score alone.
      thresholds: of the probabilities, by the metric that they maximize; see `thresholds.GOALS`.
    """

    answers: int
    ranked: Curve
    alone: Curve
    thresholds: dict[str, Threshold] = dataclasses.field(default_factory=dict)

    @classmethod
    def fit(
        cls,
        scores: NDArray[np.floating],
        right: NDArray[np.bool_],
        weights: NDArray[np.floating] | None = None,
    ) -> Calibration | None:
        """Fits the curves on the top answers of points; None if all are right or all are wrong.

        Args:
          scores: float [m, k], of one member, best first; not finite for padding.
          right: bool [m, k], whether the point has the label.
          weights: float [m], above 0, of the points; an answer of a point of weight 2 counts twice.
            None is 1 for all.
        """
        is_label = np.isfinite(scores)
        folds = np.arange(len(scores)) % _NUM_FOLDS
        fold = np.broadcast_to(folds[:, None], scores.shape)[is_label]
        truth = np.asarray(right[is_label], np.float64)
        point_weights = np.ones(len(scores)) if weights is None else weights.astype(np.float64)
        counts = np.broadcast_to(point_weights[:, None], scores.shape)[is_label]
        if not 0 < truth.sum() < len(truth):
            return None
        inputs = _inputs(np.where(is_label, scores, 0))[is_label]
        ranked = Curve.fit(inputs, truth, counts, fold, alone=False)
        alone = Curve.fit(inputs, truth, counts, fold, alone=True)
        return cls(len(truth), ranked, alone)

    def __call__(
        self, scores: NDArray[np.floating], *, members: int = 1, ranked: bool = True
    ) -> NDArray[np.float32]:
        """Probabilities float32, in the shape of the scores.

        Args:
          scores: [..., k], of a model.
          members: the number of members of the model, whose scores are added.
          ranked: whether the scores are those of a point's top labels, best first along the last
            axis; if not, each probability depends on its score alone.
        """
        inputs = _inputs(np.maximum(np.asarray(scores, np.float64) / members, _LOWEST_SCORE))
        if not ranked:
            return self.alone(inputs)
        return np.minimum.accumulate(self.ranked(inputs), axis=-1)


def _inputs(scores: NDArray) -> NDArray[np.float64]:
    """The inputs of z: score, log(1 + rank), best score, and [rank = 0]; float64 [..., k, 4]."""
    rank = np.arange(scores.shape[-1])
    inputs = scores, np.log1p(rank), scores[..., :1], rank == 0
    return np.stack(np.broadcast_arrays(*inputs), axis=-1).astype(np.float64)


def _fit_logistic(
    inputs: NDArray, right: NDArray, counts: NDArray, *, alone: bool
) -> tuple[NDArray, float]:
    """Weights and offset of a logistic regression, with Platt's smoothed targets."""
    ones = counts @ right
    targets = np.where(right > 0, (ones + 1) / (ones + 2), 1 / (counts.sum() - ones + 2))
    centre, spread = inputs.mean(axis=0), inputs.std(axis=0)
    x = (inputs - centre) / np.where(spread > 0, spread, 1)
    x = np.append(x, np.ones((len(x), 1)), axis=1)
    free = np.append(spread > 0, True)  # the weight of a constant input is 0
    free[1:-1] &= not alone
    solution = _minimize_loss(x, targets, counts, free)
    if solution[0] < 0:  # the loss is convex: its minimum with a >= 0 is at a = 0
        free[0] = False
        solution = _minimize_loss(x, targets, counts, free)
    weights = solution[:-1] / np.where(spread > 0, spread, 1)
    return weights, solution[-1] - weights @ centre


def _minimize_loss(x: NDArray, targets: NDArray, counts: NDArray, free: NDArray) -> NDArray:
    """The weights of a logistic regression on the `free` columns of x, and 0 for the others.

    `einsum` avoids BLAS: with so few columns, its threads take longer to start than the sums.
    """
    from scipy.optimize import minimize  # importing it takes 0.1 s, and predictions do not need it

    columns = np.ascontiguousarray(x[:, free].T)

    def loss_and_gradient(weights: NDArray) -> tuple[float, NDArray]:
        z = np.einsum("i,in->n", weights, columns)
        error = counts * (_sigmoid(z) - targets)
        value = counts * (np.logaddexp(0, z) - targets * z)
        return value.sum(), np.einsum("in,n->i", columns, error)

    def hessian(weights: NDArray) -> NDArray:
        p = _sigmoid(np.einsum("i,in->n", weights, columns))
        return np.einsum("in,jn,n->ij", columns, columns, counts * p * (1 - p), optimize=False)

    solution = np.zeros(len(free))
    start = np.zeros(len(columns))
    result = minimize(loss_and_gradient, start, jac=True, hess=hessian, method="trust-exact")
    solution[free] = result.x
    return solution


def _sigmoid(z: NDArray) -> NDArray:
    # Importing scipy.special.expit would take 0.1 s of each command.
    return np.exp(-np.logaddexp(0, -z))


def _logistic_knots(z: NDArray, right: NDArray, counts: NDArray, offset: float) -> _Knots:
    # Wide enough for probabilities near 0 and 1, beyond the z of the fit.
    knots = np.linspace(min(z.min(), -12 - offset), max(z.max(), 12 - offset), _NUM_KNOTS)
    # Clipped, so that the log loss of a wrong answer stays finite.
    return knots, np.clip(_sigmoid(knots + offset), _MIN_PROBABILITY, 1 - _MIN_PROBABILITY)


def _isotonic_knots(z: NDArray, right: NDArray, counts: NDArray, offset: float) -> _Knots:
    """A knot for each block of equal probability, at its mean z; clipped to inside (0, 1)."""
    from scipy.optimize import isotonic_regression

    order = np.lexsort((-right, z))  # right answers first among equal z, so that they are pooled
    fitted = isotonic_regression(right[order], weights=counts[order])
    starts = fitted.blocks[:-1].astype(np.int64)
    z_sums = np.add.reduceat((counts * z)[order], starts)
    mean_z = z_sums / np.add.reduceat(counts[order], starts)
    min_probability = max(1 / (counts.sum() + 2), _MIN_PROBABILITY)
    return mean_z, np.clip(fitted.x[starts], min_probability, 1 - min_probability)


_METHODS: dict[str, Callable[[NDArray, NDArray, NDArray, float], _Knots]] = {
    "logistic": _logistic_knots,
    "isotonic": _isotonic_knots,
}

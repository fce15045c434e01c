"""Probabilities from scores: curves fitted on points that the scoring model has not seen.

What a score says depends on the company: the best label of a point is right more often than another
point's fifth with the same score. So a curve is of z = a s + b log(1 + r) + c s_1 + d [r = 0],
where s is the score, r the rank from 0, and s_1 the best score of the point. The last term is there
since the highest of many scores is too high as a rule. A best score beyond those of the fit counts
as the nearest of them: c is often below 0, and would make every label of a point likely whose best
score is lower than any that was seen. With a >= 0 the curve does not fall with the
score; where it would rise with the rank, an answer gets the probability of the one before it, so
that the order stays. Where answers are chosen from some labels, rank and best score mean something
else, and a second curve is of the score alone.

A curve is a logistic function (Platt, 1999), which few points can tell, or the isotonic regression
of right on z (Zadrozny and Elkan, 2002), which has any form but needs many points: whichever has
the lower log loss on folds of points that it was not fitted on.

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

from snm.config.marks import between
from snm.memory.sizes import MIN_POINTS
from snm.prediction.thresholds import Threshold

__all__ = ["LEFT_OUT", "UNCALIBRATED", "Calibration", "Curve"]

UNCALIBRATED = (
    "a model without probabilities",
    f"one trained with --memory on, from {MIN_POINTS} training points on: some of these are "
    "held out to fit probabilities",
)
"""What is found in place of a calibration, and what is expected, where no more is known."""

LEFT_OUT = "a model that was loaded with memory=False", "memory=True"
"""The same, where there is a calibration that was not loaded."""

_BEST = 2  # the place of s_1 among the inputs of z
_FOLDS = 3  # that choose the form of a curve
_NONE = -1e30  # in place of the score of no label, which may be minus infinity
_KNOTS = 129  # of a logistic function, which is linear between them
_LEAST = 1e-6  # probability of the logistic curve, and of its opposite
_Knots = tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclasses.dataclass(frozen=True)
class Curve:
    """From z to probabilities, linear between its knots and constant outside.

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
        """The curve of some answers.

        Args:
          inputs: float64 [n, 4], as `_inputs`.
          right: float64 [n], 1 or 0.
          counts: float64 [n], above 0, how often each answer counts.
          fold: int [n], the fold of each answer's point.
          alone: whether all but a are 0.
        """
        losses = dict.fromkeys(_METHODS, 0.0)
        for number in range(_FOLDS):
            own, others = fold == number, fold != number
            if not (own.any() and 0 < right[others].sum() < others.sum()):
                continue
            of_others = right[others], counts[others]
            weights, offset = _logistic(inputs[others], *of_others, alone=alone)
            for name, method in _METHODS.items():
                knots = method(inputs[others] @ weights, *of_others, offset)
                p = np.interp(inputs[own] @ weights, *knots)
                losses[name] -= counts[own] @ np.log(np.where(right[own] > 0, p, 1 - p))
        best = min(losses, key=lambda name: losses[name])
        weights, offset = _logistic(inputs, right, counts, alone=alone)
        knots = _METHODS[best](inputs @ weights, right, counts, offset)
        w, at, p = (tuple(values.tolist()) for values in (weights, *knots))
        best_scores = float(inputs[:, _BEST].min()), float(inputs[:, _BEST].max())
        return cls(best, w, at, p, best_scores)

    def __call__(self, inputs: NDArray) -> NDArray[np.float32]:
        """Probabilities float32 [...] of inputs [..., 4]."""
        inputs = inputs.copy()
        inputs[..., _BEST] = np.clip(inputs[..., _BEST], *self.best_scores)
        z = inputs @ np.array(self.weights)
        return np.interp(z, self.knots, self.probabilities).astype(np.float32)


@dataclasses.dataclass(frozen=True)
class Calibration:
    """What makes the scores of a model probabilities.

    Attributes:
      answers: how many it was fitted on.
      ranked: of the best of all labels.
      alone: of any label, by its score alone.
      thresholds: of the probabilities, by what they make highest; see `thresholds.GOALS`.
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
        """The curves of the best answers of some points; None where all are right, or none.

        Args:
          scores: float [m, k], of one member, best first; an answer whose score is not finite is
            none.
          right: bool [m, k], whether the label is one of the point.
          weights: float [m], above 0, of the points; an answer of a point of weight 2 counts twice.
            None is 1 for all.
        """
        real = np.isfinite(scores)
        fold = np.broadcast_to(np.arange(len(scores))[:, None] % _FOLDS, scores.shape)[real]
        truth = np.asarray(right[real], np.float64)
        of_points = np.ones(len(scores)) if weights is None else weights.astype(np.float64)
        counts = np.broadcast_to(of_points[:, None], scores.shape)[real]
        if not 0 < truth.sum() < len(truth):
            return None
        inputs = _inputs(np.where(real, scores, 0))[real]
        ranked, alone = (
            Curve.fit(inputs, truth, counts, fold, alone=flag) for flag in (False, True)
        )
        return cls(len(truth), ranked, alone)

    def __call__(
        self, scores: NDArray[np.floating], *, members: int = 1, ranked: bool = True
    ) -> NDArray[np.float32]:
        """Probabilities float32, in the shape of the scores.

        Args:
          scores: [..., k], of a model.
          members: of the model, whose scores are added.
          ranked: whether the scores are those of a point's best labels, best first along the last
            axis; if not, each is taken alone.
        """
        inputs = _inputs(np.maximum(np.asarray(scores, np.float64) / members, _NONE))
        if not ranked:
            return self.alone(inputs)
        return np.minimum.accumulate(self.ranked(inputs), axis=-1)


def _inputs(scores: NDArray) -> NDArray[np.float64]:
    """Score, log(1 + rank), best score, and 1 for the best answer or 0: float64 [..., k, 4]."""
    rank = np.arange(scores.shape[-1])
    inputs = scores, np.log1p(rank), scores[..., :1], rank == 0
    return np.stack(np.broadcast_arrays(*inputs), axis=-1).astype(np.float64)


def _logistic(
    inputs: NDArray, right: NDArray, counts: NDArray, *, alone: bool
) -> tuple[NDArray, float]:
    """Weights and offset of a logistic regression, with Platt's targets against certainty."""
    ones = counts @ right
    targets = np.where(right > 0, (ones + 1) / (ones + 2), 1 / (counts.sum() - ones + 2))
    centre, spread = inputs.mean(axis=0), inputs.std(axis=0)
    x = (inputs - centre) / np.where(spread > 0, spread, 1)
    x = np.append(x, np.ones((len(x), 1)), axis=1)
    free = np.append(spread > 0, True)  # an input that is the same everywhere tells nothing
    free[1:-1] &= not alone
    line = _least_loss(x, targets, counts, free)
    if line[0] < 0:  # the loss is convex: with a >= 0, its least is at 0
        free[0] = False
        line = _least_loss(x, targets, counts, free)
    weights = line[:-1] / np.where(spread > 0, spread, 1)
    return weights, line[-1] - weights @ centre


def _least_loss(x: NDArray, targets: NDArray, counts: NDArray, free: NDArray) -> NDArray:
    """The weights of a logistic regression on the `free` columns of x, and 0 for the others.

    Sums are taken without BLAS: for so few columns, waking its threads costs more than the sums.
    """
    from scipy.optimize import minimize  # a tenth of a second that answers need not wait for

    used = np.ascontiguousarray(x[:, free].T)

    def loss(line: NDArray) -> tuple[float, NDArray]:
        z = np.einsum("i,in->n", line, used)
        error = counts * (_logistic_of(z) - targets)
        value = counts * (np.logaddexp(0, z) - targets * z)
        return value.sum(), np.einsum("in,n->i", used, error)

    def hessian(line: NDArray) -> NDArray:
        p = _logistic_of(np.einsum("i,in->n", line, used))
        return np.einsum("in,jn,n->ij", used, used, counts * p * (1 - p), optimize=False)

    found = np.zeros(len(free))
    start = np.zeros(len(used))
    found[free] = minimize(loss, start, jac=True, hess=hessian, method="trust-exact").x
    return found


def _logistic_of(z: NDArray) -> NDArray:
    # Not scipy.special's, whose import would take a tenth of a second of each command.
    return np.exp(-np.logaddexp(0, -z))


def _logistic_knots(z: NDArray, right: NDArray, counts: NDArray, offset: float) -> _Knots:
    # As far as ranks beyond those that were seen go, and to probabilities near 0 and 1.
    at = np.linspace(min(z.min(), -12 - offset), max(z.max(), 12 - offset), _KNOTS)
    # Never certain: a wrong answer far beyond the others would cost an infinite loss.
    return at, np.clip(_logistic_of(at + offset), _LEAST, 1 - _LEAST)


def _isotonic_knots(z: NDArray, right: NDArray, counts: NDArray, offset: float) -> _Knots:
    """One knot for each stretch of equal probability, at its mean; never certain."""
    from scipy.optimize import isotonic_regression

    order = np.lexsort((-right, z))  # of equal z the right ones first: they are pooled
    found = isotonic_regression(right[order], weights=counts[order])
    starts = found.blocks[:-1].astype(np.int64)
    sums = (np.add.reduceat(values[order], starts) for values in (counts * z, counts))
    means = np.divide(*sums)
    least = 1 / (counts.sum() + 2)
    return means, np.clip(found.x[starts], least, 1 - least)


_METHODS: dict[str, Callable[[NDArray, NDArray, NDArray, float], _Knots]] = {
    "logistic": _logistic_knots,
    "isotonic": _isotonic_knots,
}

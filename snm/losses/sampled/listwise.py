r"""Listwise losses of the head. The list of a point has its positives and its mined negatives.

Labels are either relevant or not, so a list has two grades of relevance. The positives of the step
(all of the point's, or the one that was drawn) have the higher grade, the mined negatives 0. The
papers leave the following open:

* The higher grade is the score scale at the start of training: without a bias, no score is higher.
  It determines the target of ListNet and the vector of RankCosine. Smoothed DCG@1 uses the gain
  2^1 - 1.
* ListMLE is its top-k form over the ranks of the positives, since the order of the negatives is
  unknown. The positives are sorted by score: the most likely order that the grades allow. Each rank
  has the weight of its term.
* In the other losses, the weight of a list is the sum of the weights of its terms: 1 if the terms
  of a point are averaged, their number if they are summed.

RankSVM is in `snm.losses.sampled.ordered`. With two grades, each pair has a positive and a
negative, so it is POWL with the hinge and equal weights, divided by the number of negatives.

Positives are a ragged block, since a few points have hundreds and most about ten. The losses equal
those of `snm.losses.listwise` on two grades.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import lax

from snm.losses.reductions import MASKED, apply_weights, log_sum_exp
from snm.losses.sampled.options import LossOptions, SampleSizes
from snm.losses.sampled.protocol import Draw, HeadLoss, TermScores
from snm.losses.transformations import (
    TRANSFORMATIONS,
    Transformation,
    TransformationFamily,
    exponential,
)

__all__ = ["ListMLE", "ListNet", "RankCosine", "SmoothedDCG"]

_LOW = MASKED  # a finite stand-in for log(0)
_OFFSET = 1.1  # makes the linear psi 21 times as large at the highest score as at the lowest


def _is_real(scores: TermScores) -> jax.Array:
    """False for padding: bool [T]."""
    return scores.weights != 0


def _sum_positives(scores: TermScores, values: jax.Array) -> jax.Array:
    """The sum of [T] over the positives of each list: [n]."""
    values = jnp.where(_is_real(scores), values, 0)
    size = scores.negative.shape[0]
    return jax.ops.segment_sum(values, scores.rows, size, indices_are_sorted=True)


def _sum_negatives(scores: TermScores, values: jax.Array) -> jax.Array:
    """The sum of [n, m] over the negatives of each list: [n]."""
    return jnp.sum(jnp.where(scores.where, values, 0), axis=1)


def _log_sum_exp(scores: TermScores, positive: jax.Array, negative: jax.Array) -> jax.Array:
    """Log-sum-exp over each list: [n]; 0 for an empty list."""
    real, where = _is_real(scores), scores.where
    real_scores = jnp.where(real, positive, _LOW)
    top = jax.ops.segment_max(real_scores, scores.rows, negative.shape[0], indices_are_sorted=True)
    top = jnp.maximum(top, jnp.max(jnp.where(where, negative, _LOW), axis=1, initial=_LOW))
    # A constant shift cancels from the value, so from the gradient too.
    top = lax.stop_gradient(jnp.where(top > _LOW / 2, top, 0))
    exp_positive = jnp.exp(jnp.where(real, positive - top[scores.rows], 0))
    exp_negative = jnp.exp(jnp.where(where, negative - top[:, None], 0))
    total = _sum_positives(scores, exp_positive) + _sum_negatives(scores, exp_negative)
    return top + jnp.log(jnp.where(total > 0, total, 1))


@dataclass(frozen=True)
class ListLoss(HeadLoss):
    """Base class of the losses of whole lists; hashable.

    Attributes:
      transformation: a value of `TRANSFORMATIONS`; smoothed DCG does not use it.
      temperature: divides scores and grades before they are transformed.
      grade: relevance of a positive, in the unit of the scores; that of a negative is 0.
      offset: of the transformation, if it has one; above the largest score over the temperature.
      learning_rates: transformation -> `auto_learning_rate`, if it is not 20.
    """

    transformation: TransformationFamily = exponential
    temperature: float = 1.0
    grade: float = 1.0
    offset: float = _OFFSET

    learning_rates: ClassVar[dict[str, float]] = {}
    scores_per_point = True
    option_names = frozenset({"transformation", "temperature", "list_grade"})

    def configured(self, options: LossOptions, sizes: SampleSizes) -> ListLoss:
        """With the transformation, the temperature and the grade of the options."""
        return dataclasses.replace(
            self,
            transformation=TRANSFORMATIONS[options.transformation],
            temperature=options.temperature,
            grade=options.list_grade,
            # The largest score is the grade, up to rounding; psi is positive above -offset.
            offset=_OFFSET * options.list_grade / options.temperature,
        )

    @property
    def takes_exponentials(self) -> bool:
        """Whether the transformation exponentiates scores."""
        return self.transformation.takes_exponentials

    @property
    def auto_learning_rate(self) -> float:
        """The best of two or three rates on held-out points of `citeulike-t-14k`.

        `experiments/mining/README.md` lists them. 20 suits a loss as steep as softmax. The others
        have smaller gradients: RankCosine is at most 1/2; the gradient of smoothed DCG is p (1 - p)
        for a probability p that is small at first; and with linear psi the score scale cancels. If
        one point in ten has a label, its row is updated so often that a tenth of this may suit.
        """
        return self.learning_rates.get(self.transformation.name, super().auto_learning_rate)

    @property
    def psi(self) -> Transformation:
        """The transformation, with the inverse temperature as its slope."""
        offset = None if self.transformation.positive_everywhere else self.offset
        return self.transformation(1 / self.temperature, offset)

    def logs(self, scores: TermScores) -> tuple[jax.Array, jax.Array]:
        """Log psi of the scores of positives [T] and negatives [n, m]; psi(0) for padding."""
        return (
            self.psi.log(jnp.where(_is_real(scores), scores.positive, 0)),
            self.psi.log(jnp.where(scores.where, scores.negative, 0)),
        )

    def log_grades(self, scores: TermScores, power: float = 1.0) -> tuple[jax.Array, ...]:
        """Log psi of the two grades, and log of the sum of psi(grade)^power over each list [n]."""
        high, low = self.psi.log(jnp.asarray([self.grade, 0.0], scores.positive.dtype))
        counts = (
            _sum_positives(scores, jnp.ones_like(scores.positive)),
            _sum_negatives(scores, jnp.ones_like(scores.negative)),
        )
        logs = (
            jnp.where(count > 0, jnp.log(jnp.maximum(count, 1)) + power * grade, _LOW)
            for count, grade in zip(counts, (high, low), strict=True)
        )
        return high, low, jnp.logaddexp(*logs)


def _weighted_sum(scores: TermScores, values: jax.Array) -> jax.Array:
    """The sum of the lists' losses [n], each times the total weight of its terms."""
    return jnp.sum(apply_weights(_sum_positives(scores, scores.weights), values))


@dataclass(frozen=True)
class ListNet(ListLoss):
    """Cross entropy of two distributions over a list, proportional to psi(grades), psi(scores)."""

    name = "listnet"
    learning_rates: ClassVar = {"linear": 600.0, "sigmoid": 200.0}

    def value(self, scores: TermScores, draw: Draw | None = None) -> jax.Array:
        """The weighted sum of the lists' losses."""
        positive, negative = self.logs(scores)
        high, low, total = self.log_grades(scores)
        expected_log = _sum_positives(scores, positive) * jnp.exp(high - total)
        expected_log += _sum_negatives(scores, negative) * jnp.exp(low - total)
        return _weighted_sum(scores, _log_sum_exp(scores, positive, negative) - expected_log)


@dataclass(frozen=True)
class ListMLE(ListLoss):
    """Minus the log likelihood that the positives come first, in the order of their scores."""

    name = "listmle"
    learning_rates: ClassVar = {"linear": 600.0, "sigmoid": 600.0}

    def value(self, scores: TermScores, draw: Draw | None = None) -> jax.Array:
        """The weighted sum of the lists' losses."""
        positive, negative = self.logs(scores)
        size = negative.shape[0]
        # Sorted by list, then by descending score; padding comes last.
        rows = jnp.where(_is_real(scores), scores.rows, size)
        order = jnp.lexsort((-lax.stop_gradient(positive), rows))
        logs, rows, weights = positive[order], rows[order], scores.weights[order]

        def combine(later: tuple, earlier: tuple) -> tuple:
            """Adds log-sums-exp of neighbouring ranges if they end in the same list."""
            (later_row, later_sum), (row, log_sum) = later, earlier
            return row, jnp.where(later_row == row, jnp.logaddexp(later_sum, log_sum), log_sum)

        _, following = lax.associative_scan(combine, (rows, logs), reverse=True)
        negatives, has_negatives = log_sum_exp(negative, scores.where)
        negatives = jnp.where(has_negatives, negatives, _LOW)
        rest = jnp.logaddexp(following, negatives.at[rows].get(mode="clip"))
        return jnp.sum(apply_weights(weights, rest - logs))


@dataclass(frozen=True)
class RankCosine(ListLoss):
    """Half of 1 minus the cosine of the angle between psi of the scores and psi of the grades."""

    name = "rankcosine"
    learning_rates: ClassVar = {"exponential": 120.0, "linear": 2500.0, "sigmoid": 1000.0}

    def value(self, scores: TermScores, draw: Draw | None = None) -> jax.Array:
        """The weighted sum of the lists' losses."""
        positive, negative = self.logs(scores)
        high, low, log_grade_squares = self.log_grades(scores, power=2)
        # In logarithms, so that no exponential overflows.
        log_dot = _log_sum_exp(scores, positive + high, negative + low)
        log_score_squares = _log_sum_exp(scores, 2 * positive, 2 * negative)
        log_norms = (log_grade_squares + log_score_squares) / 2
        return _weighted_sum(scores, (1 - jnp.exp(log_dot - log_norms)) / 2)


@dataclass(frozen=True)
class SmoothedDCG(ListLoss):
    """Smoothed DCG@1: minus the sum of the positives' softmax probabilities in the list."""

    name = "smoothed-dcg"
    option_names = frozenset({"temperature"})
    learning_rates: ClassVar = {"exponential": 120.0}

    def value(self, scores: TermScores, draw: Draw | None = None) -> jax.Array:
        """The weighted sum of the lists' losses."""
        positive = jnp.where(_is_real(scores), scores.positive, 0) / self.temperature
        negative = jnp.where(scores.where, scores.negative, 0) / self.temperature
        total = _log_sum_exp(scores, positive, negative)
        log_probability = jnp.where(_is_real(scores), positive - total[scores.rows], 0)
        return _weighted_sum(scores, -_sum_positives(scores, jnp.exp(log_probability)))

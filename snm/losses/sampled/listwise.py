r"""Listwise losses of the head: a list is a point's positives and its mined negatives.

The labels of a point say which are relevant, and no more, so a list has two grades of relevance.
The positives of the step (all of the point's, or the one that was drawn) have the higher grade,
the mined negatives 0. The rest is a choice:

* The higher grade is the multiplier of the inner products when training starts: without a bias no
  score is higher. The target of ListNet and the vector of RankCosine follow from it.
  Smoothed DCG@1 takes the gain 2^1 - 1.
* ListMLE is its top-k form, over the places of the positives: the order of the negatives means
  nothing. The positives are placed in the order of their scores, which is the likeliest of the
  orders that the grades allow. A place has the weight of its term.
* In the other losses a list has the weight of its terms together: 1 where the terms of a point
  are averaged, their number where they are summed.

RankSVM needs none of this. With two grades its pairs are a positive and a negative each, which is
POWL with the hinge and equal weights, divided by the number of negatives.

Positives come as a ragged block, since one point may have hundreds where most have ten. The losses
are equal to those of `snm.losses.listwise` on two grades.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import lax

from snm.losses.reductions import MASKED, log_sum_exp, weighed
from snm.losses.sampled.options import LossOptions, SampleSizes
from snm.losses.sampled.protocol import Draw, HeadLoss, TermScores
from snm.losses.transformations import (
    TRANSFORMATIONS,
    Transformation,
    TransformationFamily,
    exponential,
)

__all__ = ["ListLoss", "ListMLE", "ListNet", "RankCosine", "SmoothedDCG"]

_LOW = MASKED  # the logarithm of nothing
_OFFSET = 1.1  # the linear psi is then 21 times as large at the highest score as at the lowest


def _real(scores: TermScores) -> jax.Array:
    """Which positives are in a list: bool [T]; padding is in none."""
    return scores.weights != 0


def _over_positives(scores: TermScores, values: jax.Array) -> jax.Array:
    """The sum of [T] over the positives of each list: [n]."""
    values = jnp.where(_real(scores), values, 0)
    size = scores.negative.shape[0]
    return jax.ops.segment_sum(values, scores.rows, size, indices_are_sorted=True)


def _over_negatives(scores: TermScores, values: jax.Array) -> jax.Array:
    """The sum of [n, m] over the negatives of each list: [n]."""
    return jnp.sum(jnp.where(scores.where, values, 0), axis=1)


def _log_sum_exp(scores: TermScores, positive: jax.Array, negative: jax.Array) -> jax.Array:
    """The logarithm of the sum of exponentials over each list: [n]; 0 for an empty one."""
    real, where = _real(scores), scores.where
    low = jnp.where(real, positive, _LOW)
    top = jax.ops.segment_max(low, scores.rows, negative.shape[0], indices_are_sorted=True)
    top = jnp.maximum(top, jnp.max(jnp.where(where, negative, _LOW), axis=1, initial=_LOW))
    # A constant shift cancels from the value, so from the gradient too.
    top = lax.stop_gradient(jnp.where(top > _LOW / 2, top, 0))
    of_positive = jnp.exp(jnp.where(real, positive - top[scores.rows], 0))
    of_negative = jnp.exp(jnp.where(where, negative - top[:, None], 0))
    total = _over_positives(scores, of_positive) + _over_negatives(scores, of_negative)
    return top + jnp.log(jnp.where(total > 0, total, 1))


@dataclass(frozen=True)
class ListLoss(HeadLoss):
    """A loss that sees all positives of a list at once; hashable, as part of what is static.

    Attributes:
      transformation: of `TRANSFORMATIONS`; smoothed DCG has none.
      temperature: scores and grades are divided by it before they are transformed.
      grade: of a positive, in the unit of the scores; that of a negative is 0.
      offset: of a transformation that has one, above the largest score over the temperature.
      rates: `auto_learning_rate` by transformation, where that is not 20.
    """

    transformation: TransformationFamily = exponential
    temperature: float = 1.0
    grade: float = 1.0
    offset: float = _OFFSET

    rates: ClassVar[dict[str, float]] = {}
    scores_per_point = True
    reads = frozenset({"transformation", "temperature", "list_grade"})

    def configured(self, options: LossOptions, sizes: SampleSizes) -> ListLoss:
        """With the transformation, the temperature and the grade of the options."""
        return dataclasses.replace(
            self,
            transformation=TRANSFORMATIONS[options.transformation],
            temperature=options.temperature,
            grade=options.list_grade,
            # The largest score is the grade, but for rounding; psi is positive above -offset.
            offset=_OFFSET * options.list_grade / options.temperature,
        )

    @property
    def takes_exponentials(self) -> bool:
        """Whether the transformation does."""
        return self.transformation.takes_exponentials

    @property
    def auto_learning_rate(self) -> float:
        """The best of two or three on held-out points of `citeulike-t-14k`.

        `experiments/mining/README.md` has them. 20 where a loss is as steep as softmax. RankCosine
        lies within 1/2, the gradient of smoothed DCG is p (1 - p) for a share p that is small at
        first, and the multiplier of linear scores cancels. Where one point in ten has a label, its
        row is updated so often that a tenth may suit.
        """
        return self.rates.get(self.transformation.name, super().auto_learning_rate)

    @property
    def psi(self) -> Transformation:
        """The transformation, with the inverse temperature as its slope."""
        offset = None if self.transformation.positive_everywhere else self.offset
        return self.transformation(1 / self.temperature, offset)

    def logs(self, scores: TermScores) -> tuple[jax.Array, jax.Array]:
        """Log psi of the scores [T] and [n, m]; of 0 where there is none."""
        return (
            self.psi.log(jnp.where(_real(scores), scores.positive, 0)),
            self.psi.log(jnp.where(scores.where, scores.negative, 0)),
        )

    def log_grades(self, scores: TermScores, power: float = 1.0) -> tuple[jax.Array, ...]:
        """Log psi of the two grades, and the logarithm of the sum of psi^power over each list."""
        high, low = self.psi.log(jnp.asarray([self.grade, 0.0], scores.positive.dtype))
        counts = (
            _over_positives(scores, jnp.ones_like(scores.positive)),
            _over_negatives(scores, jnp.ones_like(scores.negative)),
        )
        logs = (
            jnp.where(count > 0, jnp.log(jnp.maximum(count, 1)) + power * grade, _LOW)
            for count, grade in zip(counts, (high, low), strict=True)
        )
        return high, low, jnp.logaddexp(*logs)


def _weighed(scores: TermScores, values: jax.Array) -> jax.Array:
    return jnp.sum(weighed(_over_positives(scores, scores.weights), values))


@dataclass(frozen=True)
class ListNet(ListLoss):
    """Cross entropy of two distributions over a list: psi of the grades, and psi of the scores."""

    name = "listnet"
    rates: ClassVar = {"linear": 600.0, "sigmoid": 200.0}

    def value(self, scores: TermScores, draw: Draw | None = None) -> jax.Array:
        """The sum of the lists' losses, each times its weight."""
        positive, negative = self.logs(scores)
        high, low, total = self.log_grades(scores)
        share = _over_positives(scores, positive) * jnp.exp(high - total)
        share = share + _over_negatives(scores, negative) * jnp.exp(low - total)
        return _weighed(scores, _log_sum_exp(scores, positive, negative) - share)


@dataclass(frozen=True)
class ListMLE(ListLoss):
    """Minus the log likelihood that the positives come first, in the order of their scores."""

    name = "listmle"
    rates: ClassVar = {"linear": 600.0, "sigmoid": 600.0}

    def value(self, scores: TermScores, draw: Draw | None = None) -> jax.Array:
        """The sum of the lists' losses, each times its weight."""
        positive, negative = self.logs(scores)
        size = negative.shape[0]
        # Best first within each list, and padding behind all.
        rows = jnp.where(_real(scores), scores.rows, size)
        order = jnp.lexsort((-lax.stop_gradient(positive), rows))
        logs, rows, weights = positive[order], rows[order], scores.weights[order]

        def combine(later: tuple, earlier: tuple) -> tuple:
            """Sums of exponentials from a place to the end of its list, or as far as is known."""
            (row, value), (other, sooner) = later, earlier
            return other, jnp.where(row == other, jnp.logaddexp(value, sooner), sooner)

        _, following = lax.associative_scan(combine, (rows, logs), reverse=True)
        rivals, some = log_sum_exp(negative, scores.where)
        rivals = jnp.where(some, rivals, _LOW)
        rest = jnp.logaddexp(following, rivals.at[rows].get(mode="clip"))
        return jnp.sum(weighed(weights, rest - logs))


@dataclass(frozen=True)
class RankCosine(ListLoss):
    """Half of 1 minus the cosine of the angle between psi of the scores and psi of the grades."""

    name = "rankcosine"
    rates: ClassVar = {"exponential": 120.0, "linear": 2500.0, "sigmoid": 1000.0}

    def value(self, scores: TermScores, draw: Draw | None = None) -> jax.Array:
        """The sum of the lists' losses, each times its weight."""
        positive, negative = self.logs(scores)
        high, low, length = self.log_grades(scores, power=2)
        # In logarithms, so that no exponential overflows: the cosine does not change with length.
        both = _log_sum_exp(scores, positive + high, negative + low)
        length = (length + _log_sum_exp(scores, 2 * positive, 2 * negative)) / 2
        return _weighed(scores, (1 - jnp.exp(both - length)) / 2)


@dataclass(frozen=True)
class SmoothedDCG(ListLoss):
    """Minus the share of the positives in the softmax of a list: smoothed DCG@1."""

    name = "smoothed-dcg"
    reads = frozenset({"temperature"})
    rates: ClassVar = {"exponential": 120.0}

    def value(self, scores: TermScores, draw: Draw | None = None) -> jax.Array:
        """The sum of the lists' losses, each times its weight."""
        positive = jnp.where(_real(scores), scores.positive, 0) / self.temperature
        negative = jnp.where(scores.where, scores.negative, 0) / self.temperature
        total = _log_sum_exp(scores, positive, negative)
        share = jnp.where(_real(scores), positive - total[scores.rows], 0)
        return _weighed(scores, -_over_positives(scores, jnp.exp(share)))

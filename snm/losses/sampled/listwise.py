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
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from snm.losses.listwise import TRANSFORMATIONS, Transformation
from snm.losses.reductions import MASKED, log_sum_exp, weighed
from snm.losses.sampled.protocol import Draw, HeadLoss, TermScores

__all__ = ["LISTS", "LIST_LOSSES", "ListLoss", "Lists"]

_LOW = MASKED  # the logarithm of nothing
_OFFSET = 1.1  # the linear psi is then 21 times as large at the highest score as at the lowest


class Lists(NamedTuple):
    """Scores of positives and negatives, list by list.

    Attributes:
      positive: float32 [T], scores of the positives.
      rows: int32 [T], non-decreasing, the list of each.
      weights: float32 [T], of each term in the loss; 0 for padding, which is in no list.
      negative: float32 [n, m].
      where: bool [n, m]; a negative where it is False is not in its list.
    """

    positive: jax.Array
    rows: jax.Array
    weights: jax.Array
    negative: jax.Array
    where: jax.Array

    @property
    def real(self) -> jax.Array:
        """Which positives are in a list: bool [T]."""
        return self.weights != 0

    def over_positives(self, values: jax.Array) -> jax.Array:
        """The sum of [T] over the positives of each list: [n]."""
        values = jnp.where(self.real, values, 0)
        size = self.negative.shape[0]
        return jax.ops.segment_sum(values, self.rows, size, indices_are_sorted=True)

    def over_negatives(self, values: jax.Array) -> jax.Array:
        """The sum of [n, m] over the negatives of each list: [n]."""
        return jnp.sum(jnp.where(self.where, values, 0), axis=1)

    def log_sum_exp(self, positive: jax.Array, negative: jax.Array) -> jax.Array:
        """The logarithm of the sum of exponentials over each list: [n]; 0 for an empty one."""
        size = self.negative.shape[0]
        low = jnp.where(self.real, positive, _LOW)
        top = jax.ops.segment_max(low, self.rows, size, indices_are_sorted=True)
        top = jnp.maximum(top, jnp.max(jnp.where(self.where, negative, _LOW), axis=1, initial=_LOW))
        # A constant shift cancels from the value, so from the gradient too.
        top = lax.stop_gradient(jnp.where(top > _LOW / 2, top, 0))
        of_positive = jnp.where(self.real, positive - top[self.rows], 0)
        of_negative = jnp.where(self.where, negative - top[:, None], 0)
        total = self.over_positives(jnp.exp(of_positive)) + self.over_negatives(
            jnp.exp(of_negative)
        )
        return top + jnp.log(jnp.where(total > 0, total, 1))


@dataclass(frozen=True)
class ListLoss(HeadLoss):
    """A loss of lists; hashable, as part of what is static.

    Attributes:
      name: a name of `LIST_LOSSES`.
      transformation: a name of `listwise.TRANSFORMATIONS`; smoothed DCG has none.
      temperature: scores and grades are divided by it before they are transformed.
      grade: of a positive, in the unit of the scores; that of a negative is 0.
      offset: of the linear transformation, above the largest score over the temperature.
    """

    name: str
    transformation: str = "exponential"
    temperature: float = 1.0
    grade: float = 1.0
    offset: float = _OFFSET

    listwise = per_list = takes_temperature = True

    def configured(self, settings: Any) -> ListLoss:
        """With the transformation, the temperature and the grade of a `HeadSpec`."""
        return dataclasses.replace(
            self,
            transformation=settings.transformation,
            temperature=settings.temperature,
            grade=settings.list_grade,
            # The largest score is the grade, but for rounding; psi is positive above -offset.
            offset=_OFFSET * settings.list_grade / settings.temperature,
        )

    @property
    def transforms(self) -> bool:
        """Whether the loss applies a transformation to scores."""
        return LIST_LOSSES[self.name].transforms

    def takes_exponentials(self, transformation: str) -> bool:
        """Unless the transformation is linear."""
        return transformation != "linear"

    def learning_rate(self, transformation: str) -> float:
        """The best of two or three on held-out points of `citeulike-t-14k`.

        `experiments/mining/README.md` has them. 20 where a loss is as steep as softmax. RankCosine
        lies within 1/2, the gradient of smoothed DCG is p (1 - p) for a share p that is small at
        first, and the multiplier of linear scores cancels. Where one point in ten has a label, its
        row is updated so often that a tenth may suit.
        """
        return LIST_LOSSES[self.name].rates.get(transformation, 20.0)

    def value(self, scores: TermScores, draw: Draw | None = None) -> jax.Array:
        """The weighted sum of the losses of the lists."""
        return self(Lists(*scores[:5]))

    @property
    def psi(self) -> Transformation:
        """The transformation, with the inverse temperature as its slope."""
        slope = 1 / self.temperature
        if self.transformation == "linear":
            return TRANSFORMATIONS["linear"](slope, self.offset)
        return TRANSFORMATIONS[self.transformation](slope)

    def __call__(self, lists: Lists) -> jax.Array:
        """The sum of the lists' losses, each times its weight: float32 scalar."""
        return LIST_LOSSES[self.name].of_lists(self, lists)

    def logs(self, lists: Lists) -> tuple[jax.Array, jax.Array]:
        """Log psi of the scores [T] and [n, m]; of 0 where there is none."""
        return (
            self.psi.log(jnp.where(lists.real, lists.positive, 0)),
            self.psi.log(jnp.where(lists.where, lists.negative, 0)),
        )

    def log_grades(self, lists: Lists, power: float = 1.0) -> tuple[jax.Array, ...]:
        """Log psi of the two grades, and the logarithm of the sum of psi^power over each list."""
        high, low = self.psi.log(jnp.asarray([self.grade, 0.0], lists.positive.dtype))
        counts = (
            lists.over_positives(jnp.ones_like(lists.positive)),
            lists.over_negatives(jnp.ones_like(lists.negative)),
        )
        logs = (
            jnp.where(count > 0, jnp.log(jnp.maximum(count, 1)) + power * grade, _LOW)
            for count, grade in zip(counts, (high, low), strict=True)
        )
        return high, low, jnp.logaddexp(*logs)


def _listnet(loss: ListLoss, lists: Lists) -> jax.Array:
    positive, negative = loss.logs(lists)
    high, low, total = loss.log_grades(lists)
    share = lists.over_positives(positive) * jnp.exp(high - total)
    share = share + lists.over_negatives(negative) * jnp.exp(low - total)
    return _weighed(lists, lists.log_sum_exp(positive, negative) - share)


def _listmle(loss: ListLoss, lists: Lists) -> jax.Array:
    positive, negative = loss.logs(lists)
    size = negative.shape[0]
    # Best first within each list, and padding behind all.
    rows = jnp.where(lists.real, lists.rows, size)
    order = jnp.lexsort((-lax.stop_gradient(positive), rows))
    logs, rows, weights = positive[order], rows[order], lists.weights[order]

    def combine(later: tuple, earlier: tuple) -> tuple:
        """Sums of exponentials from a place to the end of its list, or of what is known of it."""
        (row, value), (other, sooner) = later, earlier
        return other, jnp.where(row == other, jnp.logaddexp(value, sooner), sooner)

    _, following = lax.associative_scan(combine, (rows, logs), reverse=True)
    rivals, some = log_sum_exp(negative, lists.where)
    rivals = jnp.where(some, rivals, _LOW)
    rest = jnp.logaddexp(following, rivals.at[rows].get(mode="clip"))
    return jnp.sum(weighed(weights, rest - logs))


def _rankcosine(loss: ListLoss, lists: Lists) -> jax.Array:
    positive, negative = loss.logs(lists)
    high, low, length = loss.log_grades(lists, power=2)
    # In logarithms, so that no exponential overflows: the cosine does not change with length.
    both = lists.log_sum_exp(positive + high, negative + low)
    length = (length + lists.log_sum_exp(2 * positive, 2 * negative)) / 2
    return _weighed(lists, (1 - jnp.exp(both - length)) / 2)


def _smoothed_dcg(loss: ListLoss, lists: Lists) -> jax.Array:
    positive = jnp.where(lists.real, lists.positive, 0) / loss.temperature
    negative = jnp.where(lists.where, lists.negative, 0) / loss.temperature
    total = lists.log_sum_exp(positive, negative)
    share = jnp.where(lists.real, positive - total[lists.rows], 0)
    return _weighed(lists, -lists.over_positives(jnp.exp(share)))


def _weighed(lists: Lists, values: jax.Array) -> jax.Array:
    return jnp.sum(weighed(lists.over_positives(lists.weights), values))


@dataclass(frozen=True)
class _Kind:
    """A loss of lists: its value, whether it transforms scores, its rate by transformation."""

    of_lists: Callable[[ListLoss, Lists], jax.Array]
    transforms: bool = True
    rates: dict[str, float] = dataclasses.field(default_factory=dict)


LIST_LOSSES: dict[str, _Kind] = {
    "listnet": _Kind(_listnet, rates={"linear": 600.0, "sigmoid": 200.0}),
    "listmle": _Kind(_listmle, rates={"linear": 600.0, "sigmoid": 600.0}),
    "rankcosine": _Kind(
        _rankcosine, rates={"exponential": 120.0, "linear": 2500.0, "sigmoid": 1000.0}
    ),
    "smoothed-dcg": _Kind(_smoothed_dcg, transforms=False, rates={"exponential": 120.0}),
}
"""Losses that see all positives of a list at once."""

LISTS = tuple(ListLoss(name) for name in LIST_LOSSES)
"""Each with its default parameters."""

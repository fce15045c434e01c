r"""The listwise losses on a point's sampled list: its positives, and its mined negatives.

A point's labels say which are relevant, and no more: a list has two grades. The positives of the
visit (all of the point's, or the one that was drawn) have the higher, the mined negatives 0. What
that leaves open is settled here:

* The higher grade is the score of a label whose row points where the query does, which is the
  multiplier of the scores: psi of it is what a list can be asked for. ListNet's target and
  RankCosine's vector follow from it. Smoothed DCG@1 takes the gain 2^1 - 1.
* ListMLE counts the places of the positives alone, its top-k form: the order of the negatives
  means nothing, and that of their scores would hold up the hardest. The positives stand in the
  order of their scores, of all orders that the grades allow the likeliest. A place weighs as much
  as its term.
* Elsewhere a list weighs as much as its terms together: 1 where a point's terms are averaged, as
  many as it has where they are added.

RankSVM needs nothing of this: with two grades its pairs are those of a positive and a negative,
which is POWL with the hinge and equal weights, divided by the number of negatives.

Positives come as a ragged block, for one point has hundreds where most have ten. With two grades
the losses of `snm.losses.listwise` have forms that take them so, and are equal to those.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from snm.losses.listwise import TRANSFORMATIONS, Transformation

__all__ = ["LIST_LOSSES", "ListLoss", "Lists"]

_LOW = -1e30  # the logarithm of nothing; finite, so that no gradient becomes 0 * inf


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
class ListLoss:
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
    offset: float = 1.1

    @property
    def psi(self) -> Transformation:
        """The transformation, with the inverse temperature as its slope."""
        slope = 1 / self.temperature
        if self.transformation == "linear":
            return TRANSFORMATIONS["linear"](slope, self.offset)
        return TRANSFORMATIONS[self.transformation](slope)

    def __call__(self, lists: Lists) -> jax.Array:
        """The sum of the lists' losses, each times its weight: float32 scalar."""
        return LIST_LOSSES[self.name](self, lists)

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

    def joined(later: tuple, earlier: tuple) -> tuple:
        """Sums of exponentials from a place to the end of its list, or of what is known of it."""
        (row, value), (other, sooner) = later, earlier
        return other, jnp.where(row == other, jnp.logaddexp(value, sooner), sooner)

    _, following = lax.associative_scan(joined, (rows, logs), reverse=True)
    rivals = jnp.where(lists.where, negative, _LOW)
    rivals = jnp.max(rivals, axis=1, initial=_LOW, keepdims=True)
    rivals = lax.stop_gradient(jnp.where(rivals > _LOW / 2, rivals, 0))
    total = lists.over_negatives(jnp.exp(jnp.where(lists.where, negative - rivals, 0)))
    rivals = jnp.where(total > 0, rivals[:, 0] + jnp.log(jnp.where(total > 0, total, 1)), _LOW)
    rest = jnp.logaddexp(following, rivals.at[rows].get(mode="clip"))
    return jnp.sum(jnp.where(weights != 0, weights * (rest - logs), 0))


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
    weights = lists.over_positives(lists.weights)
    return jnp.sum(jnp.where(weights != 0, weights * values, 0))


LIST_LOSSES: dict[str, Callable[[ListLoss, Lists], jax.Array]] = {
    "listnet": _listnet,
    "listmle": _listmle,
    "rankcosine": _rankcosine,
    "smoothed-dcg": _smoothed_dcg,
}
"""Losses that see all positives of a list at once."""

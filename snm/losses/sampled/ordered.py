"""BOWL and POWL as losses of the head: Algorithm 1 of Reddi et al. (2019)."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from snm.losses.ordered import sampled_bowl, sampled_powl
from snm.losses.rank_weights import subsample
from snm.losses.reductions import MASKED, unmasked, weighed
from snm.losses.sampled.options import LossOptions, SampleSizes
from snm.losses.sampled.protocol import (
    BlockScores,
    DenseForm,
    Draw,
    HeadLoss,
    LabelShards,
    TermScores,
    ThresholdForm,
)
from snm.losses.sampled.ranks import OF_WEIGHTS, RankWeights
from snm.losses.surrogates import Surrogate, hinge, surrogate

__all__ = ["Bowl", "Powl", "RankSVM"]

_ONE = RankWeights(LossOptions(), SampleSizes(num_labels=2, sampled=1, mined=1))


@dataclasses.dataclass(frozen=True)
class Bowl(HeadLoss):
    """Binary ordered weighted loss: phi(v_y) + sum_j vartheta_j phi(-v_[j]) (Definition 4).

    The sum over j is split in two: `RankWeights` writes it out. `value` has the part of the mined,
    `_Dense` that of all sampled negatives. `_Threshold` has the sum where all mined weigh the same.

    Attributes:
      phi: surrogate of the 0/1 loss.
      ranks: weights of the mined negatives by rank, and of all sampled ones.
      pairwise: whether a margin is that of a pair, so that it depends on the positive's score;
        otherwise the positive has a term of its own.
    """

    phi: Surrogate = hinge
    ranks: RankWeights = _ONE
    name = "bowl"
    reads = frozenset({"phi", "ramp_rho", *OF_WEIGHTS})
    stops_at_mined = True
    pairwise = False

    def configured(self, options: LossOptions, sizes: SampleSizes) -> Bowl:
        """With the surrogate and the rank weights of the options."""
        phi = surrogate(options.phi, options.ramp_rho)
        return dataclasses.replace(self, phi=phi, ranks=RankWeights(options, sizes))

    def margin(self, positive: jax.Array, negative: jax.Array) -> jax.Array:
        """The margin of each negative [T, m], of which phi is taken."""
        return positive[:, None] - negative if self.pairwise else -negative

    @property
    def needs_sorted(self) -> bool:
        """Whether the ranks have different weights."""
        return not self.ranks.equal_mined

    @property
    def auto_learning_rate(self) -> float:
        """That of other losses, over what the mined negatives weigh together where that is above 1.

        It is (K - 1) k' / (k B) with `--weight-scale surrogate`: at the rate of weights that add up
        to 1, such steps go too far.
        """
        of_mined = self.ranks.of_sample()[: self.ranks.sizes.mined].sum()
        return super().auto_learning_rate / max(1.0, float(of_mined))

    @property
    def weighs_all_alike(self) -> bool:
        """Whether all sampled negatives weigh the same."""
        return self.ranks.equal_sampled

    @property
    def dense(self) -> DenseForm | None:
        """The tail: the weight that every sampled negative has."""
        return _Dense(self, self.ranks.tail) if self.ranks.tail else None

    @property
    def threshold(self) -> ThresholdForm | None:
        """Where all mined negatives have one weight and the others none."""
        if self.weighs_all_alike:
            return _Threshold(self, self.ranks.tail)
        return None if self.needs_sorted else _Threshold(self, float(self.ranks.mined_weights[0]))

    def value(self, scores: TermScores, draw: Draw | None = None) -> jax.Array:
        """The weighted sum of the terms' losses."""
        if self.weighs_all_alike:  # the dense form has all negatives
            positive = scores.positive
            values = jnp.zeros_like(positive) if self.pairwise else self.phi(positive)
            return jnp.sum(weighed(scores.weights, values))
        of_mined = self.ranks.mined_weights
        count = min(len(of_mined), scores.negative.shape[1])
        vartheta = self._drawn(draw, count) if self.ranks.drawn_ranks else of_mined[:count]
        if scores.counts is not None:
            vartheta = jnp.atleast_2d(vartheta) * self.ranks.shares(scores.counts)[:, None]
        values = (sampled_powl if self.pairwise else sampled_bowl)(
            scores.positive,
            scores.negative,
            vartheta=vartheta,
            phi=self.phi,
            where=scores.where,
            reduce_fn=None,
            presorted=True,
        )
        return jnp.sum(weighed(scores.weights, values))

    def _drawn(self, draw: Draw | None, count: int) -> jax.Array:
        """Weights [T, count] of ranks drawn with replacement in proportion to vartheta."""
        if draw is None:
            raise ValueError("update_head needs a key for vartheta='subsample'")
        vartheta, draws = self.ranks.mined_weights, self.ranks.drawn_ranks
        ranks = draw(lambda key, shape: subsample(key, vartheta, draws, shape)[0])
        counts = jax.nn.one_hot(ranks, count, dtype=jnp.float32).sum(axis=-2)
        return counts * np.float32(np.sum(vartheta, dtype=np.float64) / draws)


@dataclasses.dataclass(frozen=True)
class Powl(Bowl):
    """Pairwise ordered weighted loss: sum_j vartheta_j phi(v_y - v_[j]) (Definition 3)."""

    name = "powl"
    pairwise = True


@dataclasses.dataclass(frozen=True)
class RankSVM(Powl):
    """RankSVM on two grades of relevance: its pairs are those of POWL, all of one weight."""

    name = "ranksvm"
    reads = frozenset()  # the hinge and equal weights are fixed
    listwise = True
    auto_learning_rate = 60.0  # its scores have no multiplier

    def configured(self, options: LossOptions, sizes: SampleSizes) -> RankSVM:
        """With the sizes; it reads no option."""
        return dataclasses.replace(self, ranks=RankWeights(LossOptions(), sizes))


@dataclasses.dataclass(frozen=True)
class _Dense:
    """`weight` times the sum of phi over all sampled negatives."""

    loss: Bowl
    weight: float

    @property
    def reads_first(self) -> bool:
        return self.loss.pairwise

    def _values(self, positive: jax.Array, negative: jax.Array) -> jax.Array:
        phi, margins = self.loss.phi, self.loss.margin(positive, negative)
        if _vanishes(phi):  # then a masked score needs no mask, which costs passes over the scores
            return self.weight * phi(margins)
        where = unmasked(negative)
        return jnp.where(where, self.weight * phi(jnp.where(where, margins, 0)), 0)

    def _weights(self, block: BlockScores) -> jax.Array:
        """The weights of the terms, times what the counts of their negatives make of vartheta."""
        if block.counts is None:
            return block.weights
        return block.weights * self.loss.ranks.shares(block.counts)

    def start(self, positive: jax.Array) -> jax.Array:
        return jnp.zeros_like(positive)

    def add(self, carry: jax.Array, block: BlockScores) -> jax.Array:
        """Adds the gradient of the positives' scores."""

        def loss_of(positive: jax.Array) -> jax.Array:
            weights = self._weights(block)
            return jnp.sum(weights * jnp.sum(self._values(positive, block.scores), axis=1))

        return carry + jax.grad(loss_of)(block.positive)

    def finish(
        self, carry: jax.Array, positive: jax.Array, weights: jax.Array, shards: LabelShards
    ) -> tuple[jax.Array, jax.Array, None]:
        return jnp.float32(0), shards.sum(carry), None

    def block(self, context: None, block: BlockScores) -> tuple[jax.Array, jax.Array]:
        def loss_of(negative: jax.Array) -> jax.Array:
            return jnp.sum(self._weights(block)[:, None] * self._values(block.positive, negative))

        return jax.value_and_grad(loss_of)(block.scores)

    def bound(self, highest: jax.Array, counts: jax.Array | None) -> jax.Array | None:
        if self.loss.pairwise:
            return None
        if not _vanishes(self.loss.phi):  # it may rise, so that low scores have high losses
            return jnp.float32(jnp.inf)
        bound = self.weight * self.loss.phi(-highest)
        return bound if counts is None else bound * jnp.max(self.loss.ranks.shares(counts))


@dataclasses.dataclass(frozen=True)
class _Threshold:
    """`weight` times the sum of phi over the mined negatives, and the positive's own term."""

    loss: Bowl
    weight: float

    @property
    def per_point(self) -> bool:
        return not self.loss.pairwise

    def row_sums(
        self,
        chosen: jax.Array,
        scores: jax.Array,
        positive: jax.Array | None,
        log_weights: jax.Array | None,
    ) -> jax.Array:
        """The sum of the surrogate over the mined."""
        values = chosen * self.loss.phi(self._margin(positive, scores))
        return jnp.sum(jnp.where(chosen > 0, values, 0), axis=1)

    def gradients(
        self,
        terms: TermScores,
        chosen: jax.Array,
        sums: jax.Array,
        per_row: Callable[[jax.Array], jax.Array],
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        phi = self.loss.phi
        slopes = _slope(phi, self._margin(terms.positive, terms.negative))
        slopes = jnp.where(chosen > 0, chosen * slopes, 0)
        of_terms = terms.weights
        if terms.counts is not None:
            of_terms = of_terms * self.loss.ranks.shares(terms.counts)
        weights = self.weight * per_row(of_terms)
        value = jnp.sum(weights * sums)
        if self.loss.pairwise:
            grad_positive = weights * jnp.sum(slopes, axis=1)  # one term a point
        else:
            value += jnp.sum(weighed(terms.weights, phi(terms.positive)))
            grad_positive = weighed(terms.weights, _slope(phi, terms.positive))
        return value, grad_positive, -weights[:, None] * slopes

    def _margin(self, positive: jax.Array | None, scores: jax.Array) -> jax.Array:
        return self.loss.margin(
            jnp.zeros(scores.shape[0]) if positive is None else positive, scores
        )


@functools.cache
def _vanishes(phi: Surrogate) -> bool:
    """Whether phi and its slope are 0 at the margin of a masked score; all of `SURROGATES` are."""
    with jax.ensure_compile_time_eval():
        value, slope = jax.jvp(phi, (jnp.float32(-MASKED),), (jnp.float32(1),))
        return not (value or slope)


def _slope(phi: Surrogate, x: jax.Array) -> jax.Array:
    """The derivative of phi at each x."""
    return jax.jvp(phi, (x,), (jnp.ones_like(x),))[1]

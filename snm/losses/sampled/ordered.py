"""BOWL and POWL as losses of the head (Reddi et al., 2019, Algorithm 1)."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from snm.losses.ordered import sampled_bowl, sampled_powl
from snm.losses.rank_weights import subsample
from snm.losses.reductions import MASKED, apply_weights, unmasked
from snm.losses.sampled.options import PHI_OPTIONS, LossOptions, SampleSizes
from snm.losses.sampled.protocol import (
    BlockScores,
    DenseForm,
    Draw,
    HeadLoss,
    LabelShards,
    TermScores,
    ThresholdForm,
)
from snm.losses.sampled.ranks import RANK_WEIGHT_OPTIONS, RankWeights
from snm.losses.surrogates import SURROGATES, Surrogate, hinge

__all__ = ["Bowl", "Powl", "RankSVM"]

_DEFAULT_RANKS = RankWeights(LossOptions(), SampleSizes(num_labels=2, sampled=1, mined=1))


@dataclasses.dataclass(frozen=True)
class Bowl(HeadLoss):
    """Binary ordered weighted loss: phi(v_y) + sum_j vartheta_j phi(-v_[j]) (Definition 4).

    The sum over j has two parts (see `RankWeights`): `value` computes that of the mined negatives,
    `_Dense` that of all sampled ones. `_Threshold` computes the sum if all mined negatives have
    equal weights.

    Attributes:
      phi: surrogate of the 0/1 loss.
      ranks: weights of the mined negatives by rank, and of all sampled ones.
      pairwise: whether a margin is the difference of the positive's and a negative's score;
        otherwise the positive has a term of its own.
    """

    phi: Surrogate = hinge
    ranks: RankWeights = _DEFAULT_RANKS
    name = "bowl"
    option_names = frozenset({"phi", *PHI_OPTIONS, *RANK_WEIGHT_OPTIONS})
    has_rank_weights = True
    takes_exponentials = False  # whatever phi is: their margins have a unit
    pairwise = False

    def configured(self, options: LossOptions, sizes: SampleSizes) -> Bowl:
        """With the surrogate and the rank weights of the options."""
        phi = SURROGATES[options.phi].configured(options)
        return dataclasses.replace(self, phi=phi, ranks=RankWeights(options, sizes))

    def margin(self, positive: jax.Array | None, negative: jax.Array) -> jax.Array:
        """The margin of each negative, float32 [T, m]: the argument of phi.

        `positive`, float32 [T], is read if the loss is `pairwise`.
        """
        if not self.pairwise:
            return -negative
        assert positive is not None
        return positive[:, None] - negative

    @property
    def needs_sorted(self) -> bool:
        """Whether the mined ranks have different weights."""
        return not self.ranks.shape.equal_over_mined

    @property
    def auto_learning_rate(self) -> float:
        """The default rate, divided by the total weight of the mined negatives if that is above 1.

        With `--weight-scale surrogate` it is (K - 1) k' / (k B): at the rate that suits weights of
        sum 1, the steps would be too long.
        """
        total = self.ranks.all_weights()[: self.ranks.sizes.mined].sum()
        return super().auto_learning_rate / max(1.0, float(total))

    @property
    def uses_all_negatives(self) -> bool:
        """Whether all sampled negatives have the same weight."""
        return self.ranks.uses_all_negatives

    @property
    def dense(self) -> DenseForm | None:
        """The part with the weight `ranks.tail` for every sampled negative; None if that is 0."""
        return _Dense(self, self.ranks.tail) if self.ranks.tail else None

    @property
    def threshold(self) -> ThresholdForm | None:
        """For equal weights of the mined negatives, and 0 for the others."""
        if self.uses_all_negatives:
            return _Threshold(self, self.ranks.tail)
        return None if self.needs_sorted else _Threshold(self, float(self.ranks.mined_weights[0]))

    def value(self, scores: TermScores, draw: Draw | None = None) -> jax.Array:
        """The weighted sum of the terms' losses."""
        if self.uses_all_negatives:  # the negatives are in the dense form
            positive = scores.positive
            values = jnp.zeros_like(positive) if self.pairwise else self.phi(positive)
            return jnp.sum(apply_weights(scores.weights, values))
        mined_weights = self.ranks.mined_weights
        count = min(len(mined_weights), scores.negative.shape[1])
        vartheta = (
            self._draw_weights(draw, count) if self.ranks.num_draws else mined_weights[:count]
        )
        if scores.counts is not None:
            vartheta = jnp.atleast_2d(vartheta) * self.ranks.count_factors(scores.counts)[:, None]
        loss = sampled_powl if self.pairwise else sampled_bowl
        values = loss(
            scores.positive,
            scores.negative,
            vartheta=vartheta,
            phi=self.phi,
            where=scores.where,
            reduce_fn=None,
            presorted=True,
        )
        return jnp.sum(apply_weights(scores.weights, values))

    def _draw_weights(self, draw: Draw | None, count: int) -> jax.Array:
        """Weights [T, count] of the ranks, drawn with replacement in proportion to vartheta."""
        if draw is None:
            raise ValueError("update_head needs a key for vartheta='subsample'")
        vartheta, draws = self.ranks.mined_weights, self.ranks.num_draws
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
    """RankSVM on two grades of relevance: the pairs of POWL, with equal weights."""

    name = "ranksvm"
    option_names = frozenset()  # the hinge and equal weights are fixed
    listwise = True
    auto_learning_rate = 60.0  # its scores have no scale

    def configured(self, options: LossOptions, sizes: SampleSizes) -> RankSVM:
        """With the sizes; it reads no option."""
        return dataclasses.replace(self, ranks=RankWeights(LossOptions(), sizes))


@dataclasses.dataclass(frozen=True)
class _Dense:
    """`weight` times the sum of phi over all sampled negatives."""

    loss: Bowl
    weight: float

    @property
    def needs_first_pass(self) -> bool:
        return self.loss.pairwise

    def _values(self, positive: jax.Array, negative: jax.Array) -> jax.Array:
        phi, margins = self.loss.phi, self.loss.margin(positive, negative)
        if _is_zero_when_masked(phi):  # no mask is needed, which saves passes over the scores
            return self.weight * phi(margins)
        where = unmasked(negative)
        return jnp.where(where, self.weight * phi(jnp.where(where, margins, 0)), 0)

    def _weights(self, block: BlockScores) -> jax.Array:
        """The weights of the terms, rescaled by their numbers of negatives."""
        if block.counts is None:
            return block.weights
        return block.weights * self.loss.ranks.count_factors(block.counts)

    def start(self, positive: jax.Array) -> jax.Array:
        return jnp.zeros_like(positive)

    def add(self, carry: jax.Array, block: BlockScores) -> jax.Array:
        """Adds the gradient of the positives' scores."""

        def loss_at(positive: jax.Array) -> jax.Array:
            weights = self._weights(block)
            return jnp.sum(weights * jnp.sum(self._values(positive, block.scores), axis=1))

        return carry + jax.grad(loss_at)(block.positive)

    def finish(
        self, carry: jax.Array, positive: jax.Array, weights: jax.Array, shards: LabelShards
    ) -> tuple[jax.Array, jax.Array, None]:
        return jnp.float32(0), shards.sum(carry), None

    def block(self, context: None, block: BlockScores) -> tuple[jax.Array, jax.Array]:
        def loss_at(negative: jax.Array) -> jax.Array:
            return jnp.sum(self._weights(block)[:, None] * self._values(block.positive, negative))

        return jax.value_and_grad(loss_at)(block.scores)

    def bound(self, highest: jax.Array, counts: jax.Array | None) -> jax.Array | None:
        if self.loss.pairwise:
            return None
        if not _is_zero_when_masked(self.loss.phi):
            return jnp.float32(jnp.inf)  # phi may increase: low scores may have high losses
        bound = self.weight * self.loss.phi(-highest)
        return bound if counts is None else bound * jnp.max(self.loss.ranks.count_factors(counts))


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
        """The sum of the surrogate over the mined negatives of each point."""
        values = chosen * self.loss.phi(self.loss.margin(positive, scores))
        return jnp.sum(jnp.where(chosen > 0, values, 0), axis=1)

    def gradients(
        self,
        terms: TermScores,
        chosen: jax.Array,
        sums: jax.Array,
        per_row: Callable[[jax.Array], jax.Array],
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        phi = self.loss.phi
        slopes = _slope(phi, self.loss.margin(terms.positive, terms.negative))
        slopes = jnp.where(chosen > 0, chosen * slopes, 0)
        term_weights = terms.weights
        if terms.counts is not None:
            term_weights = term_weights * self.loss.ranks.count_factors(terms.counts)
        weights = self.weight * per_row(term_weights)
        value = jnp.sum(weights * sums)
        if self.loss.pairwise:
            grad_positive = weights * jnp.sum(slopes, axis=1)  # one term per point
        else:
            value += jnp.sum(apply_weights(terms.weights, phi(terms.positive)))
            grad_positive = apply_weights(terms.weights, _slope(phi, terms.positive))
        return value, grad_positive, -weights[:, None] * slopes


@functools.cache
def _is_zero_when_masked(phi: Surrogate) -> bool:
    """Whether phi and its slope are 0 at the margin of a masked score, as for all `SURROGATES`."""
    with jax.ensure_compile_time_eval():
        value, slope = jax.jvp(phi, (jnp.float32(-MASKED),), (jnp.float32(1),))
        return not (value or slope)


def _slope(phi: Surrogate, x: jax.Array) -> jax.Array:
    """The derivative of phi at each x."""
    return jax.jvp(phi, (x,), (jnp.ones_like(x),))[1]

"""Sampled softmax cross-entropy as a loss of the head."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp

from snm.losses.reductions import MASKED, apply_weights
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
from snm.losses.softmax import sampled_softmax

__all__ = ["Softmax"]


@dataclasses.dataclass(frozen=True)
class Softmax(HeadLoss):
    """Softmax cross-entropy of each term against its negatives: `losses.softmax.sampled_softmax`.

    Attributes:
      mines_all: whether all sampled negatives enter the loss (k' = B).
    """

    mines_all: bool = False
    name = "softmax"
    uses_log_weights = True
    takes_exponentials = True

    def configured(self, options: LossOptions, sizes: SampleSizes) -> Softmax:
        """With the sample sizes; it reads no option."""
        return Softmax(mines_all=sizes.mined == sizes.sampled)

    @property
    def uses_all_negatives(self) -> bool:
        """Whether all sampled negatives enter the loss, so that none is mined."""
        return self.mines_all

    @property
    def dense(self) -> DenseForm | None:
        """The loss of all sampled negatives, with the partition function summed in blocks."""
        return _Dense() if self.mines_all else None

    @property
    def threshold(self) -> ThresholdForm:
        """The loss of the mined negatives, given as a mask."""
        return _Threshold()

    def value(self, scores: TermScores, draw: Draw | None = None) -> jax.Array:
        """The weighted sum of the terms' cross-entropies."""
        values = sampled_softmax(
            scores.positive,
            scores.negative,
            where=scores.where,
            log_weights=scores.log_weights,
            reduce_fn=None,
        )
        return jnp.sum(apply_weights(scores.weights, values))


class _Dense:
    """The loss of all sampled negatives; the carry is the log-sum-exp of their scores [T]."""

    needs_first_pass = True

    def start(self, positive: jax.Array) -> jax.Array:
        return jnp.full(positive.shape, MASKED)

    def add(self, carry: jax.Array, block: BlockScores) -> jax.Array:
        logits = _logits(block.scores, block.log_weights)
        return jnp.logaddexp(carry, jax.nn.logsumexp(logits, axis=1))

    def finish(
        self, carry: jax.Array, positive: jax.Array, weights: jax.Array, shards: LabelShards
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        top = shards.max(carry)
        negatives = top + jnp.log(shards.sum(jnp.exp(carry - top)))
        log_partition = jnp.logaddexp(positive, negatives)
        loss = jnp.sum(weights * (log_partition - positive))
        return loss, weights * jnp.expm1(positive - log_partition), log_partition

    def block(self, context: jax.Array, block: BlockScores) -> tuple[jax.Array, jax.Array]:
        logits = _logits(block.scores, block.log_weights) - context[:, None]
        return jnp.float32(0), block.weights[:, None] * jnp.exp(logits)

    def bound(self, highest: jax.Array, counts: jax.Array | None) -> None:
        return None


class _Threshold:
    """The loss of the mined negatives, which need not be sorted."""

    per_point = True

    def row_sums(
        self,
        chosen: jax.Array,
        scores: jax.Array,
        positive: jax.Array | None,
        log_weights: jax.Array | None,
    ) -> jax.Array:
        """Log-sum-exp over the mined negatives; MASKED if a point has none."""
        logits = _logits(scores, log_weights)
        shift = jnp.max(jnp.where(chosen > 0, logits, MASKED), axis=1)
        nonempty = _has_negatives(shift, log_weights)
        shift = jnp.where(nonempty, shift, 0)
        terms = jnp.where(chosen > 0, chosen * jnp.exp(logits - shift[:, None]), 0)
        total = jnp.sum(terms, axis=1)
        return jnp.where(nonempty, shift + jnp.log(jnp.where(nonempty, total, 1)), MASKED)

    def gradients(
        self,
        terms: TermScores,
        chosen: jax.Array,
        sums: jax.Array,
        per_row: Callable[[jax.Array], jax.Array],
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        # All terms of a point have the same negatives. Their gradients differ only by a factor: the
        # weight of the term times the total probability of the negatives.
        def cross_entropy(positive: jax.Array, negatives: jax.Array) -> jax.Array:
            log_sums = negatives[terms.rows]
            nonempty = _has_negatives(log_sums, terms.log_weights)
            values = jnp.where(nonempty, jax.nn.softplus(log_sums - positive), 0)
            return jnp.sum(apply_weights(terms.weights, values))

        value, (grad_positive, grad_negatives) = jax.value_and_grad(cross_entropy, argnums=(0, 1))(
            terms.positive, sums
        )
        shift = jnp.where(sums > MASKED / 2, sums, 0)
        logits = _logits(terms.negative, terms.log_weights)
        probabilities = jnp.exp(jnp.minimum(logits - shift[:, None], 0))
        probabilities = jnp.where(chosen > 0, chosen * probabilities, 0)
        return value, grad_positive, grad_negatives[:, None] * probabilities


def _has_negatives(log_sums: jax.Array, log_weights: jax.Array | None) -> jax.Array:
    """Whether these log-sum-exps have terms: bool. That of a NaN log weight is NaN, and has."""
    if log_weights is None:
        return log_sums > MASKED / 2
    return ~(log_sums <= MASKED / 2)


def _logits(scores: jax.Array, log_weights: jax.Array | None) -> jax.Array:
    return scores if log_weights is None else scores + log_weights[None, :]

"""Mining and loss of a step: computes the gradient of the loss with respect to the scores."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from snm.errors import InputError
from snm.head.by_threshold import all_scores, mask_excluded, mine_by_threshold
from snm.head.mining import mine
from snm.head.plan import Mining
from snm.head.step_inputs import ScoreGradients, StepInputs, loss_input, term_scores
from snm.losses.reductions import unmasked
from snm.losses.sampled import HeadLoss, TermScores
from snm.losses.sampled.protocol import Draw
from snm.topk.blocks import Best

__all__ = ["score_gradients"]


def score_gradients(inputs: StepInputs) -> ScoreGradients:
    """The scores of the positives, the loss of the mined negatives, and its gradient.

    Negatives are mined as planned; see `snm.head.plan.Mining`.
    """
    mining = inputs.plan.mining
    if mining in (Mining.BY_ORDER, Mining.NONE):
        positive_scores = term_scores(inputs)
        n = inputs.queries.shape[0]
        best = mine(inputs) if mining is Mining.BY_ORDER else Best.none(n)
        return _mined_gradients(inputs, positive_scores, best)
    scores = all_scores(inputs)
    positive_scores = term_scores(inputs, scores)
    scores = mask_excluded(inputs, scores)
    if mining is Mining.WHOLE_LISTS:
        return _whole_list_gradients(inputs, positive_scores, scores)
    return mine_by_threshold(inputs, positive_scores, scores)


def _whole_list_gradients(
    inputs: StepInputs, positive_scores: jax.Array, scores: jax.Array
) -> ScoreGradients:
    """The loss of all sampled negatives: nothing is sorted, and the gradient is a matrix."""
    loss = inputs.spec.head_loss

    def loss_at(positive: jax.Array, negative: jax.Array) -> jax.Array:
        return _loss_value(loss, loss_input(inputs, positive, negative, unmasked(negative)))

    value, (grad_positive, grad_scores) = jax.value_and_grad(loss_at, argnums=(0, 1))(
        positive_scores, scores
    )
    return ScoreGradients.of_all_slots(positive_scores, value, grad_positive, grad_scores)


def _mined_gradients(inputs: StepInputs, positive_scores: jax.Array, best: Best) -> ScoreGradients:
    """The loss of the mined negatives, and its gradients."""
    loss = inputs.spec.head_loss

    def loss_at(positive: jax.Array, mined: jax.Array) -> jax.Array:
        slots, log_weights = best.slots, None
        if not loss.scores_per_point and not inputs.spec.one_positive:
            mined, slots = mined[inputs.term_rows], slots[inputs.term_rows]
        if inputs.log_weights is not None:
            log_weights = inputs.log_weights[slots]
        where = _is_negative(inputs, mined, slots)
        terms = loss_input(inputs, positive, mined, where, log_weights)
        return _loss_value(loss, terms, _draw(inputs))

    value, (grad_positive, grad_mined) = jax.value_and_grad(loss_at, argnums=(0, 1))(
        positive_scores, best.scores
    )
    grad_mined = jnp.where(unmasked(best.scores), grad_mined, 0)
    return ScoreGradients(positive_scores, value, grad_positive, grad_mined, best.slots)


def _loss_value(loss: HeadLoss, terms: TermScores, draw: Draw | None = None) -> jax.Array:
    """The value of a loss.

    Raises:
      InputError: it is not a float scalar, which JAX needs to differentiate it.
    """
    value = loss.value(terms, draw)
    if not isinstance(value, jax.Array) or value.shape or value.dtype.kind != "f":
        found = type(value).__name__
        if isinstance(value, jax.Array):
            found = f"{value.dtype}{list(value.shape)}"
        expected = "a float scalar of JAX, the weighted sum over the terms"
        raise InputError(f"value of loss {loss.name}", found, expected)
    return value


def _is_negative(inputs: StepInputs, mined: jax.Array, slots: jax.Array) -> jax.Array:
    """Which mined labels are negatives of the term, or list: bool, in the shape of `mined`."""
    where = unmasked(mined)
    if inputs.excluded is not None:
        where &= slots != inputs.excluded[:, None]
    if inputs.spec.head_loss.has_rank_weights:
        return where
    # Of k' + 1 mined, a term that excludes none of them keeps the k' hardest.
    return where & (jnp.cumsum(where, axis=1) <= inputs.spec.mined)


def _draw(inputs: StepInputs) -> Draw | None:
    """Makes draws for the terms of the whole batch, so that sharding does not change them."""
    key = inputs.key
    if key is None:
        return None
    count = inputs.terms.ids.shape[0] * inputs.shard.data_parts
    starts = inputs.terms.starts
    return lambda sample: inputs.shard.local_draws(sample(key, (count,)), starts)

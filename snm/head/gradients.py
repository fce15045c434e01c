"""Mining and loss of a step: from scores to the gradient of the loss with respect to them."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from snm.errors import InputError
from snm.head.by_threshold import by_threshold, every_score, left_out
from snm.head.mining import mine
from snm.head.plan import Mining
from snm.head.problem import Problem, ScoreGradients, term_scores
from snm.losses.reductions import unmasked
from snm.losses.sampled import HeadLoss, TermScores
from snm.losses.sampled.protocol import Draw
from snm.topk.blocks import Best

__all__ = ["score_gradients"]


def score_gradients(problem: Problem) -> ScoreGradients:
    """The scores of the positives, the loss of the mined negatives, and its gradient.

    Negatives are mined as the plan of the step says; see `snm.head.plan.Mining`.
    """
    mining = problem.plan.mining
    if mining in (Mining.BY_ORDER, Mining.NONE):
        positive_scores = term_scores(problem)
        n = problem.queries.shape[0]
        best = mine(problem) if mining is Mining.BY_ORDER else Best.none(n)
        return _of_mined(problem, positive_scores, best)
    scores = every_score(problem)
    positive_scores = term_scores(problem, scores)
    scores = left_out(problem, scores)
    of_all = _of_whole_lists if mining is Mining.WHOLE_LISTS else by_threshold
    return of_all(problem, positive_scores, scores)


def _of_whole_lists(
    problem: Problem, positive_scores: jax.Array, scores: jax.Array
) -> ScoreGradients:
    """The loss of every sampled negative: nothing is sorted, and the gradient is a matrix."""
    loss = problem.spec.head_loss

    def loss_of(positive: jax.Array, negative: jax.Array) -> jax.Array:
        return _value(loss, _terms(problem, positive, negative, unmasked(negative)))

    value, (grad_positive, grad_scores) = jax.value_and_grad(loss_of, argnums=(0, 1))(
        positive_scores, scores
    )
    return ScoreGradients.of_all_slots(positive_scores, value, grad_positive, grad_scores)


def _of_mined(problem: Problem, positive_scores: jax.Array, best: Best) -> ScoreGradients:
    """The loss as a function of the positive and the mined scores, and of nothing else."""
    loss = problem.spec.head_loss

    def loss_of(positive: jax.Array, mined: jax.Array) -> jax.Array:
        slots, log_weights = best.slots, None
        if not loss.scores_per_point and not problem.spec.one_positive:
            mined, slots = mined[problem.term_rows], slots[problem.term_rows]
        if loss.uses_log_weights and problem.log_weights is not None:
            log_weights = problem.log_weights[slots]
        where = _negatives(problem, mined, slots)
        terms = _terms(problem, positive, mined, where, log_weights)
        return _value(loss, terms, _draw(problem))

    value, (grad_positive, grad_mined) = jax.value_and_grad(loss_of, argnums=(0, 1))(
        positive_scores, best.scores
    )
    grad_mined = jnp.where(unmasked(best.scores), grad_mined, 0)
    return ScoreGradients(positive_scores, value, grad_positive, grad_mined, best.slots)


def _value(loss: HeadLoss, terms: TermScores, draw: Draw | None = None) -> jax.Array:
    """The value of a loss.

    Raises:
      InputError: it is no float scalar, of which alone JAX takes gradients.
    """
    value = loss.value(terms, draw)
    if not isinstance(value, jax.Array) or value.shape or value.dtype.kind != "f":
        found = type(value).__name__
        if isinstance(value, jax.Array):
            found = f"{value.dtype}{list(value.shape)}"
        expected = "a float scalar of JAX, the weighted sum over the terms"
        raise InputError(f"value of loss {loss.name}", found, expected)
    return value


def _terms(
    problem: Problem,
    positive: jax.Array,
    negative: jax.Array,
    where: jax.Array,
    log_weights: jax.Array | None = None,
) -> TermScores:
    weights = problem.terms.values
    return TermScores(
        positive, problem.term_rows, weights, negative, where, log_weights, problem.counts
    )


def _negatives(problem: Problem, mined: jax.Array, slots: jax.Array) -> jax.Array:
    """Which of the mined are negatives of each term, or each list: bool, as `mined`."""
    where = unmasked(mined)
    if problem.excluded is not None:
        where &= slots != problem.excluded[:, None]
    if problem.spec.head_loss.has_rank_weights:
        return where
    # Of k' + 1 mined, a term that left none of them out keeps the k' hardest.
    return where & (jnp.cumsum(where, axis=1) <= problem.spec.mined)


def _draw(problem: Problem) -> Draw | None:
    """Draws for the terms of the whole batch, so that a sharded batch draws the same."""
    key = problem.key
    if key is None:
        return None
    count = problem.terms.ids.shape[0] * problem.shard.data_parts
    starts = problem.terms.starts
    return lambda sample: problem.shard.own_draws(sample(key, (count,)), starts)

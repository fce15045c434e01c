"""Mining without sorting: the loss of the highest scores of each point, found by a threshold.

Where each mined negative has the same weight, the loss needs to know which scores are among the k'
highest, not their order. One threshold per point separates them. Halving an interval finds it in
about fifteen passes that only compare and count. For k' = 256 of 4096 that takes an eighth of the
time of a partial sort on a CPU, and the gradient comes out as a matrix, with nothing to scatter. On
an accelerator `snm.topk.digits` finds it in eight passes, whatever the scores are.

Negative sampling takes the same form with nothing to find: the terms of a point share what they
need of its negatives.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax import lax

from snm.head.problem import Problem, ScoreGradients
from snm.losses.reductions import MASKED
from snm.losses.sampled import TermScores
from snm.losses.sampled.protocol import ThresholdForm
from snm.machine.platform import by_platform, of_platform
from snm.topk.bisection import TopThreshold, top_by_bisection
from snm.topk.blocks import block_plan, score_block
from snm.topk.digits import top_by_digits

__all__ = ["by_threshold", "every_score", "left_out"]

_CACHED = {"cpu": 1 << 18, "gpu": 1 << 23, "tpu": 1 << 23}
"""By platform: scores searched together. On a CPU 1 MB: every pass but the first finds them in
cache. On an accelerator all: a loop over parts would wait for each, and too few scores fill it."""


def by_threshold(problem: Problem, positive_scores: jax.Array, scores: jax.Array) -> ScoreGradients:
    """The loss of all terms on the k' highest scores of their points, and its gradient.

    Scores that tie for the last places share them: the loss is what any choice among them gives,
    the gradient the mean over the choices (of labels that were drawn with the same probability).

    Args:
      problem: the batch and its sample.
      positive_scores: float32 [T].
      scores: float32 [n, size], of all slots, MASKED where none may be chosen.
    """
    spec = problem.spec
    form = spec.head_loss.threshold
    assert form is not None
    log_weights = None
    if spec.head_loss.uses_log_weights and problem.log_weights is not None:
        log_weights = jnp.pad(problem.log_weights, (0, scores.shape[1] - problem.num_slots))
    positive = positive_scores if problem.spec.one_positive else None
    count = None if spec.mines_all else spec.mined
    found, sums = _by_rows(form, count, scores, positive, log_weights)
    chosen = found.weights(scores)
    rows = problem.term_rows
    weights, counts = problem.terms.values, problem.counts
    terms = TermScores(positive_scores, rows, weights, scores, chosen > 0, log_weights, counts)

    def per_row(values: jax.Array) -> jax.Array:
        return jax.ops.segment_sum(values, rows, scores.shape[0], indices_are_sorted=True)

    gradients = form.gradients(terms, chosen, sums, per_row)
    return ScoreGradients.of_all_slots(positive_scores, *gradients)


def every_score(problem: Problem) -> jax.Array:
    """The scores of all slots for each point, on one device: float32 [n, size].

    MASKED where a slot has no label; `left_out` masks those that the point leaves out.
    """
    size = block_plan(problem.num_slots, problem.num_slots).size
    block = problem.labels.block(jnp.int32(0), size)
    return score_block(problem.queries, block, compute_dtype=problem.compute_dtype)


def left_out(problem: Problem, scores: jax.Array) -> jax.Array:
    """`every_score`, MASKED where none may be chosen.

    Where terms share what their point leaves out, or each point has one term.
    """
    if problem.masked is not None:
        scores = scores.at[problem.masked.rows, problem.masked.slots].set(MASKED, mode="drop")
    if problem.excluded is not None:  # one term a point
        every = jnp.arange(scores.shape[0], dtype=jnp.int32)
        scores = scores.at[every, problem.excluded].set(MASKED, mode="drop")
    return scores


def _by_rows(
    form: ThresholdForm,
    mined: int | None,
    scores: jax.Array,
    positive: jax.Array | None,
    log_weights: jax.Array | None,
) -> tuple[TopThreshold, jax.Array]:
    """Which scores of each point are mined, and what the loss sums over them: some rows at a time.

    Args:
      form: of the loss.
      mined: how many, or None for all that are not MASKED.
      scores: float32 [n, size].
      positive: as `ThresholdForm.row_sums` takes it.
      log_weights: float32 [size] or None.

    Returns:
      The mined, and float32 [n], the `row_sums` of the loss.
    """
    n, size = scores.shape
    most = max(1, of_platform(_CACHED) // size)
    even = (r for r in range(min(most, n), most // 2, -1) if n % r == 0)
    rows = next(even, -(-n // -(-n // most)))
    turns = -(-n // rows)

    def some_rows(part: tuple[jax.Array, jax.Array | None]) -> tuple[TopThreshold, jax.Array]:
        scores, positive = part
        if mined is None:
            found = TopThreshold.of_all(scores.shape[0])
        else:
            found = by_platform(
                scores,
                cpu=functools.partial(top_by_bisection, count=mined),
                default=functools.partial(top_by_digits, count=mined),
            )
        return found, form.row_sums(found.weights(scores), scores, positive, log_weights)

    def in_turns(x: jax.Array, padding: float) -> jax.Array:
        if turns * rows > n:
            widths = [(0, turns * rows - n)] + [(0, 0)] * (x.ndim - 1)
            x = jnp.pad(x, widths, constant_values=padding)
        return x.reshape(turns, rows, *x.shape[1:])

    of_positive = None if positive is None else in_turns(positive, 0)
    parts = in_turns(scores, MASKED), of_positive
    return jax.tree.map(lambda x: x.reshape(turns * rows)[:n], lax.map(some_rows, parts))

"""Mining without sorting: a threshold per point separates the k' highest scores.

If all mined negatives have equal weights, the loss depends on which scores are among the k'
highest, but not on their order. On a CPU, bisection finds the threshold in about fifteen passes
that only compare and count. For k' = 256 of 4096 that takes an eighth of the time of a partial
sort, and the gradient is a matrix, so nothing is scattered. On an accelerator, `snm.topk.digits`
needs eight passes for any scores.

Negative sampling uses the same form without a threshold: the terms of a point share the sums over
its negatives.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax import lax

from snm.head.step_inputs import ScoreGradients, StepInputs, loss_input
from snm.losses.reductions import MASKED
from snm.losses.sampled.protocol import ThresholdForm
from snm.machine.platform import by_platform, for_platform
from snm.topk.bisection import TopThreshold, top_by_bisection
from snm.topk.blocks import block_plan, score_block
from snm.topk.digits import top_by_digits

__all__ = ["all_scores", "mask_excluded", "mine_by_threshold"]

_CHUNK_SCORES = {"cpu": 1 << 18, "gpu": 1 << 23, "tpu": 1 << 23}
"""By platform: how many scores are searched at once. On a CPU 1 MB, so that all passes but the
first find them in the cache. On an accelerator all: it would wait after each small chunk."""


def mine_by_threshold(
    inputs: StepInputs, positive_scores: jax.Array, scores: jax.Array
) -> ScoreGradients:
    """The loss of all terms on the k' highest scores of their points, and its gradient.

    Scores that tie at the threshold share the remaining ranks: the loss is that of any choice among
    them, the gradient the mean over the choices (for labels drawn with equal probability).

    Args:
      inputs: the batch and its sample.
      positive_scores: float32 [T].
      scores: float32 [n, size], of all slots; MASKED where a slot is not a negative.
    """
    spec = inputs.spec
    form = spec.head_loss.threshold
    assert form is not None
    log_weights = None
    if inputs.log_weights is not None:
        log_weights = jnp.pad(inputs.log_weights, (0, scores.shape[1] - inputs.num_slots))
    positive = positive_scores if spec.one_positive else None
    count = None if spec.mines_all else spec.mined
    top, sums = _search_in_chunks(form, count, scores, positive, log_weights)
    chosen = top.weights(scores)
    terms = loss_input(inputs, positive_scores, scores, chosen > 0, log_weights)

    def per_row(values: jax.Array) -> jax.Array:
        return jax.ops.segment_sum(
            values, inputs.term_rows, scores.shape[0], indices_are_sorted=True
        )

    gradients = form.gradients(terms, chosen, sums, per_row)
    return ScoreGradients.of_all_slots(positive_scores, *gradients)


def all_scores(inputs: StepInputs) -> jax.Array:
    """The scores of all slots for each point, on one device: float32 [n, size].

    MASKED where a slot has no label; `mask_excluded` masks the labels that a point excludes.
    """
    size = block_plan(inputs.num_slots, inputs.num_slots).size
    block = inputs.labels.block(jnp.int32(0), size)
    return score_block(inputs.queries, block, compute_dtype=inputs.compute_dtype)


def mask_excluded(inputs: StepInputs, scores: jax.Array) -> jax.Array:
    """The scores of `all_scores`, with excluded labels MASKED.

    All terms of a point must exclude the same labels, or each point must have one term.
    """
    if inputs.masked is not None:
        scores = scores.at[inputs.masked.rows, inputs.masked.slots].set(MASKED, mode="drop")
    if inputs.excluded is not None:  # one term per point
        rows = jnp.arange(scores.shape[0], dtype=jnp.int32)
        scores = scores.at[rows, inputs.excluded].set(MASKED, mode="drop")
    return scores


def _search_in_chunks(
    form: ThresholdForm,
    mined: int | None,
    scores: jax.Array,
    positive: jax.Array | None,
    log_weights: jax.Array | None,
) -> tuple[TopThreshold, jax.Array]:
    """Finds the mined scores of each point and their sums in the loss, some points at a time.

    Args:
      form: the threshold form of the loss.
      mined: k', or None for all scores that are not MASKED.
      scores: float32 [n, size].
      positive: as in `ThresholdForm.row_sums`.
      log_weights: float32 [size] or None.

    Returns:
      The thresholds, and float32 [n], the `row_sums` of the loss.
    """
    n, size = scores.shape
    max_rows = max(1, for_platform(_CHUNK_SCORES) // size)
    # Prefer a chunk size that divides n, if it is at least half of the limit: no padding is needed.
    divisors = (r for r in range(min(max_rows, n), max_rows // 2, -1) if n % r == 0)
    rows = next(divisors, -(-n // -(-n // max_rows)))
    num_chunks = -(-n // rows)

    def search_chunk(part: tuple[jax.Array, jax.Array | None]) -> tuple[TopThreshold, jax.Array]:
        scores, positive = part
        if mined is None:
            top = TopThreshold.of_all(scores.shape[0])
        else:
            top = by_platform(
                scores,
                cpu=functools.partial(top_by_bisection, count=mined),
                default=functools.partial(top_by_digits, count=mined),
            )
        return top, form.row_sums(top.weights(scores), scores, positive, log_weights)

    def in_chunks(x: jax.Array, padding: float) -> jax.Array:
        if num_chunks * rows > n:
            widths = [(0, num_chunks * rows - n)] + [(0, 0)] * (x.ndim - 1)
            x = jnp.pad(x, widths, constant_values=padding)
        return x.reshape(num_chunks, rows, *x.shape[1:])

    positive_chunks = None if positive is None else in_chunks(positive, 0)
    results = lax.map(search_chunk, (in_chunks(scores, MASKED), positive_chunks))
    return jax.tree.map(lambda x: x.reshape(num_chunks * rows)[:n], results)

"""From the gradient of the scores to queries, class rows and bias, by matrix products.

The gradient of a block of scores is a matrix C, zero but for the mined pairs or, where all sampled
negatives share one weight, full. Then the queries receive C @ rows and the rows C.T @ queries: two
matrix products a block, at any k'. `snm.head.by_pairs` has the other way, with the same result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from snm.head.problem import Problem, Result, ScoreGradients, positive_block
from snm.tables.bag import embedding_bag
from snm.tables.optimizers import step_rows
from snm.tables.rounding import rounded_rows
from snm.tables.table import RowTable
from snm.tables.updates import update_rows
from snm.topk.blocks import BlockPlan, block_plan, read_block, score_block
from snm.topk.search import MASKED

__all__ = ["DenseLoss", "by_products"]

_BLOCK = 4096  # labels a block: its scores, gradient and rows stay near the cache


class DenseLoss(NamedTuple):
    """A loss that all sampled negatives enter with one weight: no ranks.

    Attributes:
      name: bowl, powl or softmax.
      phi: surrogate of bowl and powl.
      weight: of each negative.
    """

    name: str
    phi: Callable[[jax.Array], jax.Array]
    weight: float

    def value(self, positive: jax.Array, negative: jax.Array) -> jax.Array:
        """The loss of each (term, negative) pair, for bowl and powl."""
        margin = -negative if self.name == "bowl" else positive[:, None] - negative
        return self.weight * self.phi(margin)


def by_products(
    problem: Problem,
    positive_scores: jax.Array,
    gradients: ScoreGradients,
    loss: jax.Array,
    dense: DenseLoss | None,
    learning_rate: jax.Array | float,
    of_scores: jax.Array | None = None,
) -> Result:
    """Walks the sample in blocks: gradient of a block of scores, two products, rows updated.

    A block's rows are read, stepped and written before the next block is read; no slot stands
    in two blocks, so each row takes one step with its whole gradient. Where the gradient of all
    scores is known already, `of_scores` [n, size], the walk is one block of that size.
    """
    of_positive = gradients.of_positive
    log_partition = None
    if dense is not None and dense.name != "bowl":
        extra, of_extra, log_partition = _before_walk(problem, positive_scores, dense)
        loss, of_positive = loss + extra, of_positive + of_extra

    # Positives outside the sample are no block's business: they are paired, as above.
    outside = jnp.where(problem.term_slots < 0, of_positive, 0)
    positives = positive_block(problem, outside)
    of_queries = embedding_bag(problem.table.rows, positives)
    ok = jnp.all(jnp.isfinite(problem.queries))
    ok &= jnp.all(jnp.isfinite(of_queries))
    ok &= jnp.isfinite(loss) & jnp.all(jnp.isfinite(of_positive))
    if dense is not None and dense.name == "bowl":
        ok &= jnp.isfinite(_bowl_bound(problem, dense))
    shard = problem.shard
    ok = shard.all(ok)

    plan = block_plan(_walk_length(problem), _BLOCK)
    if of_scores is not None:
        plan = BlockPlan(1, of_scores.shape[1])

    def one_block(carry: tuple, start: jax.Array) -> tuple:
        table, bias, of_queries, loss = carry
        rows, place, begin = _read(problem, table.rows, start, plan.size)
        gradient = jnp.zeros((problem.queries.shape[0], plan.size), jnp.float32)
        if of_scores is not None:
            gradient = of_scores
        if dense is not None:
            scores = _masked_scores(problem, rows, place, begin, bias)
            value, gradient = _dense_gradient(
                problem, dense, positive_scores, scores, begin, log_partition
            )
            loss = loss + value
        gradient = _scatter(gradient, _every_row(gradients.slots), gradients.slots - begin,
                            gradients.of_mined)  # fmt: skip
        gradient = _scatter(gradient, problem.term_rows, problem.term_slots - begin, of_positive)
        here = place < table.rows.shape[0]
        gradient = jnp.where(here[None, :], gradient, 0)

        factor = gradient.astype(problem.compute_dtype)
        of_queries = of_queries + _product(factor, rows.astype(problem.compute_dtype), 1, 0)
        of_rows = _product(factor, problem.queries.astype(problem.compute_dtype), 0, 0)
        of_rows = shard.data_sum(of_rows)
        table = _write_block(problem, table, place, rows, of_rows, learning_rate, ok)
        if bias is not None:
            step = shard.data_sum(jnp.sum(gradient, axis=0))
            step = jnp.where(ok, -learning_rate * step, 0)
            bias = bias.at[place].add(step, mode="drop")
        return table, bias, of_queries, loss

    carry = (problem.table, problem.bias, of_queries, jnp.float32(0))
    table, bias, of_queries, value = _walk(problem, plan, one_block, carry)

    if problem.ids is not None:
        positives = shard.gather_block(positives)
        table = update_rows(
            table,
            [(positives, shard.gather(problem.queries))],
            optimizer=problem.row_optimizer,
            learning_rate=learning_rate,
            ok=ok,
            unit_norm=True,
            noise=problem.noise,
        )
        if bias is not None:
            step = jnp.where(ok, -learning_rate * positives.values, 0)
            bias = bias.at[positives.ids].add(step)
    loss = shard.data_sum(loss + shard.sum(value))
    return Result(table, bias, shard.sum(of_queries), loss, ok & jnp.isfinite(loss))


def _walk_length(problem: Problem) -> int:
    """Slots that this shard walks: its own rows where all labels are negatives."""
    return problem.table.rows.shape[0] if problem.ids is None else problem.num_slots


def _walk(
    problem: Problem, plan: BlockPlan, one_block: Callable[[Any, jax.Array], Any], carry: Any
) -> Any:
    """Block after block of all slots, or of those that this shard holds."""
    shard = problem.shard
    if shard.axis_name is None or problem.ids is None:
        starts = jnp.arange(plan.num_blocks, dtype=jnp.int32) * plan.size
        return lax.scan(lambda c, start: (one_block(c, start), None), carry, starts)[0]
    # The slots of a shard stand next to each other, and their number is known only now. All parts
    # of the batch walk the same blocks, so that they can add up the rows' gradients.
    first, end = problem.own_slots()
    blocks = (end - first + plan.size - 1) // plan.size
    return lax.fori_loop(0, blocks, lambda i, c: one_block(c, first + i * plan.size), carry)


def _read(
    problem: Problem, rows: jax.Array, start: jax.Array, size: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """`read_block`, with the block's first slot counted over all shards."""
    first = problem.shard.first_row
    valid = problem.shard.num_valid
    block, place, begin = read_block(rows, problem.ids, start, size, first, valid)
    return block, place, begin + first if problem.ids is None else begin


def _masked_scores(
    problem: Problem, rows: jax.Array, place: jax.Array, begin: jax.Array, bias: jax.Array | None
) -> jax.Array:
    return score_block(
        problem.queries,
        rows,
        place,
        begin,
        num_rows=problem.table.rows.shape[0],
        masked=problem.masked,
        bias=bias,
        compute_dtype=problem.compute_dtype,
    )


def _of_terms(problem: Problem, scores: jax.Array, begin: jax.Array) -> jax.Array:
    """Scores of a block for each term, its own left-out slot masked: [T, size]."""
    if not problem.one_term_a_row:
        scores = scores[problem.term_rows]
    if problem.excluded is not None:
        slots = problem.excluded - begin
        slots = jnp.where(slots < 0, scores.shape[1], slots)
        every_term = jnp.arange(scores.shape[0], dtype=jnp.int32)
        scores = scores.at[every_term, slots].set(MASKED, mode="drop")
    return scores


def _dense_gradient(
    problem: Problem,
    dense: DenseLoss,
    positive_scores: jax.Array,
    scores: jax.Array,
    begin: jax.Array,
    log_partition: jax.Array | None,
) -> tuple[jax.Array, jax.Array]:
    """Loss and gradient [n, size] of a block of scores that all count alike."""
    term_scores = _of_terms(problem, scores, begin)
    weights = problem.terms.values[:, None]
    if dense.name == "softmax":
        assert log_partition is not None
        logits = _with_log_weights(problem, term_scores, begin) - log_partition[:, None]
        value, gradient = jnp.float32(0), weights * jnp.exp(logits)
    else:
        value, gradient = jax.value_and_grad(
            lambda negative: jnp.sum(weights * dense.value(positive_scores, negative))
        )(term_scores)
    if not problem.one_term_a_row:
        gradient = jax.ops.segment_sum(
            gradient, problem.term_rows, scores.shape[0], indices_are_sorted=True
        )
    return value, gradient


def _with_log_weights(problem: Problem, scores: jax.Array, begin: jax.Array) -> jax.Array:
    if problem.log_weights is None:
        return scores
    slots = begin + jnp.arange(scores.shape[1], dtype=jnp.int32)
    return scores + problem.log_weights.at[slots].get(mode="fill", fill_value=MASKED)[None, :]


def _before_walk(
    problem: Problem, positive_scores: jax.Array, dense: DenseLoss
) -> tuple[jax.Array, jax.Array, jax.Array | None]:
    """What the gradient of one score needs to know of all: an extra walk that only reads.

    The rows' single step needs the whole gradient of the positive, which in POWL and softmax
    depends on every negative.

    Returns:
      The gradient [T] of the loss with respect to the positives' scores, and, for softmax, the
      loss and the logarithm of each term's partition function [T] (else 0 and None).
    """
    plan = block_plan(_walk_length(problem), _BLOCK)
    weights = problem.terms.values

    def one_block(carry: jax.Array, start: jax.Array) -> jax.Array:
        rows, place, begin = _read(problem, problem.table.rows, start, plan.size)
        scores = _masked_scores(problem, rows, place, begin, problem.bias)
        scores = _of_terms(problem, scores, begin)
        if dense.name == "softmax":
            scores = _with_log_weights(problem, scores, begin)
            return jnp.logaddexp(carry, jax.nn.logsumexp(scores, axis=1))
        return carry + jax.grad(
            lambda positive: jnp.sum(weights * jnp.sum(dense.value(positive, scores), axis=1))
        )(positive_scores)

    shard = problem.shard
    if dense.name == "softmax":
        rivals = _walk(problem, plan, one_block, jnp.full(positive_scores.shape, MASKED))
        if shard.axis_name is not None:
            top = shard.max(rivals)
            rivals = top + jnp.log(shard.sum(jnp.exp(rivals - top)))
        log_partition = jnp.logaddexp(positive_scores, rivals)
        loss = jnp.sum(weights * (log_partition - positive_scores))
        return loss, weights * jnp.expm1(positive_scores - log_partition), log_partition
    of_positive = _walk(problem, plan, one_block, jnp.zeros_like(positive_scores))
    return jnp.float32(0), shard.sum(of_positive), None


def _bowl_bound(problem: Problem, dense: DenseLoss) -> jax.Array:
    """At least the loss that the walk will add up, known before its first write.

    The rows have unit length, so no score is above the longest query and the largest bias.
    """
    highest = jnp.sqrt(jnp.max(jnp.sum(problem.queries * problem.queries, axis=1)))
    if problem.bias is not None:
        bias = problem.bias
        if problem.ids is not None:
            bias = bias[problem.local(problem.ids)[0]]
        highest = highest + problem.shard.max(jnp.max(bias))
    one = dense.weight * dense.phi(-highest)
    return problem.num_slots * one * jnp.sum(jnp.abs(problem.terms.values))


def _every_row(slots: jax.Array) -> jax.Array:
    return jnp.broadcast_to(jnp.arange(slots.shape[0], dtype=jnp.int32)[:, None], slots.shape)


def _scatter(
    matrix: jax.Array, rows: jax.Array, columns: jax.Array, values: jax.Array
) -> jax.Array:
    """Adds values to entries of a matrix; those outside its columns fall away."""
    columns = jnp.where(columns < 0, matrix.shape[1], columns)
    return matrix.at[rows, columns].add(values, mode="drop")


def _product(left: jax.Array, right: jax.Array, of_left: int, of_right: int) -> jax.Array:
    return lax.dot_general(
        left, right, (((of_left,), (of_right,)), ((), ())), preferred_element_type=jnp.float32
    )


def _write_block(
    problem: Problem,
    table: RowTable,
    place: jax.Array,
    rows: jax.Array,
    gradient: jax.Array,
    learning_rate: jax.Array | float,
    ok: jax.Array,
) -> RowTable:
    """Steps a block's rows, each of which stands in it once, unless a step is not finite."""
    accumulator = table.accumulator
    old = None if accumulator is None else accumulator.at[place].get(mode="fill", fill_value=0)
    new, total = step_rows(
        RowTable(rows, old),
        gradient,
        optimizer=problem.row_optimizer,
        learning_rate=learning_rate,
        unit_norm=True,
    )
    new = rounded_rows(new, table.rows.dtype, place, problem.noise)
    finite = jnp.isfinite(jnp.sum(gradient, axis=1))
    place = jnp.where(ok & finite, place, table.rows.shape[0])
    if accumulator is not None:
        accumulator = accumulator.at[place].set(total, mode="drop")
    return RowTable(table.rows.at[place].set(new, mode="drop"), accumulator)

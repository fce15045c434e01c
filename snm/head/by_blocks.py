"""Backward pass by matrix products: from the gradient of the scores to queries, rows and bias.

The gradient of a block of scores is a matrix C: zero but for the mined pairs or, where all sampled
negatives have one weight, full. The queries receive C @ rows and the rows C.T @ queries: two matrix
products a block, at any k'. `snm.head.by_pairs` computes the same step pair by pair.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from snm.head.problem import HeadUpdate, Problem, RowStep, ScoreGradients, positive_block
from snm.losses.reductions import MASKED
from snm.losses.sampled.protocol import BlockScores, DenseForm
from snm.tables.bag import embedding_bag
from snm.tables.optimizers import step_rows
from snm.tables.rounding import rounded_steps, to_nearest
from snm.tables.table import RowTable, SparseRows
from snm.tables.updates import update_rows
from snm.topk.blocks import Block, BlockPlan, block_plan, score_block

__all__ = ["by_blocks", "mean_blocks"]

_BLOCK = 4096
"""Labels a block. On a CPU timed: scores, gradient and rows stay near the cache. On others not
timed: with 256 points and rows of 512, a block's rows and scores are 12 MiB, a small part of the
temporaries, and a sample of 8192 takes two turns of the loop."""


def by_blocks(
    problem: Problem,
    gradients: ScoreGradients,
    row_step: RowStep,
) -> HeadUpdate:
    """Walks the sample in blocks: gradient of a block of scores, two products, rows updated.

    A block's rows are read, updated and written before the next block is read. No slot is in two
    blocks, so each row takes one step with its whole gradient. Where the gradient of all scores is
    known already (`gradients.grad_scores`), the walk is one block of that size.

    Args:
      problem: of the step.
      gradients: what is known of the loss and its gradient.
      row_step: how the class rows move.

    Returns:
      The update, whose `ok` may be False although rows were written (see `HeadStep`).
    """
    dense = None
    if (form := problem.plan.dense) is not None:
        dense = _DensePart(problem, gradients.positive, form)
        if form.needs_first_pass:
            dense, loss, grad_positive = dense.after_first_walk()
            gradients = gradients._replace(
                loss=gradients.loss + loss, grad_positive=gradients.grad_positive + grad_positive
            )

    # Positives outside the sample are in no block: they take one row update each.
    positives, grad_queries = None, jnp.zeros_like(problem.queries)
    if problem.ids is not None:
        outside = jnp.where(problem.term_slots < 0, gradients.grad_positive, 0)
        positives = positive_block(problem, outside)
        grad_queries = embedding_bag(problem.table.rows, positives)
    ok = row_step.may_write(problem.queries) & jnp.all(jnp.isfinite(grad_queries))
    ok = _all_finite(problem, gradients, dense, ok)

    shard = problem.shard
    blocks = block_plan(problem.labels.num_slots, _BLOCK)
    if gradients.grad_scores is not None:
        blocks = BlockPlan(1, gradients.grad_scores.shape[1])

    def one_block(carry: tuple, start: jax.Array) -> tuple:
        table, bias, grad_queries, loss = carry
        block = _read(problem, table, bias, start, blocks.size)
        gradient = gradients.grad_scores
        if dense is not None:
            value, gradient = dense.gradient(block)
            loss = loss + value
        gradient = _with_single_scores(problem, gradients, block, gradient)

        factor, rows = (x.astype(problem.compute_dtype) for x in (gradient, block.rows))
        grad_queries = grad_queries + _product(factor, rows, 1, 0)
        grad_rows = _product(factor, problem.queries.astype(problem.compute_dtype), 0, 0)
        grad_rows = shard.data_sum(grad_rows)
        table = _write_block(problem, table, block, grad_rows, row_step, ok)
        if bias is not None:
            step = shard.data_sum(jnp.sum(gradient, axis=0))
            step = jnp.where(ok, -row_step.learning_rate * step, 0)
            bias = bias.at[block.place].add(step, mode="drop")
        return table, bias, grad_queries, loss

    carry = (problem.table, problem.bias, grad_queries, jnp.float32(0))
    table, bias, grad_queries, value = _walk(problem, blocks, one_block, carry)
    if positives is not None:
        table, bias = _write_positives(problem, table, bias, positives, row_step, ok)
    loss = shard.data_sum(gradients.loss + shard.sum(value))
    return HeadUpdate(table, bias, shard.sum(grad_queries), loss, ok & jnp.isfinite(loss))


def mean_blocks(num_slots: int, parts: int) -> int:
    """The blocks of a walk where a shard holds as many slots of a sample as the mean shard.

    Args:
      num_slots: of the sample.
      parts: shards of the class rows.
    """
    return math.ceil(num_slots / parts / block_plan(num_slots, _BLOCK).size)


def _walk(
    problem: Problem, blocks: BlockPlan, one_block: Callable[[Any, jax.Array], Any], carry: Any
) -> Any:
    """Calls `one_block` for each block of all slots, or of those that this shard holds."""
    shard = problem.shard
    if shard.row_axis is None or problem.ids is None:
        starts = jnp.arange(blocks.num_blocks, dtype=jnp.int32) * blocks.size
        return lax.scan(lambda c, start: (one_block(c, start), None), carry, starts)[0]
    # The slots of a shard are contiguous; their number is known at run time only. All data parts
    # walk the same blocks, so that they can sum the gradients of the rows.
    first, end = problem.own_slots()
    count = (end - first + blocks.size - 1) // blocks.size
    return lax.fori_loop(0, count, lambda i, c: one_block(c, first + i * blocks.size), carry)


def _read(
    problem: Problem, table: RowTable, bias: jax.Array | None, start: jax.Array, size: int
) -> Block:
    """Reads a block, whose first slot is counted over all shards."""
    block = problem.labels._replace(table=table.rows, bias=bias).block(start, size)
    if problem.ids is None:
        block = block._replace(begin=block.begin + problem.shard.first_row)
    return block


@dataclasses.dataclass(frozen=True)
class _DensePart:
    """The part of the loss that all sampled negatives enter with one weight, block by block.

    Attributes:
      problem: of the step.
      positive: float32 [T], the scores of the positives.
      form: that part, as a function of scores.
      context: what `form.finish` returned for `form.block`; None before, or without a first walk.
    """

    problem: Problem
    positive: jax.Array
    form: DenseForm
    context: Any = None

    def after_first_walk(self) -> tuple[_DensePart, jax.Array, jax.Array]:
        """A walk that only reads, for losses whose gradient of one score depends on all others.

        Each row takes a single step, which needs the whole gradient of the positive; in POWL and
        softmax that depends on every negative.

        Returns:
          This part with its context, the loss so far, and the gradient [T] of the positives.
        """
        carry = self._over_blocks(self.form.add, self.form.start(self.positive))
        weights, shard = self.problem.terms.values, self.problem.shard
        loss, grad_positive, context = self.form.finish(carry, self.positive, weights, shard)
        return dataclasses.replace(self, context=context), loss, grad_positive

    def gradient(self, block: Block) -> tuple[jax.Array, jax.Array]:
        """Loss and gradient [n, size] of a block of scores."""
        problem = self.problem
        value, gradient = self.form.block(self.context, self._scores(block))
        if not problem.spec.one_positive:
            gradient = jax.ops.segment_sum(
                gradient, problem.term_rows, problem.queries.shape[0], indices_are_sorted=True
            )
        return value, gradient

    def loss_ahead(self) -> jax.Array | None:
        """This device's loss before the first write, or 0 where it is sure to be finite.

        A bound on all scores tells that as a rule. Where the bound is not finite, the scores may
        still be far below it: a walk that only reads adds the loss up. None for a loss without a
        bound.
        """
        problem = self.problem
        bound = self.form.bound(_highest_score(problem), problem.counts)
        if bound is None:
            return None

        def add(loss: jax.Array, scores: BlockScores) -> jax.Array:
            return loss + self.form.block(self.context, scores)[0]

        terms = jnp.sum(jnp.abs(problem.terms.values))
        bounded = jnp.isfinite(problem.num_slots * bound * terms)
        return lax.cond(
            bounded,
            lambda: jnp.float32(0),
            lambda: self._over_blocks(add, jnp.float32(0)),
        )

    def _over_blocks(
        self, add: Callable[[jax.Array, BlockScores], jax.Array], carry: jax.Array
    ) -> jax.Array:
        """A walk that only reads: `add` of what it returned before and of the next block."""
        problem = self.problem
        blocks = block_plan(problem.labels.num_slots, _BLOCK)

        def one_block(carry: jax.Array, start: jax.Array) -> jax.Array:
            block = _read(problem, problem.table, problem.bias, start, blocks.size)
            return add(carry, self._scores(block))

        return _walk(problem, blocks, one_block, carry)

    def _scores(self, block: Block) -> BlockScores:
        """The scores of a block as the terms of the loss see it."""
        problem = self.problem
        scores = score_block(
            problem.queries, block, masked=problem.masked, compute_dtype=problem.compute_dtype
        )
        return BlockScores(
            self.positive,
            problem.terms.values,
            _of_terms(problem, scores, block.begin),
            _log_weights(problem, block.begin, scores.shape[1]),
            problem.counts,
        )


def _of_terms(problem: Problem, scores: jax.Array, begin: jax.Array) -> jax.Array:
    """Scores of a block for each term, its own left-out slot masked: [T, size]."""
    if not problem.spec.one_positive:
        scores = scores[problem.term_rows]
    if problem.excluded is not None:
        slots = problem.excluded - begin
        slots = jnp.where(slots < 0, scores.shape[1], slots)
        every_term = jnp.arange(scores.shape[0], dtype=jnp.int32)
        scores = scores.at[every_term, slots].set(MASKED, mode="drop")
    return scores


def _log_weights(problem: Problem, begin: jax.Array, size: int) -> jax.Array | None:
    """The log weights [size] of a block's slots; MASKED past the last."""
    if problem.log_weights is None:
        return None
    slots = begin + jnp.arange(size, dtype=jnp.int32)
    return problem.log_weights.at[slots].get(mode="fill", fill_value=MASKED)


def _highest_score(problem: Problem) -> jax.Array:
    """At least every score of the step, known before its first write.

    The rows have unit length, so no score is above the longest query and the largest bias.
    """
    highest = jnp.sqrt(jnp.max(jnp.sum(problem.queries * problem.queries, axis=1)))
    if problem.bias is not None:
        bias = problem.bias
        if problem.ids is not None:
            bias = bias[problem.local(problem.ids)[0]]
        highest = highest + problem.shard.max(jnp.max(bias))
    return highest


def _all_finite(
    problem: Problem, gradients: ScoreGradients, dense: _DensePart | None, ok: jax.Array
) -> jax.Array:
    """`ok` of all devices, and whether the loss and its gradient are finite, as far as is known."""
    ok &= jnp.isfinite(gradients.loss) & jnp.all(jnp.isfinite(gradients.grad_positive))
    # The gradient of a loss may be NaN where its value is finite, such as that of a square root.
    ok &= jnp.all(jnp.isfinite(gradients.grad_mined))
    if gradients.grad_scores is not None:
        ok &= jnp.all(jnp.isfinite(gradients.grad_scores))
    shard = problem.shard
    ahead = None if dense is None else dense.loss_ahead()
    if ahead is not None:
        ok &= jnp.isfinite(shard.data_sum(gradients.loss + shard.sum(ahead)))
    return shard.all(ok)


def _with_single_scores(
    problem: Problem, gradients: ScoreGradients, block: Block, gradient: jax.Array | None
) -> jax.Array:
    """The gradient [n, size] of a block, with that of the mined scores and of the positives added.

    Args:
      problem: of the step.
      gradients: of single scores.
      block: which scores.
      gradient: of all scores of the block, float32 [n, size]; None for 0.
    """
    if gradient is None:
        gradient = jnp.zeros((problem.queries.shape[0], block.place.shape[0]), jnp.float32)
    slots = gradients.slots
    gradient = _scatter(gradient, _every_row(slots), slots - block.begin, gradients.grad_mined)
    slots = problem.term_slots - block.begin
    gradient = _scatter(gradient, problem.term_rows, slots, gradients.grad_positive)
    return jnp.where(block.real[None, :], gradient, 0)


def _every_row(slots: jax.Array) -> jax.Array:
    return jnp.broadcast_to(jnp.arange(slots.shape[0], dtype=jnp.int32)[:, None], slots.shape)


def _scatter(
    matrix: jax.Array, rows: jax.Array, columns: jax.Array, values: jax.Array
) -> jax.Array:
    """Adds values to entries of a matrix; entries outside its columns are dropped."""
    columns = jnp.where(columns < 0, matrix.shape[1], columns)
    return matrix.at[rows, columns].add(values, mode="drop")


def _product(left: jax.Array, right: jax.Array, of_left: int, of_right: int) -> jax.Array:
    return lax.dot_general(
        left, right, (((of_left,), (of_right,)), ((), ())), preferred_element_type=jnp.float32
    )


def _write_block(
    problem: Problem,
    table: RowTable,
    block: Block,
    gradient: jax.Array,
    row_step: RowStep,
    ok: jax.Array,
) -> RowTable:
    """Updates the distinct rows of a block, except those whose gradient is not finite."""
    accumulator, rows, place = table.accumulator, block.rows, block.place
    old = None if accumulator is None else accumulator.at[place].get(mode="fill", fill_value=0)
    new, total = step_rows(
        RowTable(rows, old),
        gradient,
        optimizer=problem.spec.row_rule,
        learning_rate=row_step.learning_rate,
        unit_norm=True,
    )
    stored = to_nearest(rows, table.rows.dtype)  # as it was read
    numbers = place + problem.shard.first_row
    steps = row_step.learning_rate * gradient
    new = rounded_steps(stored, new, steps, numbers, row_step.noise)
    finite = jnp.isfinite(jnp.sum(gradient, axis=1))
    place = jnp.where(ok & finite, place, table.rows.shape[0])
    if accumulator is not None:
        accumulator = accumulator.at[place].set(total, mode="drop")
    return RowTable(table.rows.at[place].set(new, mode="drop"), accumulator)


def _write_positives(
    problem: Problem,
    table: RowTable,
    bias: jax.Array | None,
    positives: SparseRows,
    row_step: RowStep,
    ok: jax.Array,
) -> tuple[RowTable, jax.Array | None]:
    """Updates the rows and biases of positives outside the sample, each by one step."""
    shard, learning_rate = problem.shard, row_step.learning_rate
    positives = shard.gather_block(positives)
    table = update_rows(
        table,
        [(positives, shard.gather(problem.queries))],
        optimizer=problem.spec.row_rule,
        learning_rate=learning_rate,
        ok=ok,
        unit_norm=True,
        noise=row_step.noise,
        first_row=shard.first_row,
    )
    if bias is not None:
        step = jnp.where(ok, -learning_rate * positives.values, 0)
        bias = bias.at[positives.ids].add(step)
    return table, bias

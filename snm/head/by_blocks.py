"""Backward pass by matrix products: the gradient of the queries, and the update of rows and biases.

The gradient of a block of scores is a matrix C. Only mined pairs have nonzero entries, unless all
sampled negatives have the same weight. The gradient of the queries is C @ rows, that of the rows is
C.T @ queries: two matrix products per block, for any k'. `snm.head.by_pairs` computes the same step
pair by pair.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from snm.head.by_pairs import write_pairs
from snm.head.step_inputs import (
    HeadUpdate,
    ScoreGradients,
    StepInputs,
    positive_block,
)
from snm.losses.reductions import MASKED
from snm.losses.sampled.protocol import BlockScores, DenseForm
from snm.tables.bag import embedding_bag
from snm.tables.optimizers import RowStep
from snm.tables.rounding import round_to_nearest
from snm.tables.table import RowTable
from snm.topk.blocks import Block, BlockPlan, block_columns, block_plan, score_block

__all__ = ["mean_blocks", "update_by_blocks"]

_BLOCK = 4096
"""Labels per block. Timed on a CPU: scores, gradient and rows stay near the cache. Not timed on
accelerators: with 256 points and rows of 512, the rows and scores of a block take 12 MiB, a small
part of the temporaries, and a sample of 8192 needs two iterations."""


def update_by_blocks(
    inputs: StepInputs,
    gradients: ScoreGradients,
    row_step: RowStep,
    may_write: jax.Array,
) -> HeadUpdate:
    """Loops over the sample in blocks: gradient of the scores, two products, update of the rows.

    The rows of a block are read, updated and written before the next block is read. No slot is in
    two blocks, so each row makes one step with its whole gradient. If the gradient of all scores is
    given (`gradients.grad_scores`), there is one block of that size.

    Args:
      inputs: the inputs of the step.
      gradients: the loss and its gradient, without the dense part of the loss.
      row_step: the step of the class rows; biases have the same learning rate.
      may_write: bool scalar; if False, nothing is written.

    Returns:
      The update, whose `ok` may be False although rows were written (see `HeadStep`).
    """
    dense = None
    if (form := inputs.plan.dense) is not None:
        dense = _DensePart(inputs, gradients.positive, form)
        if form.needs_first_pass:
            dense, loss, grad_positive = dense.first_pass()
            gradients = gradients._replace(
                loss=gradients.loss + loss, grad_positive=gradients.grad_positive + grad_positive
            )

    # Positives outside the sample are in no block. Their rows are updated separately.
    positives, grad_queries = None, jnp.zeros_like(inputs.queries)
    if inputs.ids is not None:
        outside = jnp.where(inputs.term_slots < 0, gradients.grad_positive, 0)
        positives = positive_block(inputs, outside)
        grad_queries = embedding_bag(inputs.table.rows, positives)
    ok = may_write & jnp.all(jnp.isfinite(grad_queries))
    ok = _all_finite(inputs, gradients, dense, ok)

    shard = inputs.shard
    blocks = block_plan(inputs.labels.num_searched, _BLOCK)
    if gradients.grad_scores is not None:
        blocks = BlockPlan(1, gradients.grad_scores.shape[1])

    def update_block(carry: tuple, start: jax.Array) -> tuple:
        table, bias, grad_queries, loss = carry
        block = _read_block(inputs, table, bias, start, blocks.size)
        gradient = gradients.grad_scores
        if dense is not None:
            value, gradient = dense.gradient(block)
            loss = loss + value
        gradient = _add_single_scores(inputs, gradients, block, gradient)

        factor, rows = (x.astype(inputs.compute_dtype) for x in (gradient, block.rows))
        grad_queries = grad_queries + _product(factor, rows, 1, 0)
        grad_rows = _product(factor, inputs.queries.astype(inputs.compute_dtype), 0, 0)
        grad_rows = shard.data_sum(grad_rows)
        table = _write_block(table, block, grad_rows, row_step, ok)
        if bias is not None:
            step = shard.data_sum(jnp.sum(gradient, axis=0))
            step = jnp.where(ok, -row_step.learning_rate * step, 0)
            bias = bias.at[block.table_rows].add(step, mode="drop")
        return table, bias, grad_queries, loss

    carry = (inputs.table, inputs.bias, grad_queries, jnp.float32(0))
    table, bias, grad_queries, value = _loop_over_blocks(inputs, blocks, update_block, carry)
    if positives is not None:
        table, bias = write_pairs(inputs, table, bias, [positives], row_step, ok)
    loss = shard.data_sum(gradients.loss + shard.sum(value))
    return HeadUpdate(table, bias, shard.sum(grad_queries), loss, ok & jnp.isfinite(loss))


def mean_blocks(num_slots: int, parts: int) -> int:
    """The number of blocks on a shard that holds an average number of slots of the sample.

    Args:
      num_slots: number of slots of the sample.
      parts: number of shards of the class rows.
    """
    return math.ceil(num_slots / parts / block_plan(num_slots, _BLOCK).size)


def _loop_over_blocks(
    inputs: StepInputs, blocks: BlockPlan, step: Callable[[Any, jax.Array], Any], carry: Any
) -> Any:
    """Calls `step(carry, start)` for each block of the slots that this shard holds."""
    shard = inputs.shard
    if shard.row_axis is None or inputs.ids is None:
        return lax.scan(lambda c, start: (step(c, start), None), carry, blocks.starts)[0]
    # The slots of a shard are contiguous, and their number is known only at run time. All data
    # shards loop over the same blocks, so that they can sum the gradients of the rows.
    first, end = inputs.own_slots()
    count = (end - first + blocks.size - 1) // blocks.size
    return lax.fori_loop(0, count, lambda i, c: step(c, first + i * blocks.size), carry)


def _read_block(
    inputs: StepInputs, table: RowTable, bias: jax.Array | None, start: jax.Array, size: int
) -> Block:
    """Reads a block. Its attribute `begin` counts the slots of all shards."""
    block = inputs.labels._replace(table=table.rows, bias=bias).block(start, size)
    if inputs.ids is None:
        block = block._replace(begin=block.begin + inputs.shard.first_row)
    return block


@dataclasses.dataclass(frozen=True)
class _DensePart:
    """The part of the loss in which all sampled negatives have the same weight, block by block.

    Attributes:
      inputs: the inputs of the step.
      positive: float32 [T], the scores of the positives.
      form: the dense form of the loss.
      context: from `form.finish`, for `form.block`; None before, or without a first pass.
    """

    inputs: StepInputs
    positive: jax.Array
    form: DenseForm
    context: Any = None

    def first_pass(self) -> tuple[_DensePart, jax.Array, jax.Array]:
        """A read-only pass, for losses whose gradient of the positive depends on all negatives.

        Each row makes a single step with its whole gradient. In POWL and softmax, the gradient of a
        positive depends on every negative, so it is computed before any row is written.

        Returns:
          This object with its context, the loss so far, and the gradient [T] of the positives.
        """
        carry = self._read_blocks(self.form.add, self.form.start(self.positive))
        weights, shard = self.inputs.terms.values, self.inputs.shard
        loss, grad_positive, context = self.form.finish(carry, self.positive, weights, shard)
        return dataclasses.replace(self, context=context), loss, grad_positive

    def gradient(self, block: Block) -> tuple[jax.Array, jax.Array]:
        """Loss and gradient [n, size] of a block of scores."""
        inputs = self.inputs
        value, gradient = self.form.block(self.context, self._scores(block))
        if not inputs.spec.one_positive:
            gradient = jax.ops.segment_sum(
                gradient, inputs.term_rows, inputs.queries.shape[0], indices_are_sorted=True
            )
        return value, gradient

    def loss_before_writes(self) -> jax.Array | None:
        """This device's loss before any row is written; 0 if a bound shows that it is finite.

        Usually the bound on all scores is enough. If it is not finite, the scores may still be far
        below it: a read-only pass sums the loss. None for a loss without a bound.
        """
        inputs = self.inputs
        bound = self.form.bound(_highest_score(inputs), inputs.counts)
        if bound is None:
            return None

        def add(loss: jax.Array, scores: BlockScores) -> jax.Array:
            return loss + self.form.block(self.context, scores)[0]

        terms = jnp.sum(jnp.abs(inputs.terms.values))
        bounded = jnp.isfinite(inputs.num_slots * bound * terms)
        return lax.cond(
            bounded,
            lambda: jnp.float32(0),
            lambda: self._read_blocks(add, jnp.float32(0)),
        )

    def _read_blocks(
        self, add: Callable[[jax.Array, BlockScores], jax.Array], carry: jax.Array
    ) -> jax.Array:
        """A read-only pass: folds `add` over the scores of all blocks."""
        inputs = self.inputs
        blocks = block_plan(inputs.labels.num_searched, _BLOCK)

        def add_block(carry: jax.Array, start: jax.Array) -> jax.Array:
            block = _read_block(inputs, inputs.table, inputs.bias, start, blocks.size)
            return add(carry, self._scores(block))

        return _loop_over_blocks(inputs, blocks, add_block, carry)

    def _scores(self, block: Block) -> BlockScores:
        """The scores of a block for each term of the loss."""
        inputs = self.inputs
        scores = score_block(
            inputs.queries, block, masked=inputs.masked, compute_dtype=inputs.compute_dtype
        )
        return BlockScores(
            self.positive,
            inputs.terms.values,
            _scores_per_term(inputs, scores, block.begin),
            _log_weights(inputs, block.begin, scores.shape[1]),
            inputs.counts,
        )


def _scores_per_term(inputs: StepInputs, scores: jax.Array, begin: jax.Array) -> jax.Array:
    """Scores of a block for each term, with its excluded slot masked: [T, size]."""
    if not inputs.spec.one_positive:
        scores = scores[inputs.term_rows]
    if inputs.excluded is not None:
        columns = block_columns(inputs.excluded, begin, scores.shape[1])
        terms = jnp.arange(scores.shape[0], dtype=jnp.int32)
        scores = scores.at[terms, columns].set(MASKED, mode="drop")
    return scores


def _log_weights(inputs: StepInputs, begin: jax.Array, size: int) -> jax.Array | None:
    """The log weights [size] of a block's slots; MASKED for slots past the last one."""
    if inputs.log_weights is None:
        return None
    slots = begin + jnp.arange(size, dtype=jnp.int32)
    return inputs.log_weights.at[slots].get(mode="fill", fill_value=MASKED)


def _highest_score(inputs: StepInputs) -> jax.Array:
    """An upper bound of all scores of the step, without computing them.

    The rows have unit length: no score is above the longest query plus the largest bias.
    """
    highest = jnp.sqrt(jnp.max(jnp.sum(inputs.queries * inputs.queries, axis=1)))
    if inputs.bias is not None:
        bias = inputs.bias
        if inputs.ids is not None:
            bias = bias[inputs.local(inputs.ids)[0]]
        highest = highest + inputs.shard.max(jnp.max(bias))
    return highest


def _all_finite(
    inputs: StepInputs, gradients: ScoreGradients, dense: _DensePart | None, ok: jax.Array
) -> jax.Array:
    """Whether `ok` holds and the loss and its gradient so far are finite, on all devices."""
    ok &= jnp.isfinite(gradients.loss) & jnp.all(jnp.isfinite(gradients.grad_positive))
    # The gradient may be NaN although the loss is finite, as for a square root at 0.
    ok &= jnp.all(jnp.isfinite(gradients.grad_mined))
    if gradients.grad_scores is not None:
        ok &= jnp.all(jnp.isfinite(gradients.grad_scores))
    shard = inputs.shard
    dense_loss = None if dense is None else dense.loss_before_writes()
    if dense_loss is not None:
        ok &= jnp.isfinite(shard.data_sum(gradients.loss + shard.sum(dense_loss)))
    return shard.all(ok)


def _add_single_scores(
    inputs: StepInputs, gradients: ScoreGradients, block: Block, gradient: jax.Array | None
) -> jax.Array:
    """Adds the gradients of mined labels and positives to the gradient [n, size] of a block.

    Args:
      inputs: the inputs of the step.
      gradients: the gradients of single scores.
      block: the block of labels.
      gradient: float32 [n, size], the gradient of all scores of the block; None for 0.
    """
    n, size = inputs.queries.shape[0], block.table_rows.shape[0]
    if gradient is None:
        gradient = jnp.zeros((n, size), jnp.float32)
    rows = jnp.arange(n, dtype=jnp.int32)[:, None]
    for points, slots, values in (
        (rows, gradients.slots, gradients.grad_mined),
        (inputs.term_rows, inputs.term_slots, gradients.grad_positive),
    ):
        columns = block_columns(slots, block.begin, size)
        gradient = gradient.at[points, columns].add(values, mode="drop")
    return jnp.where(block.real[None, :], gradient, 0)


def _product(left: jax.Array, right: jax.Array, left_axis: int, right_axis: int) -> jax.Array:
    """The product of two matrices over the given axes, summed in float32."""
    return lax.dot_general(
        left, right, (((left_axis,), (right_axis,)), ((), ())), preferred_element_type=jnp.float32
    )


def _write_block(
    table: RowTable, block: Block, gradient: jax.Array, row_step: RowStep, ok: jax.Array
) -> RowTable:
    """Updates the rows of a block, which are distinct, if their gradient is finite."""
    accumulator, rows, table_rows = table.accumulator, block.rows, block.table_rows
    old = None if accumulator is None else accumulator.at[table_rows].get(mode="fill", fill_value=0)
    stored = round_to_nearest(rows, table.rows.dtype)  # the bits that were read
    new, total = row_step.apply(rows, old, gradient, table_rows, stored=stored)
    finite = jnp.isfinite(jnp.sum(gradient, axis=1))
    table_rows = jnp.where(ok & finite, table_rows, table.rows.shape[0])
    if accumulator is not None:
        accumulator = accumulator.at[table_rows].set(total, mode="drop")
    return RowTable(table.rows.at[table_rows].set(new, mode="drop"), accumulator)

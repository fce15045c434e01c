"""Backward pass pair by pair: the gradient of the queries, and the update of rows and biases.

Each mined (point, label) pair reads and writes one row. The cost is O(pairs x dim), which is low if
k' is small compared to B. `snm.head.by_blocks` computes the same step by matrix products.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from snm.head.step_inputs import (
    HeadUpdate,
    ScoreGradients,
    StepInputs,
    positive_block,
)
from snm.tables.bag import embedding_bag
from snm.tables.optimizers import RowStep
from snm.tables.table import RowTable, SparseRows
from snm.tables.updates import update_rows

__all__ = ["update_by_pairs", "write_pairs"]


def update_by_pairs(
    inputs: StepInputs,
    gradients: ScoreGradients,
    row_step: RowStep,
    may_write: jax.Array,
) -> HeadUpdate:
    """Reads and updates one row for each pair of a query and a positive or mined label.

    Args:
      inputs: the inputs of the step.
      gradients: of T positives, and of m mined labels per point.
      row_step: the step of the class rows; biases have the same learning rate.
      may_write: bool scalar; if False, nothing is written.

    Returns:
      The update; if its `ok` is False, nothing was written.
    """
    shard = inputs.shard
    n, count = gradients.slots.shape
    labels = gradients.slots if inputs.ids is None else inputs.ids[gradients.slots]
    row_ids, is_local = inputs.local(labels.reshape(-1))
    grad_mined = jnp.where(is_local, gradients.grad_mined.reshape(-1), 0)
    mined = SparseRows(row_ids, grad_mined, jnp.arange(n + 1, dtype=jnp.int32) * count)
    positives = positive_block(inputs, gradients.grad_positive)
    # The one positive of a point is appended to its mined labels, which saves a loop.
    blocks = (
        [_concatenate_rows(mined, positives)] if inputs.spec.one_positive else [mined, positives]
    )

    grad_queries = functools.reduce(
        jnp.add, [embedding_bag(inputs.table.rows, block) for block in blocks]
    )
    grad_queries = shard.sum(grad_queries)
    loss = shard.data_sum(gradients.loss)
    # All reads come before the writes, which depend on `ok`. A NaN query whose pairs all have
    # weight 0 leaves the loss finite, but would still spoil rows by 0 * NaN.
    ok = jnp.isfinite(loss) & jnp.all(jnp.isfinite(grad_queries))
    ok = shard.all(ok & may_write)
    touched = None
    if inputs.ids is not None and n * count * shard.data_parts > inputs.num_slots:
        touched = jnp.concatenate([inputs.local(inputs.ids)[0], shard.gather(positives.ids)])
    table, bias = write_pairs(
        inputs, inputs.table, inputs.bias, blocks, row_step, ok, touched=touched
    )
    return HeadUpdate(table, bias, grad_queries, loss, ok)


def write_pairs(
    inputs: StepInputs,
    table: RowTable,
    bias: jax.Array | None,
    blocks: Sequence[SparseRows],
    row_step: RowStep,
    ok: jax.Array,
    *,
    touched: jax.Array | None = None,
) -> tuple[RowTable, jax.Array | None]:
    """Updates the rows and biases of single (point, label) pairs, of the points of all devices.

    Args:
      inputs: the inputs of the step.
      table: class rows of this shard.
      bias: float32 [N] or None.
      blocks: the gradients of the scores of this device's points, as [n, N] blocks.
      row_step: the step of the class rows; biases have the same learning rate.
      ok: bool scalar; if False, nothing is written.
      touched: as in `update_rows`.
    """
    shard = inputs.shard
    queries = shard.gather(inputs.queries)
    blocks = [shard.gather_block(block) for block in blocks]
    gradients = [(block, queries) for block in blocks]
    table = update_rows(table, gradients, row_step, ok=ok, touched=touched)
    if bias is not None:
        for block in blocks:
            step = jnp.where(ok, -row_step.learning_rate * block.values, 0)
            bias = bias.at[block.ids].add(step)
    return table, bias


def _concatenate_rows(left: SparseRows, right: SparseRows) -> SparseRows:
    """Concatenates two blocks row by row; within a block, all rows have equally many entries."""
    n = left.starts.shape[0] - 1

    def concatenated(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.concatenate([a.reshape(n, -1), b.reshape(n, -1)], axis=1).reshape(-1)

    return SparseRows(
        concatenated(left.ids, right.ids),
        concatenated(left.values, right.values),
        left.starts + right.starts,
    )

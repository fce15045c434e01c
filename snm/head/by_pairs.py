"""Backward pass pair by pair: from the gradient of the scores to queries, class rows and bias.

Each mined (point, label) pair reads and writes one row. The cost is pairs x dim, which is low while
k' is small against B. `snm.head.by_blocks` computes the same step by matrix products.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from snm.head.problem import HeadUpdate, Problem, RowStep, ScoreGradients, positive_block
from snm.tables.bag import embedding_bag
from snm.tables.table import SparseRows
from snm.tables.updates import update_rows

__all__ = ["by_pairs"]


def by_pairs(
    problem: Problem,
    gradients: ScoreGradients,
    row_step: RowStep,
) -> HeadUpdate:
    """Reads and updates one row a pair of a query with a positive or a mined label.

    Args:
      problem: of the step.
      gradients: of T positives and m mined labels a point.
      row_step: how the class rows move.

    Returns:
      The update, whose `ok` is False where nothing was written.
    """
    shard = problem.shard
    n, count = gradients.slots.shape
    labels = gradients.slots if problem.ids is None else problem.ids[gradients.slots]
    place, here = problem.local(labels.reshape(-1))
    grad_mined = jnp.where(here, gradients.grad_mined.reshape(-1), 0)
    mined = SparseRows(place, grad_mined, jnp.arange(n + 1, dtype=jnp.int32) * count)
    positives = positive_block(problem, gradients.grad_positive)
    # One positive a point follows its mined labels: a loop for it alone would cost more.
    blocks = [_beside(mined, positives)] if problem.spec.one_positive else [mined, positives]

    grad_queries = functools.reduce(
        jnp.add, [embedding_bag(problem.table.rows, block) for block in blocks]
    )
    grad_queries = shard.sum(grad_queries)
    loss = shard.data_sum(gradients.loss)
    # Reads end here: every write below depends on `ok`, and so on them. A query that is NaN may
    # leave the loss finite, where all of its pairs weigh 0, and still spoil rows by 0 * NaN.
    ok = jnp.isfinite(loss) & jnp.all(jnp.isfinite(grad_queries))
    ok = shard.all(ok & row_step.may_write(problem.queries))
    # A row is updated by all points that name it, on whatever device they are.
    queries = shard.gather(problem.queries)
    blocks = [shard.gather_block(block) for block in blocks]
    touched = None
    if problem.ids is not None and n * count * shard.data_parts > problem.num_slots:
        touched = jnp.concatenate([problem.local(problem.ids)[0], shard.gather(positives.ids)])
    table = update_rows(
        problem.table,
        [(block, queries) for block in blocks],
        optimizer=problem.spec.row_rule,
        learning_rate=row_step.learning_rate,
        ok=ok,
        unit_norm=True,
        touched=touched,
        noise=row_step.noise,
        first_row=shard.first_row,
    )
    bias = problem.bias
    if bias is not None:
        for block in blocks:
            step = -row_step.learning_rate * block.values
            bias = bias.at[block.ids].add(jnp.where(ok, step, 0))
    return HeadUpdate(table, bias, grad_queries, loss, ok)


def _beside(left: SparseRows, right: SparseRows) -> SparseRows:
    """Concatenates two blocks row by row; in each, all rows have the same number of entries."""
    n = left.starts.shape[0] - 1

    def concatenated(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.concatenate([a.reshape(n, -1), b.reshape(n, -1)], axis=1).reshape(-1)

    return SparseRows(
        concatenated(left.ids, right.ids),
        concatenated(left.values, right.values),
        left.starts + right.starts,
    )

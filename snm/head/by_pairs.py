"""From the gradient of the scores to queries, class rows and bias, pair by pair.

Each mined (point, label) pair reads and writes one row. The cost is pairs x dim, so
it wins while k' is small against B. `snm.head.by_blocks` has the other way, with the same result.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from snm.head.problem import Problem, Result, ScoreGradients, positive_block
from snm.tables.bag import embedding_bag
from snm.tables.table import SparseRows
from snm.tables.updates import update_rows

__all__ = ["PAIRS_LIMIT", "by_pairs"]

PAIRS_LIMIT = 64
"""Products replace pairs where k' * PAIRS_LIMIT > B: a pair moves 3 rows of memory, and a column
of C costs two rows of multiply-adds a point, of which a CPU does about 64 in the same time."""


def by_pairs(
    problem: Problem,
    gradients: ScoreGradients,
    loss: jax.Array,
    learning_rate: jax.Array | float,
) -> Result:
    """Reads and updates one row a pair of a query with a positive or a mined label."""
    shard = problem.shard
    n, count = gradients.slots.shape
    labels = gradients.slots if problem.ids is None else problem.ids[gradients.slots]
    place, here = problem.local(labels.reshape(-1))
    of_mined = jnp.where(here, gradients.of_mined.reshape(-1), 0)
    mined = SparseRows(place, of_mined, jnp.arange(n + 1, dtype=jnp.int32) * count)
    positives = positive_block(problem, gradients.of_positive)
    # One positive a point goes behind its mined labels: starting a loop for it alone costs more.
    blocks = [_beside(mined, positives)] if problem.one_term_a_row else [mined, positives]

    of_queries = functools.reduce(
        jnp.add, [embedding_bag(problem.table.rows, block) for block in blocks]
    )
    of_queries = shard.sum(of_queries)
    loss = shard.data_sum(loss)
    # Reads end here: every write below waits for `ok`, and so for them. A query that is no number
    # may leave the loss finite, where all of its pairs weigh 0, and still spoil rows by 0 * NaN.
    ok = jnp.isfinite(loss) & jnp.all(jnp.isfinite(of_queries))
    ok = shard.all(ok & jnp.all(jnp.isfinite(problem.queries)))
    # A row is stepped by all points that name it, wherever they are.
    queries = shard.gather(problem.queries)
    blocks = [shard.gather_block(block) for block in blocks]
    touched = None
    if problem.ids is not None and n * count * shard.data_parts > problem.num_slots:
        touched = jnp.concatenate([problem.local(problem.ids)[0], shard.gather(positives.ids)])
    table = update_rows(
        problem.table,
        [(block, queries) for block in blocks],
        optimizer=problem.row_optimizer,
        learning_rate=learning_rate,
        ok=ok,
        unit_norm=True,
        touched=touched,
        noise=problem.noise,
    )
    bias = problem.bias
    if bias is not None:
        for block in blocks:
            bias = bias.at[block.ids].add(jnp.where(ok, -learning_rate * block.values, 0))
    return Result(table, bias, of_queries, loss, ok)


def _beside(left: SparseRows, right: SparseRows) -> SparseRows:
    """The entries of two blocks row by row, each with one number of entries for all rows."""
    n = left.starts.shape[0] - 1

    def joined(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.concatenate([a.reshape(n, -1), b.reshape(n, -1)], axis=1).reshape(-1)

    return SparseRows(
        joined(left.ids, right.ids), joined(left.values, right.values), left.starts + right.starts
    )

"""From the gradient of the scores to queries, class rows and bias, pair by pair.

Each mined (point, label) pair reads and writes one row. The cost is pairs x dim, so
it wins while k' is small against B. `snm.head.by_blocks` has the other way, with the same result.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from snm.distributed.collectives import Shard
from snm.tables.rounding import as_float
from snm.tables.table import RowTable, SparseRows, bag
from snm.tables.updates import update_rows
from snm.topk.search import Masked

__all__ = [
    "PAIRS_LIMIT",
    "Problem",
    "Result",
    "ScoreGradients",
    "by_pairs",
    "positive_block",
    "term_scores",
]

PAIRS_LIMIT = 64
"""Products replace pairs where k' * PAIRS_LIMIT > B: a pair moves 3 rows of memory, and a column
of C costs two rows of multiply-adds a point, of which a CPU does about 64 in the same time."""


@dataclasses.dataclass(frozen=True)
class Problem:
    """A batch, its sample, and who is compared with whom.

    Attributes:
      table: class rows of this shard.
      bias: float32 [N] or None.
      queries: float32 [n, dim], already times the score multiplier.
      terms: positives as an [n, K] block; values are the weights of the terms in the loss.
      term_rows: int32 [T], the row of each term.
      one_term_a_row: static; then term t belongs to row t.
      term_slots: int32 [T], the slot of each term's positive, or -1.
      ids: int32 [S], the label of each slot, ascending; None where slot j is label j.
      num_slots: S.
      log_weights: float32 [S] or None, added to the negatives of a softmax.
      excluded: int32 [T] or None, the slot that each term leaves out.
      masked: pairs of row and slot that no term of the row may use, or None.
      shard: which label rows are here.
      row_optimizer: `sgd`, or a name of `updates.ROW_RULES`.
      compute_dtype: type of the factors of matrix products.
      noise: what the rounding of a narrow table follows from; see `snm.tables.rounding`.
    """

    table: RowTable
    bias: jax.Array | None
    queries: jax.Array
    terms: SparseRows
    term_rows: jax.Array
    one_term_a_row: bool
    term_slots: jax.Array
    ids: jax.Array | None
    num_slots: int
    log_weights: jax.Array | None
    excluded: jax.Array | None
    masked: Masked | None
    shard: Shard
    row_optimizer: str
    compute_dtype: jnp.dtype
    noise: jax.Array | None = None

    def own_slots(self) -> tuple[jax.Array, jax.Array]:
        """The first slot whose label this shard holds, and the end of them: they stand together."""
        first = jnp.asarray(self.shard.first_row)
        ends = jnp.stack([first, first + self.table.rows.shape[0]])
        start, end = jnp.searchsorted(self.ids, ends)  # type: ignore[arg-type]
        return start, end

    def local(self, labels: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Rows of this shard's table that hold `labels` (0 where none), and whether one does."""
        return self.shard.local(labels, self.table.rows.shape[0])


class ScoreGradients(NamedTuple):
    """The gradient of the loss with respect to the scores that it was computed from.

    Attributes:
      of_positive: float32 [T].
      of_mined: float32 [n, m]; 0 for masked ones.
      slots: int32 [n, m], which slot each mined score belongs to.
    """

    of_positive: jax.Array
    of_mined: jax.Array
    slots: jax.Array


class Result(NamedTuple):
    """The step's outcome: parameters after it, gradient of the (scaled) queries, loss, and ok."""

    table: RowTable
    bias: jax.Array | None
    of_queries: jax.Array
    loss: jax.Array
    ok: jax.Array


def term_scores(problem: Problem) -> jax.Array:
    """The score of each term's positive, float32 [T]; the same on every shard."""
    place, here = problem.local(problem.terms.ids)
    queries = problem.queries
    if not problem.one_term_a_row:
        queries = queries[problem.term_rows]
    scores = jnp.sum(queries * as_float(problem.table.rows[place]), axis=-1)
    if problem.bias is not None:
        scores = scores + problem.bias[place]
    return problem.shard.sum(jnp.where(here, scores, 0))


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

    of_queries = functools.reduce(jnp.add, [bag(problem.table.rows, block) for block in blocks])
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


def positive_block(problem: Problem, values: jax.Array) -> SparseRows:
    """The terms' positives as a block of this shard's rows; the values of others' become 0."""
    place, here = problem.local(problem.terms.ids)
    return SparseRows(place, jnp.where(here, values, 0), problem.terms.starts)

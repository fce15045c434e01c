"""One batch, its sample, and which scores are compared; the outcome of a step."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

from snm.distributed.collectives import Shard
from snm.tables.rounding import as_float
from snm.tables.table import RowTable, SparseRows
from snm.topk.blocks import Masked

__all__ = ["Problem", "Result", "ScoreGradients", "positive_block", "term_scores"]


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
      row_optimizer: a name of `snm.tables.optimizers.ROW_OPTIMIZERS`.
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


def positive_block(problem: Problem, values: jax.Array) -> SparseRows:
    """The terms' positives as a block of this shard's rows; the values of others' become 0."""
    place, here = problem.local(problem.terms.ids)
    return SparseRows(place, jnp.where(here, values, 0), problem.terms.starts)

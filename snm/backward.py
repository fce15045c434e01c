"""From the gradient of the scores to queries, class rows and bias: two ways, one result.

Pair by pair: each mined (point, label) pair reads and writes one row. The cost is pairs x dim, so
it wins while k' is small against B.

By products: the gradient of a block of scores is a matrix C, zero but for the mined pairs or, where
all sampled negatives share one weight, full. Then the queries receive C @ rows and the rows
C.T @ queries: two matrix products a block, at any k'.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from snm import rows as row_tables
from snm.rows import RowTable, SparseRows, bag
from snm.scoring import MASKED, Masked, block_plan, read_block, score_block

__all__ = [
    "PAIRS_LIMIT",
    "DenseLoss",
    "Problem",
    "Result",
    "ScoreGradients",
    "Shard",
    "by_pairs",
    "by_products",
    "term_scores",
    "write",
]

PAIRS_LIMIT = 64
"""Products replace pairs where k' * PAIRS_LIMIT > B: a pair moves 3 rows of memory, and a column
of C costs two rows of multiply-adds a point, of which a CPU does about 64 in the same time."""

_BLOCK = 4096  # labels a block: its scores, gradient and rows stay near the cache


class Shard(NamedTuple):
    """Which label rows this device holds: first_row, and the mesh axis that they are cut over."""

    first_row: jax.Array | int
    axis_name: str | None

    @classmethod
    def of(cls, table: RowTable, axis_name: str | None) -> Shard:
        """The shard of a table cut evenly over `axis_name`; all of it where that is None."""
        if axis_name is None:
            return cls(0, None)
        return cls(lax.axis_index(axis_name) * table.rows.shape[0], axis_name)

    def sum(self, x: jax.Array) -> jax.Array:
        """The sum over all shards."""
        return x if self.axis_name is None else lax.psum(x, self.axis_name)

    def max(self, x: jax.Array) -> jax.Array:
        """The maximum over all shards."""
        return x if self.axis_name is None else lax.pmax(x, self.axis_name)


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
      row_optimizer: a name of `rows.ROW_OPTIMIZERS`.
      compute_dtype: type of the factors of matrix products.
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

    def local(self, labels: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Rows of this shard's table that hold `labels` (0 where none), and whether one does."""
        place = labels - self.shard.first_row
        here = (place >= 0) & (place < self.table.rows.shape[0])
        return jnp.where(here, place, 0), here


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
    scores = jnp.sum(queries * problem.table.rows[place], axis=-1)
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
    n, count = gradients.slots.shape
    labels = gradients.slots if problem.ids is None else problem.ids[gradients.slots]
    place, here = problem.local(labels.reshape(-1))
    mined = SparseRows(
        place,
        jnp.where(here, gradients.of_mined.reshape(-1), 0),
        jnp.arange(n + 1, dtype=jnp.int32) * count,
    )
    positives = _positive_block(problem, gradients.of_positive)
    blocks = (mined, positives)

    of_queries = problem.shard.sum(sum(bag(problem.table.rows, block) for block in blocks))
    # Reads end here: every write below waits for `ok`, and so for them.
    ok = jnp.isfinite(loss) & jnp.all(jnp.isfinite(of_queries))
    touched = None
    if problem.ids is not None and mined.ids.shape[0] > problem.num_slots:
        touched = jnp.concatenate([problem.local(problem.ids)[0], positives.ids])
    table = row_tables.update_rows(
        problem.table,
        [(block, problem.queries) for block in blocks],
        optimizer=problem.row_optimizer,
        learning_rate=learning_rate,
        ok=ok,
        unit_norm=True,
        touched=touched,
    )
    bias = problem.bias
    if bias is not None:
        for block in blocks:
            bias = bias.at[block.ids].add(jnp.where(ok, -learning_rate * block.values, 0))
    return Result(table, bias, of_queries, loss, ok)


def _positive_block(problem: Problem, values: jax.Array) -> SparseRows:
    place, here = problem.local(problem.terms.ids)
    return SparseRows(place, jnp.where(here, values, 0), problem.terms.starts)


def by_products(
    problem: Problem,
    positive_scores: jax.Array,
    gradients: ScoreGradients,
    loss: jax.Array,
    dense: DenseLoss | None,
    learning_rate: jax.Array | float,
) -> Result:
    """Walks the sample in blocks: gradient of a block of scores, two products, rows updated.

    A block's rows are read, stepped and written before the next block is read; no slot stands
    in two blocks, so each row takes one step with its whole gradient.
    """
    of_positive = gradients.of_positive
    log_partition = None
    if dense is not None and dense.name != "bowl":
        extra, of_extra, log_partition = _before_walk(problem, positive_scores, dense)
        loss, of_positive = loss + extra, of_positive + of_extra

    # Positives outside the sample are no block's business: they are paired, as above.
    outside = jnp.where(problem.term_slots < 0, of_positive, 0)
    positives = _positive_block(problem, outside)
    of_queries = bag(problem.table.rows, positives)
    ok = jnp.all(jnp.isfinite(problem.queries)) & jnp.all(jnp.isfinite(of_queries))
    ok &= jnp.isfinite(loss) & jnp.all(jnp.isfinite(of_positive))

    plan = block_plan(_walk_length(problem), _BLOCK)

    def one_block(carry: tuple, start: jax.Array) -> tuple[tuple, None]:
        table, bias, of_queries, loss = carry
        rows, place, begin = _read(problem, table.rows, start, plan.size)
        gradient = jnp.zeros((problem.queries.shape[0], plan.size), jnp.float32)
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
        table = _write_block(problem, table, place, rows, of_rows, learning_rate, ok)
        if bias is not None:
            step = jnp.where(ok, -learning_rate * jnp.sum(gradient, axis=0), 0)
            bias = bias.at[place].add(step, mode="drop")
        return (table, bias, of_queries, loss), None

    starts = jnp.arange(plan.count, dtype=jnp.int32) * plan.size
    carry = (problem.table, problem.bias, of_queries, jnp.float32(0))
    (table, bias, of_queries, value), _ = lax.scan(one_block, carry, starts)

    if problem.ids is not None:
        table = row_tables.update_rows(
            table,
            [(positives, problem.queries)],
            optimizer=problem.row_optimizer,
            learning_rate=learning_rate,
            ok=ok,
            unit_norm=True,
        )
        if bias is not None:
            step = jnp.where(ok, -learning_rate * positives.values, 0)
            bias = bias.at[positives.ids].add(step)
    loss = loss + problem.shard.sum(value)
    return Result(table, bias, problem.shard.sum(of_queries), loss, ok & jnp.isfinite(loss))


def _walk_length(problem: Problem) -> int:
    """Slots that this shard walks: its own rows where all labels are negatives."""
    return problem.table.rows.shape[0] if problem.ids is None else problem.num_slots


def _read(
    problem: Problem, rows: jax.Array, start: jax.Array, size: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """`read_block`, with the block's first slot counted over all shards."""
    first = problem.shard.first_row
    block, place, begin = read_block(rows, problem.ids, start, size, first)
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

    def one_block(carry: jax.Array, start: jax.Array) -> tuple[jax.Array, None]:
        rows, place, begin = _read(problem, problem.table.rows, start, plan.size)
        scores = _masked_scores(problem, rows, place, begin, problem.bias)
        scores = _of_terms(problem, scores, begin)
        if dense.name == "softmax":
            scores = _with_log_weights(problem, scores, begin)
            return jnp.logaddexp(carry, jax.nn.logsumexp(scores, axis=1)), None
        return carry + jax.grad(
            lambda positive: jnp.sum(weights * jnp.sum(dense.value(positive, scores), axis=1))
        )(positive_scores), None

    starts = jnp.arange(plan.count, dtype=jnp.int32) * plan.size
    shard = problem.shard
    if dense.name == "softmax":
        rivals, _ = lax.scan(one_block, jnp.full(positive_scores.shape, MASKED), starts)
        if shard.axis_name is not None:
            top = shard.max(rivals)
            rivals = top + jnp.log(shard.sum(jnp.exp(rivals - top)))
        log_partition = jnp.logaddexp(positive_scores, rivals)
        loss = jnp.sum(weights * (log_partition - positive_scores))
        return loss, weights * jnp.expm1(positive_scores - log_partition), log_partition
    of_positive, _ = lax.scan(one_block, jnp.zeros_like(positive_scores), starts)
    return jnp.float32(0), shard.sum(of_positive), None


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
    new, total = row_tables.step_rows(
        RowTable(rows, old),
        gradient,
        optimizer=problem.row_optimizer,
        learning_rate=learning_rate,
        unit_norm=True,
    )
    finite = jnp.isfinite(jnp.sum(gradient, axis=1))
    place = jnp.where(ok & finite, place, table.rows.shape[0])
    if accumulator is not None:
        accumulator = accumulator.at[place].set(total, mode="drop")
    return RowTable(table.rows.at[place].set(new, mode="drop"), accumulator)

"""Counts of (relevant, irrelevant) label pairs that the scores put in order, for the AUC."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from snm.distributed.collectives import Shard
from snm.tables.table import SparseRows, entry_rows
from snm.topk.blocks import Masked, block_plan, read_block, score_block
from snm.topk.search import MASKED

__all__ = ["pairs_in_order"]


_BLOCK = 4096  # labels scored together: with 512 points 8 MB, as when the best are looked for


_COMPARED = 64  # relevant labels compared at a time with a block of their points' scores


def pairs_in_order(
    queries: jax.Array,
    table: jax.Array,
    relevant: SparseRows,
    left_out: Masked,
    *,
    shard: Shard,
    last: Masked | None = None,
    bias: jax.Array | None = None,
    compute_dtype: jnp.dtype = jnp.float32,
) -> jax.Array:
    """How many irrelevant labels each relevant one beats, times two; a tie counts once.

    Costs twice 2 n K dim floating-point operations and a comparison for each relevant label and
    each of the K; memory is a block of scores.

    Args:
      queries: float32 [n, dim], times the multiplier of the scores.
      table: float32 [N, dim], this shard's class rows.
      relevant: the relevant labels as an [n, K] block; entries past the last start are padding.
      left_out: pairs of row and label that are neither relevant nor irrelevant.
      shard: which labels the rows belong to.
      last: pairs of row and this shard's row whose labels come last, all tied.
      bias: float32 [N].
      compute_dtype: type of the factors of the product.

    Returns:
      int32 [entries], the same on every shard; for padding, anything.
    """
    num_rows = table.shape[0]
    plan = block_plan(num_rows, _BLOCK)
    starts = jnp.arange(plan.num_blocks, dtype=jnp.int32) * plan.size
    rows = entry_rows(relevant)
    entries = rows.shape[0]
    real = jnp.arange(entries) < relevant.starts[-1]
    place = relevant.ids - shard.first_row
    here = real & (place >= 0) & (place < num_rows)
    none = jnp.int32(num_rows + plan.size)  # a slot of no block
    masked = Masked(
        jnp.concatenate([rows, left_out.rows]),
        jnp.concatenate([jnp.where(here, place, none), left_out.slots - shard.first_row]),
    )

    def block(start: jax.Array, masked: Masked | None) -> tuple[jax.Array, jax.Array]:
        parts = read_block(table, None, start, plan.size, 0, shard.num_valid)
        scores = score_block(
            queries,
            *parts,
            num_rows=num_rows,
            masked=masked,
            bias=bias,
            compute_dtype=compute_dtype,
        )
        begin = parts[2]
        if last is not None:
            # Below all scores, but no lower than what counts as one: what is masked stays so.
            places = last.in_block(begin, plan.size)
            scores = scores.at[places].min(MASKED / 4, mode="drop")
        return scores, begin

    def own(found: jax.Array, start: jax.Array) -> tuple[jax.Array, None]:
        scores, begin = block(start, None)
        slot = place - begin
        score = scores[rows, jnp.clip(slot, 0, plan.size - 1)]
        inside = here & (slot >= 0) & (slot < plan.size) & (score > MASKED / 2)
        return jnp.where(inside, score, found), None

    found, _ = lax.scan(own, jnp.zeros(entries, queries.dtype), starts)
    found = shard.sum(jnp.where(here, found, 0))

    def beaten(count: jax.Array, start: jax.Array) -> tuple[jax.Array, None]:
        scores, _ = block(start, masked)
        scores = jnp.where(scores > MASKED / 2, scores, jnp.inf)  # beaten by none, tied with none

        def of_one(entry: tuple[jax.Array, jax.Array]) -> jax.Array:
            row, score = entry
            rivals = scores[row]
            below = jnp.sum(rivals < score, dtype=jnp.int32)
            return below + jnp.sum(rivals <= score, dtype=jnp.int32)

        return count + lax.map(of_one, (rows, found), batch_size=_COMPARED), None

    count, _ = lax.scan(beaten, jnp.zeros(entries, jnp.int32), starts)
    return shard.sum(count)

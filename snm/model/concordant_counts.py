"""Counts of concordant pairs, for the AUC: the relevant label scores above the irrelevant one."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from snm.distributed.collectives import Shard
from snm.distributed.mesh import ONE_DEVICE, Axes
from snm.head.spec import in_precision
from snm.losses.reductions import MASKED, unmasked
from snm.model.inference import dropped_labels, scaled_queries
from snm.model.model import Model, TrainState
from snm.tables.table import SparseRows, entry_rows
from snm.topk.blocks import LabelRows, Masked, block_columns, block_plan, score_block

__all__ = ["concordant_counts"]


_BLOCK = 4096  # labels scored together; for 512 points that is 8 MB, as in `topk.search`
_COMPARISON_BATCH = 64  # relevant labels compared with a block of scores at the same time


@in_precision
def concordant_counts(
    model: Model,
    state: TrainState,
    features: SparseRows,
    relevant: SparseRows,
    left_out: Masked,
    *,
    axes: Axes = ONE_DEVICE,
) -> jax.Array:
    """For each relevant label, twice the number of irrelevant labels with a lower score.

    A tie counts once, so the result is twice the number of concordant pairs plus the ties. The cost
    is 4 n K dim floating-point operations, one comparison of each relevant label with each of the K
    labels, and the memory of one block of scores.

    Args:
      model: the description; labels that `drop_seen` drops rank last and are tied.
      state: the parameters.
      features: of the n points, weighted.
      relevant: the relevant labels as an [n, K] block; entries past the last start are padding.
      left_out: pairs of row and label that are neither relevant nor irrelevant.
      axes: as in `train_step`; all devices have the same points.

    Returns:
      int32 [entries], the same on every shard; values of padding entries are undefined.
    """
    table = state.head.table.rows
    shard = Shard.of(table, model.spec.num_labels, axes.label)
    queries = scaled_queries(model, state, features, axes=axes)
    dropped = dropped_labels(model, features, shard)
    compute_dtype = jnp.dtype(model.spec.compute_dtype)
    num_rows = table.shape[0]
    labels = LabelRows(table, bias=state.head.bias, num_valid=shard.num_valid)
    plan = block_plan(num_rows, _BLOCK)
    starts = plan.starts
    rows = entry_rows(relevant)
    entries = rows.shape[0]
    real = jnp.arange(entries) < relevant.starts[-1]
    place = relevant.ids - shard.first_row
    here = real & (place >= 0) & (place < num_rows)
    none = jnp.int32(num_rows + plan.size)  # in no block
    masked = Masked(
        jnp.concatenate([rows, left_out.rows]),
        jnp.concatenate([jnp.where(here, place, none), left_out.slots - shard.first_row]),
    )

    def block(start: jax.Array, masked: Masked | None) -> tuple[jax.Array, jax.Array]:
        read = labels.block(start, plan.size)
        scores = score_block(queries, read, masked=masked, compute_dtype=compute_dtype)
        if dropped is not None:
            # Lower than any score, but above the values that mean masked.
            columns = block_columns(dropped.slots, read.begin, plan.size)
            scores = scores.at[dropped.rows, columns].min(MASKED / 4, mode="drop")
        return scores, read.begin

    def relevant_scores(found: jax.Array, start: jax.Array) -> tuple[jax.Array, None]:
        scores, begin = block(start, None)
        slot = place - begin
        score = scores[rows, jnp.clip(slot, 0, plan.size - 1)]
        inside = here & (slot >= 0) & (slot < plan.size) & unmasked(score)
        return jnp.where(inside, score, found), None

    found, _ = lax.scan(relevant_scores, jnp.zeros(entries, queries.dtype), starts)
    found = shard.sum(jnp.where(here, found, 0))

    def count_lower(count: jax.Array, start: jax.Array) -> tuple[jax.Array, None]:
        scores, _ = block(start, masked)
        scores = jnp.where(unmasked(scores), scores, jnp.inf)  # masked labels are never counted

        def count_one(entry: tuple[jax.Array, jax.Array]) -> jax.Array:
            row, score = entry
            irrelevant = scores[row]
            lower = jnp.sum(irrelevant < score, dtype=jnp.int32)
            return lower + jnp.sum(irrelevant <= score, dtype=jnp.int32)

        return count + lax.map(count_one, (rows, found), batch_size=_COMPARISON_BATCH), None

    count, _ = lax.scan(count_lower, jnp.zeros(entries, jnp.int32), starts)
    return shard.sum(count)

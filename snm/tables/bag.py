"""Embedding bags: weighted sums of table rows, a CPU and an accelerator form."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from snm.tables.rounding import as_float
from snm.tables.table import SparseRows, entry_rows

__all__ = ["embedding_bag", "embedding_bag_gather", "embedding_bag_loop"]


_UNROLL_SUM = 8  # entries a turn of the loop over a long row


_TOGETHER = 16  # entries that each row of a block takes at once


_ENOUGH = 0.06  # of these must be real, or a loop is quicker; 1 of 16 is, as in pairs of 17 a row


def embedding_bag(table: jax.Array, block: SparseRows) -> jax.Array:
    """Weighted sums of table rows: out[i] = sum over entries p of row i of value_p * table[id_p].

    Args:
      table: [N, dim] rows as a table keeps them.
      block: sparse [n, N] matrix.

    Returns:
      float32 [n, dim].
    """
    return lax.platform_dependent(
        table, block, cpu=embedding_bag_loop, default=embedding_bag_gather
    )


def embedding_bag_loop(table: jax.Array, block: SparseRows) -> jax.Array:
    """The CPU form of `embedding_bag`: each row is read where it is added, through the cache.

    As long as some rows in a hundred have entries left, all take sixteen at once in one fused
    operation, which the cores share; what is left of long rows is added by a loop, which one core
    runs. Either way a row's entries are added in their order.
    """
    ids, values, starts = block
    n, dim = starts.shape[0] - 1, table.shape[1]
    if ids.shape[0] == 0:
        return jnp.zeros((n, dim), values.dtype)
    begin, end = starts[:-1], starts[1:]

    def enough_left(carry: tuple[jax.Array, jax.Array]) -> jax.Array:
        left = jnp.clip(end - begin - carry[0], 0, _TOGETHER)
        return jnp.sum(left) > _ENOUGH * _TOGETHER * n

    def all_rows(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        done, out = carry
        for u in range(_TOGETHER):
            place = begin + done + u
            # A row that has no more repeats its last, which is in the cache, with the value 0.
            entry = jnp.maximum(jnp.minimum(place, end - 1), 0)
            value = jnp.where(place < end, values[entry], 0)
            rows = as_float(table.at[ids[entry]].get(mode="promise_in_bounds"))
            out += value[:, None] * rows
        return done + _TOGETHER, out

    def one_row(i: jax.Array, out: jax.Array) -> jax.Array:
        def some_entries(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            p, total = carry
            for u in range(_UNROLL_SUM):
                entry = jnp.minimum(p + u, end[i] - 1)
                value = jnp.where(p + u < end[i], values[entry], 0)
                row = lax.dynamic_slice(table, (ids[entry], 0), (1, dim))
                total += value * as_float(row)
            return p + _UNROLL_SUM, total

        start = (begin[i] + done, lax.dynamic_slice(out, (i, 0), (1, dim)))
        _, total = lax.while_loop(lambda carry: carry[0] < end[i], some_entries, start)
        return lax.dynamic_update_slice(out, total, (i, 0))

    start = (jnp.int32(0), jnp.zeros((n, dim), values.dtype))
    done, out = lax.while_loop(enough_left, all_rows, start)
    # A row without entries repeated another's last; 0 times a NaN there would spoil it.
    out = jnp.where((begin < end)[:, None], out, 0)
    last = jnp.where(jnp.max(end - begin) > done, n, 0)
    return lax.fori_loop(0, last, one_row, out)


def embedding_bag_gather(table: jax.Array, block: SparseRows) -> jax.Array:
    """The accelerator form of `embedding_bag`: gathers all rows, then sums them by segment."""
    terms = block.values[:, None] * as_float(table[block.ids])
    n = block.starts.shape[0] - 1
    return jax.ops.segment_sum(terms, entry_rows(block), n, indices_are_sorted=True)

"""Computes embedding bags: weighted sums of table rows.

A table has up to millions of rows, of which a batch reads a few thousand. The sum reads only the
rows of the entries, in O(entries) time.

CPU and accelerators need different code. On a CPU, a loop over entries that moves one row at a time
through the cache is several times faster than a gather that first writes all rows to memory. On an
accelerator the same loop would run on one thread. `by_platform` selects the form.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from snm.machine.platform import by_platform
from snm.tables.access import element_at, row_at, rows_at, set_row
from snm.tables.rounding import as_float
from snm.tables.table import SparseRows, entry_rows

__all__ = ["embedding_bag", "embedding_bag_gather", "embedding_bag_loop"]


_UNROLL_SUM = 8  # entries per iteration of the loop over one long row
_VECTOR_ENTRIES = 16  # entries that all rows of a block add in one fused operation
# The smallest fraction of real entries at which the fused operation is faster than the loop. It
# must include 1 in 16, the fraction in the second pass over blocks of 17 entries per row.
_MIN_FILL = 0.06


def embedding_bag(table: jax.Array, block: SparseRows) -> jax.Array:
    """Weighted sums of table rows: out[i] = sum over entries p of row i of value_p * table[id_p].

    Args:
      table: [N, dim] rows in their storage type: float32 or the uint16 bits of bfloat16; or the
        uint8 [N, 4 + dim] of `snm.tables.int8`.
      block: sparse [n, N] matrix.

    Returns:
      float32 [n, dim].
    """
    return by_platform(table, block, cpu=embedding_bag_loop, default=embedding_bag_gather)


def embedding_bag_loop(table: jax.Array, block: SparseRows) -> jax.Array:
    """The CPU form of `embedding_bag`: adds each table row as it is read, through the cache.

    While enough rows of the block have entries left, one fused operation adds the next 16 entries
    of all rows, on all cores. A loop on one core then adds the rest of the long rows. In both cases
    the entries of a row are added in order.
    """
    ids, values, starts = block
    n, zero = starts.shape[0] - 1, jnp.zeros((), values.dtype)
    dim = jax.eval_shape(as_float, table).shape[1]
    if ids.shape[0] == 0:
        return jnp.zeros((n, dim), values.dtype)
    begin, end = starts[:-1], starts[1:]

    def enough_left(carry: tuple[jax.Array, jax.Array]) -> jax.Array:
        left = jnp.clip(end - begin - carry[0], 0, _VECTOR_ENTRIES)
        return jnp.sum(left) > _MIN_FILL * _VECTOR_ENTRIES * n

    def all_rows(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        done, out = carry
        position = done + begin[:, None] + jnp.arange(_VECTOR_ENTRIES)[None]
        # A row without further entries repeats its last entry, which is in the cache, with value 0.
        entry = jnp.maximum(jnp.minimum(position, end[:, None] - 1), 0)
        value = jnp.where(position < end[:, None], rows_at(values, entry), 0)
        table_ids = rows_at(ids, entry)
        for u in range(_VECTOR_ENTRIES):
            rows = as_float(rows_at(table, lax.index_in_dim(table_ids, u, 1, keepdims=False)))
            out += lax.slice_in_dim(value, u, u + 1, axis=1) * rows
        return done + _VECTOR_ENTRIES, out

    def one_row(i: jax.Array, out: jax.Array) -> jax.Array:
        def add_entries(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            p, total = carry
            for u in range(_UNROLL_SUM):
                entry = lax.min(p + u, stop - 1)
                value = lax.select(p + u < stop, element_at(values, entry), zero)
                total += value * as_float(row_at(table, element_at(ids, entry)))
            return p + _UNROLL_SUM, total

        stop = element_at(end, i)
        start = (element_at(begin, i) + done, row_at(out, i))
        _, total = lax.while_loop(lambda carry: carry[0] < stop, add_entries, start)
        return set_row(out, total, i)

    start = (jnp.int32(0), jnp.zeros((n, dim), values.dtype))
    done, out = lax.while_loop(enough_left, all_rows, start)
    # An empty row repeated an entry of another row, and 0 * NaN would be NaN.
    out = jnp.where((begin < end)[:, None], out, 0)
    last = jnp.where(jnp.max(end - begin) > done, n, 0)
    return lax.fori_loop(0, last, one_row, out)


def embedding_bag_gather(table: jax.Array, block: SparseRows) -> jax.Array:
    """The accelerator form of `embedding_bag`: gathers all rows, then sums each segment."""
    terms = block.values[:, None] * as_float(table[block.ids])
    n = block.starts.shape[0] - 1
    return jax.ops.segment_sum(terms, entry_rows(block), n, indices_are_sorted=True)

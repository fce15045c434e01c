"""Inner products of table rows and vectors, at the entries of a sparse block only.

A step needs three products with a sparse block: an embedding bag reads and sums rows
(`block @ table`), an update writes rows (`block.T @ vectors`), and this module computes
`vectors @ table.T` at the entries of the block.

On a CPU the entries are processed in chunks. A gather of all rows would first write tens of
megabytes to memory. The allocator returns them to the system after each call, and the next call
spends most of its time on fresh memory pages.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from snm.machine.platform import by_platform
from snm.tables.access import rows_at
from snm.tables.rounding import as_float
from snm.tables.table import SparseRows, entry_rows

__all__ = ["entry_products"]

_CHUNK = 256
"""Entries per chunk on a CPU. With rows of 512, their rows and vectors take one mebibyte."""


def entry_products(table: jax.Array, block: SparseRows, vectors: jax.Array) -> jax.Array:
    """The inner product of the table row and the vector of each entry of a block.

    Args:
      table: [N, dim] rows in their storage type.
      block: sparse [n, N] matrix; its values are not used.
      vectors: float32 [n, dim].

    Returns:
      float32 [entries]: `table[id_p] @ vectors[i]` for entry p of row i. Values of padding entries
      are arbitrary, but finite if the table and the vectors are.
    """
    return by_platform(table, block, vectors, cpu=_products_in_chunks, default=_products_by_gather)


def _products_in_chunks(table: jax.Array, block: SparseRows, vectors: jax.Array) -> jax.Array:
    entries = block.ids.shape[0]
    size = min(_CHUNK, entries)
    rows = entry_rows(block)

    def one_chunk(i: jax.Array, out: jax.Array) -> jax.Array:
        start = jnp.minimum(i * size, entries - size)  # the last chunk may overlap the one before
        table_ids = lax.dynamic_slice(block.ids, (start,), (size,))
        vector_ids = lax.dynamic_slice(rows, (start,), (size,))
        products = _products(rows_at(table, table_ids), rows_at(vectors, vector_ids))
        return lax.dynamic_update_slice(out, products, (start,))

    if entries == 0:
        return jnp.zeros(0, vectors.dtype)
    num_chunks = (block.starts[-1] + size - 1) // size
    return lax.fori_loop(0, num_chunks, one_chunk, jnp.zeros(entries, vectors.dtype))


def _products_by_gather(table: jax.Array, block: SparseRows, vectors: jax.Array) -> jax.Array:
    return _products(table[block.ids], vectors[entry_rows(block)])


def _products(rows: jax.Array, vectors: jax.Array) -> jax.Array:
    return jnp.sum(vectors * as_float(rows), axis=-1)

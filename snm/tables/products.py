"""Products of the entries of a sparse block: of the table row that an entry names, and a vector.

The third of the forms that a step needs: an embedding bag reads rows by a block and sums them
(`block @ table`), an update writes them (`block.T @ vectors`), and this one takes
`table @ vectors.T` at the block's entries only.

On a CPU some entries are taken at a time. A gather of all rows would write them to memory first,
where, with the vectors, they fill tens of megabytes. An allocator gives those back to the system
after each call, and most of the time of the next call goes to fresh pages.
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

_TOGETHER = 256
"""On a CPU: entries at once. With rows of 512, they and their vectors take one mebibyte."""


def entry_products(table: jax.Array, block: SparseRows, vectors: jax.Array) -> jax.Array:
    """The inner product of each entry's table row with the vector of its row of the block.

    Args:
      table: [N, dim] rows in their storage type.
      block: sparse [n, N] matrix; its values are not used.
      vectors: float32 [n, dim].

    Returns:
      float32 [entries]: `table[id_p] @ vectors[i]` for entry p of row i. Those of padding mean
      nothing, and are finite if the table and the vectors are.
    """
    return by_platform(table, block, vectors, cpu=_some_at_a_time, default=_all_at_once)


def _some_at_a_time(table: jax.Array, block: SparseRows, vectors: jax.Array) -> jax.Array:
    entries = block.ids.shape[0]
    size = min(_TOGETHER, entries)
    rows = entry_rows(block)

    def next_entries(i: jax.Array, out: jax.Array) -> jax.Array:
        start = jnp.minimum(i * size, entries - size)  # the last ones may overlap those before
        some = lax.dynamic_slice(block.ids, (start,), (size,))
        their = lax.dynamic_slice(rows, (start,), (size,))
        products = _products(rows_at(table, some), rows_at(vectors, their))
        return lax.dynamic_update_slice(out, products, (start,))

    if entries == 0:
        return jnp.zeros(0, vectors.dtype)
    turns = (block.starts[-1] + size - 1) // size
    return lax.fori_loop(0, turns, next_entries, jnp.zeros(entries, vectors.dtype))


def _all_at_once(table: jax.Array, block: SparseRows, vectors: jax.Array) -> jax.Array:
    return _products(table[block.ids], vectors[entry_rows(block)])


def _products(rows: jax.Array, vectors: jax.Array) -> jax.Array:
    return jnp.sum(vectors * as_float(rows), axis=-1)

"""Row tables, and weighted sums of their rows.

A table of features or of classes has up to millions of rows, of which a step touches a few
thousand. A sum reads the named rows and costs O(entries), never O(rows).

CPU and accelerators want opposite code. A loop over entries moves one row at a time through
the cache and is several times faster on a CPU than a gather that writes all rows out first; on
an accelerator the same loop would run one thread. `jax.lax.platform_dependent` picks.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from snm.tables.rounding import storage, to_nearest

__all__ = ["RowTable", "SparseRows", "entry_rows", "normalize", "random_rows"]

_RANDOM_ROWS = 1 << 16  # made at once: 128 MB of 512 numbers each


class SparseRows(NamedTuple):
    """A sparse [n, table rows] matrix in CSR form: row i holds entries starts[i]:starts[i + 1].

    Entries past `starts[-1]` are padding: their ids must be valid row numbers, their values 0.

    Attributes:
      ids: int32 [entries], row numbers of a table.
      values: float32 [entries].
      starts: int32 [n + 1], non-decreasing.
    """

    ids: jax.Array
    values: jax.Array
    starts: jax.Array


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["rows", "accumulator"], meta_fields=[]
)
@dataclasses.dataclass(frozen=True)
class RowTable:
    """Rows and the state of their optimiser.

    Attributes:
      rows: [N, dim], float32 or, as uint16, the bits of bfloat16; see `snm.tables.rounding`.
      accumulator: float32 [N], the row-wise Adagrad sum of mean squared gradients, or None.
    """

    rows: jax.Array
    accumulator: jax.Array | None = None


def normalize(x: jax.Array) -> jax.Array:
    """Scale the last axis to unit length; a zero vector stays zero, and its gradient finite.

    `x / norm(x)` has a NaN gradient at zero, which an example without features, or one whose
    ReLU units are all dead, would send into every row that it touches.
    """
    square = jnp.sum(x * x, axis=-1, keepdims=True)
    # A floor under the square would be finite too, but hand on gradients times 1e19 at zero.
    return x * lax.rsqrt(jnp.where(square > jnp.finfo(x.dtype).tiny, square, 1))


def random_rows(
    key: jax.Array,
    count: int,
    dim: int,
    *,
    length: float = 1.0,
    part: tuple[jax.Array, int] | None = None,
    dtype: str = "float32",
) -> jax.Array:
    """Rows uniform on a sphere; `key` is consumed.

    They are made in blocks: normal numbers for a whole table of millions of rows take three times
    the table's memory beside it.

    Args:
      key: a random key.
      count: rows of the whole table.
      dim: numbers a row.
      length: of each row.
      part: (i, parts) for the i-th of so many equal ranges of rows; zeros where it passes the end.
      dtype: float32 or bfloat16, to the nearest.

    Returns:
      [count, dim], or [ceil(count / parts), dim], as a table keeps them.
    """
    size = min(count, _RANDOM_ROWS)

    def block(key: jax.Array) -> jax.Array:
        rows = normalize(jax.random.normal(key, (size, dim), jnp.float32)) * length
        return to_nearest(rows, storage(dtype))

    def of_number(number: jax.Array) -> jax.Array:
        return block(key if size == count else jax.random.fold_in(key, number))

    def fill(number: jax.Array, rows: jax.Array) -> jax.Array:
        start = jnp.minimum(number * size, count - size)
        return lax.dynamic_update_slice(rows, of_number(number), (start, 0))

    blocks = -(-count // size)
    if part is None:
        if blocks == 1:
            return block(key)
        return lax.fori_loop(0, blocks, fill, jnp.zeros((count, dim), storage(dtype)))

    num = -(-count // part[1])
    first = part[0] * num

    def fill_part(number: jax.Array, rows: jax.Array) -> jax.Array:
        # The last block begins early, so that it ends with the table, and overrules the one before.
        begin = jnp.minimum(number * size, count - size)
        place = first + jnp.arange(num) - begin
        made = of_number(number).at[place].get(mode="clip")
        return jnp.where(((place >= 0) & (place < size))[:, None], made, rows)

    last = jnp.where(first + num > count - size, blocks - 1, (first + num - 1) // size)
    start = jnp.minimum(first // size, blocks)
    return lax.fori_loop(start, last + 1, fill_part, jnp.zeros((num, dim), storage(dtype)))


def entry_rows(block: SparseRows) -> jax.Array:
    """The row that each entry belongs to, int32 [entries]; padding counts to the last row."""
    n = block.starts.shape[0] - 1
    return jnp.repeat(
        jnp.arange(n, dtype=jnp.int32),
        jnp.diff(block.starts.at[-1].set(block.ids.shape[0])),
        total_repeat_length=block.ids.shape[0],
    )

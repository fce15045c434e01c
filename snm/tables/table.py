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

from snm.tables.rounding import as_float, storage, to_nearest

__all__ = [
    "RowTable",
    "SparseRows",
    "bag",
    "bag_gather",
    "bag_loop",
    "entry_rows",
    "normalize",
    "random_rows",
]

_RANDOM_ROWS = 1 << 16  # made at once: 128 MB of 512 numbers each
_UNROLL_SUM = 8  # entries a turn of the loop over a long row
_TOGETHER = 16  # entries that each row of a block takes at once
_ENOUGH = 0.06  # of these must be real, or a loop is quicker; 1 of 16 is, as in pairs of 17 a row


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


def bag(table: jax.Array, block: SparseRows) -> jax.Array:
    """Weighted sums of table rows: out[i] = sum over entries p of row i of value_p * table[id_p].

    Args:
      table: [N, dim] rows as a table keeps them.
      block: sparse [n, N] matrix.

    Returns:
      float32 [n, dim].
    """
    return lax.platform_dependent(table, block, cpu=bag_loop, default=bag_gather)


def bag_loop(table: jax.Array, block: SparseRows) -> jax.Array:
    """`bag` as a CPU likes it: rows of the table through the cache, each read where it is added.

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


def bag_gather(table: jax.Array, block: SparseRows) -> jax.Array:
    """`bag` as an accelerator likes it: all rows written out, then added up."""
    terms = block.values[:, None] * as_float(table[block.ids])
    n = block.starts.shape[0] - 1
    return jax.ops.segment_sum(terms, entry_rows(block), n, indices_are_sorted=True)


def entry_rows(block: SparseRows) -> jax.Array:
    """The row that each entry belongs to, int32 [entries]; padding counts to the last row."""
    n = block.starts.shape[0] - 1
    return jnp.repeat(
        jnp.arange(n, dtype=jnp.int32),
        jnp.diff(block.starts.at[-1].set(block.ids.shape[0])),
        total_repeat_length=block.ids.shape[0],
    )

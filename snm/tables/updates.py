"""Updates of the rows that a batch touched, in place, at a cost of O(entries).

Gradients exist for the named rows only, and steps go into the donated buffer. In place is a
promise that XLA keeps only where every read of a table comes before its first write *by data
dependency*; otherwise it copies the whole table. Callers get this by passing `ok`, which depends
on everything that was read, and bounds the loops that write.

As in `snm.tables.table`, CPU and accelerators each have their form. Tables narrower than float32
use the path of the row rules, which add up all gradients of a row before they step it: a row is
then rounded once a step, and not once an entry.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax import lax

from snm.tables.optimizers import has_accumulator, step_rows
from snm.tables.rounding import rounded_rows
from snm.tables.table import RowTable, SparseRows, entry_rows, normalize

__all__ = ["add_scatter", "update_rows"]

_UNROLL_ADD = 2  # entries a turn of the updating loop, which writes as much as it reads
_PROJECT_BLOCK = 256  # rows brought back to unit length at once

Gradient = tuple[SparseRows, jax.Array]
"""A sparse [n, N] block and float [n, dim] vectors: the table's gradient is block.T @ vectors."""


def update_rows(
    table: RowTable,
    gradients: Sequence[Gradient],
    *,
    optimizer: str,
    learning_rate: jax.Array | float,
    ok: jax.Array | bool = True,
    unit_norm: bool = False,
    touched: jax.Array | None = None,
    noise: jax.Array | None = None,
) -> RowTable:
    """Step the rows that the gradients name, and no other; equal to the dense gradient's step.

    Args:
      table: the table; donate its buffers, and let `ok` depend on all that was read from them.
      gradients: the table's gradient as a sum of `block.T @ vectors`; a row may be named often.
      optimizer: `sgd`, or a name of `ROW_RULES`.
      learning_rate: scalar.
      ok: bool scalar; where False nothing is written.
      unit_norm: scale the touched rows back to unit length after the step (projected SGD).
      touched: int32 ids that hold every named row, where the caller knows a shorter list than
        the blocks' own; projecting a unit row again changes nothing but its rounding.
      noise: uint32 scalar that the rounding of tables narrower than float32 follows from, another
        at every step; not used for float32.

    Returns:
      The table after the step.
    """
    gradients = [(block, vectors) for block, vectors in gradients if block.ids.shape[0]]
    if not gradients:
        return table
    ok = jnp.asarray(ok)
    if has_accumulator(optimizer) or table.rows.dtype == jnp.uint16:
        # Their sorted entries visit each row once.
        return _row_by_row(table, gradients, learning_rate, ok, unit_norm, optimizer, noise)
    return _sgd(table, gradients, learning_rate, ok, unit_norm, touched)


def _sgd(
    table: RowTable,
    gradients: Sequence[Gradient],
    learning_rate: jax.Array | float,
    ok: jax.Array,
    unit_norm: bool,
    touched: jax.Array | None,
) -> RowTable:
    # Linear in the gradient, so entries of the same row need not be added up first.
    rows = table.rows
    for block, vectors in gradients:
        steps = vectors * -jnp.asarray(learning_rate, vectors.dtype)
        rows = lax.platform_dependent(rows, block, steps, ok, cpu=_add_loop, default=add_scatter)
    if unit_norm:
        lists = [(block.ids, block.starts[-1]) for block, _ in gradients]
        if touched is not None:
            lists = [(touched, jnp.int32(touched.shape[0]))]
        for ids, length in lists:
            count = jnp.where(ok, length, 0)
            rows = lax.platform_dependent(
                rows, ids, count, cpu=_project_loop, default=_project_scatter
            )
    return RowTable(rows, table.accumulator)


def _add_loop(rows: jax.Array, block: SparseRows, steps: jax.Array, ok: jax.Array) -> jax.Array:
    ids, values, starts = block
    dim = rows.shape[1]
    if ids.shape[0] == 0:
        return rows

    def one_row(i: jax.Array, rows: jax.Array) -> jax.Array:
        end = starts[i + 1]
        step = lax.dynamic_slice(steps, (i, 0), (1, dim))

        def some_entries(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            p, rows = carry
            for u in range(_UNROLL_ADD):
                entry = jnp.minimum(p + u, end - 1)
                value = jnp.where(p + u < end, values[entry], 0)
                row = lax.dynamic_slice(rows, (ids[entry], 0), (1, dim)) + value * step
                rows = lax.dynamic_update_slice(rows, row, (ids[entry], 0))
            return p + _UNROLL_ADD, rows

        start = (starts[i], rows)
        return lax.while_loop(lambda carry: carry[0] < end, some_entries, start)[1]

    return lax.fori_loop(0, jnp.where(ok, starts.shape[0] - 1, 0), one_row, rows)


def add_scatter(rows: jax.Array, block: SparseRows, steps: jax.Array, ok: jax.Array) -> jax.Array:
    """The sum rows + block.T @ steps by one scattered add, or `rows` itself where not `ok`."""
    # Past the table, not times 0: 0 * inf is no number, and -0.0 + 0 is another number.
    ids = jnp.where(ok, block.ids, rows.shape[0])
    return rows.at[ids].add(block.values[:, None] * steps[entry_rows(block)], mode="drop")


def _project_loop(rows: jax.Array, ids: jax.Array, count: jax.Array) -> jax.Array:
    """Some rows at once, so that the square roots take both cores and no loop of their own."""
    block = min(_PROJECT_BLOCK, ids.shape[0])

    def some(i: jax.Array, rows: jax.Array) -> jax.Array:
        start = jnp.minimum(i * block, ids.shape[0] - block)  # the last block may overlap
        named = lax.dynamic_slice(ids, (start,), (block,))
        named = jnp.where(start + jnp.arange(block) < count, named, rows.shape[0])
        return rows.at[named].set(normalize(rows.at[named].get(mode="clip")), mode="drop")

    return lax.fori_loop(0, (count + block - 1) // block, some, rows)


def _project_scatter(rows: jax.Array, ids: jax.Array, count: jax.Array) -> jax.Array:
    out_of_table = rows.shape[0]
    ids = jnp.where(jnp.arange(ids.shape[0]) < count, ids, out_of_table)
    return rows.at[ids].set(normalize(rows[ids]), mode="drop")


def _row_by_row(
    table: RowTable,
    gradients: Sequence[Gradient],
    learning_rate: jax.Array | float,
    ok: jax.Array,
    unit_norm: bool,
    optimizer: str,
    noise: jax.Array | None,
) -> RowTable:
    ids, values, places = _sorted_entries(gradients, table.rows.shape[0])
    vectors = jnp.concatenate([vectors for _, vectors in gradients])

    def stepped(
        named: jax.Array, rows: jax.Array, total: jax.Array | None, gradient: jax.Array
    ) -> tuple[jax.Array, jax.Array | None]:
        new, total = step_rows(
            RowTable(rows, total),
            gradient,
            optimizer=optimizer,
            learning_rate=learning_rate,
            unit_norm=unit_norm,
        )
        return rounded_rows(new, table.rows.dtype, named, noise), total

    cpu = functools.partial(_segments_loop, stepped)
    default = functools.partial(_segments_scatter, stepped)
    return lax.platform_dependent(table, ids, values, places, vectors, ok, cpu=cpu, default=default)


def _sorted_entries(
    gradients: Sequence[Gradient], num_rows: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """All entries by ascending row: their ids, values, and places in the joined vectors."""
    ids, values, places, offset = [], [], [], 0
    for block, vectors in gradients:
        real = jnp.arange(block.ids.shape[0]) < block.starts[-1]
        ids.append(jnp.where(real & (block.values != 0), block.ids, num_rows))
        values.append(block.values)
        places.append(entry_rows(block) + offset)
        offset += vectors.shape[0]
    joined = (jnp.concatenate(ids), jnp.concatenate(values), jnp.concatenate(places))
    by_row, value, place = lax.sort(joined, num_keys=1, is_stable=True)
    return by_row, value, place


def _segments_loop(
    stepped: Callable,
    table: RowTable,
    ids: jax.Array,
    values: jax.Array,
    places: jax.Array,
    vectors: jax.Array,
    ok: jax.Array,
) -> RowTable:
    num_rows, dim = table.rows.shape
    last = ids.shape[0] - 1
    count = jnp.where(ok, jnp.searchsorted(ids, num_rows), 0).astype(jnp.int32)
    # Read ahead of the loop, where each row comes once: read within it, the totals feed two
    # writes that no dependency orders, and XLA copied all of them at every row.
    accumulator = table.accumulator
    old_totals = None if accumulator is None else accumulator.at[ids].get(mode="clip")

    def same_row(p: jax.Array, row: jax.Array) -> jax.Array:
        return (p < count) & (ids[jnp.minimum(p, last)] == row)

    Carry = tuple[jax.Array, jax.Array, jax.Array | None]  # place among the entries, rows, totals

    def one_row(carry: Carry) -> Carry:
        first, rows, totals = carry
        row = ids[first]

        def one_entry(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            p, gradient = carry
            vector = lax.dynamic_slice(vectors, (places[p], 0), (1, dim))
            return p + 1, gradient + values[p] * vector

        zero = jnp.zeros((1, dim), vectors.dtype)
        p, gradient = lax.while_loop(lambda c: same_row(c[0], row), one_entry, (first, zero))
        old = lax.dynamic_slice(rows, (row, 0), (1, dim))
        old_total = None if old_totals is None else lax.dynamic_slice(old_totals, (first,), (1,))
        new, total = stepped(row[None], old, old_total, gradient)
        rows = lax.dynamic_update_slice(rows, new, (row, 0))
        if totals is not None:
            totals = lax.dynamic_update_slice(totals, total, (row,))
        return p, rows, totals

    start = (jnp.int32(0), table.rows, accumulator)
    return RowTable(*lax.while_loop(lambda carry: carry[0] < count, one_row, start)[1:])


def _segments_scatter(
    stepped: Callable,
    table: RowTable,
    ids: jax.Array,
    values: jax.Array,
    places: jax.Array,
    vectors: jax.Array,
    ok: jax.Array,
) -> RowTable:
    entries, num_rows = ids.shape[0], table.rows.shape[0]
    segment = jnp.cumsum(jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.diff(ids) != 0]))
    gradient = jax.ops.segment_sum(
        values[:, None] * vectors[places], segment, entries, indices_are_sorted=True
    )
    # Segments past the last keep an id outside the table, which reads as 0 and drops writes.
    row = jnp.full(entries, num_rows, ids.dtype).at[segment].set(ids)
    row = jnp.where(ok, row, num_rows)
    old = table.rows.at[row].get(mode="fill", fill_value=0)
    accumulator = table.accumulator
    old_total = None if accumulator is None else accumulator.at[row].get(mode="fill", fill_value=0)
    new, total = stepped(row, old, old_total, gradient)
    if accumulator is not None:
        accumulator = accumulator.at[row].set(total, mode="drop")
    return RowTable(table.rows.at[row].set(new, mode="drop"), accumulator)

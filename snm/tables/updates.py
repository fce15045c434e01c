"""Updates the table rows that a batch touches, in place and in O(entries) time.

Only rows that occur in the batch have gradients, and the steps are written into the donated buffer.
XLA updates a buffer in place only if every read of the table comes before its first write *by data
dependency*; otherwise it copies the whole table. Callers ensure this with the argument `ok`: it
depends on everything that was read, and it limits the loops that write.

CPU and accelerators have separate implementations, as in `snm.tables.bag`. With a linear optimizer
and a float32 table, the entries are applied one by one. Otherwise they are sorted, and the
gradients of each row are summed first, so that a row is updated and rounded once per step instead
of once per entry.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from snm.machine.platform import by_platform
from snm.tables.access import element_at, row_at, rows_at, set_row
from snm.tables.optimizers import RowStep
from snm.tables.table import RowTable, SparseRows, entry_rows, normalize

__all__ = ["add_scatter", "update_rows"]

_UNROLL_ADD = 2  # entries per iteration of the update loop, which writes as much as it reads
_PROJECT_BLOCK = 256  # on a CPU: rows scaled to unit length at once; accelerators scale all at once

Gradient = tuple[SparseRows, jax.Array]
"""A sparse [n, N] block and float [n, dim] vectors; the table's gradient is block.T @ vectors."""


def update_rows(
    table: RowTable,
    gradients: Sequence[Gradient],
    step: RowStep,
    *,
    ok: jax.Array | bool = True,
    touched: jax.Array | None = None,
) -> RowTable:
    """Updates the rows that occur in the gradients.

    Equal to a step with the dense gradient of the table.

    Args:
      table: the table; donate its buffers, and make `ok` depend on everything read from them.
      gradients: the table's gradient as a sum of `block.T @ vectors`; a row may occur repeatedly.
      step: how each row moves by its gradient.
      ok: bool scalar; if False, nothing is written.
      touched: int32 ids that include all updated rows, for callers that have a shorter list than
        the ids of the blocks. Projecting a unit row again changes only its rounding.

    Returns:
      The table after the step.
    """
    gradients = [(block, vectors) for block, vectors in gradients if block.ids.shape[0]]
    if not gradients:
        return table
    ok = jnp.asarray(ok)
    if step.optimizer.linear and table.rows.dtype != jnp.uint16:
        return _update_by_entry(table, gradients, step, ok, touched)
    return _update_summed(table, gradients, step, ok)


def _update_by_entry(
    table: RowTable,
    gradients: Sequence[Gradient],
    step: RowStep,
    ok: jax.Array,
    touched: jax.Array | None,
) -> RowTable:
    """Applies the step of each entry separately; exact for linear optimizers."""
    rows = table.rows
    for block, vectors in gradients:
        steps = vectors * -jnp.asarray(step.learning_rate, vectors.dtype)
        rows = by_platform(rows, block, steps, ok, cpu=_add_loop, default=add_scatter)
    if step.unit_norm:
        lists = [(block.ids, block.starts[-1]) for block, _ in gradients]
        if touched is not None:
            lists = [(touched, jnp.int32(touched.shape[0]))]
        for ids, length in lists:
            count = jnp.where(ok, length, 0)
            rows = by_platform(rows, ids, count, cpu=_project_loop, default=_project_rows)
    return RowTable(rows, table.accumulator)


def _add_loop(rows: jax.Array, block: SparseRows, steps: jax.Array, ok: jax.Array) -> jax.Array:
    ids, values, starts = block
    zero = jnp.zeros((), values.dtype)
    if ids.shape[0] == 0:
        return rows

    def one_row(i: jax.Array, rows: jax.Array) -> jax.Array:
        end = element_at(starts, i + 1)
        step = row_at(steps, i)

        def add_entries(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            p, rows = carry
            for u in range(_UNROLL_ADD):
                entry = lax.min(p + u, end - 1)
                value = lax.select(p + u < end, element_at(values, entry), zero)
                row = element_at(ids, entry)
                rows = set_row(rows, row_at(rows, row) + value * step, row)
            return p + _UNROLL_ADD, rows

        start = (element_at(starts, i), rows)
        return lax.while_loop(lambda carry: carry[0] < end, add_entries, start)[1]

    return lax.fori_loop(0, jnp.where(ok, starts.shape[0] - 1, 0), one_row, rows)


def add_scatter(rows: jax.Array, block: SparseRows, steps: jax.Array, ok: jax.Array) -> jax.Array:
    """Returns rows + block.T @ steps by one scatter-add, or `rows` unchanged if not `ok`.

    Entries of value 0, such as padding and those of other shards, are dropped: all of them have the
    id of one row, and a GPU would add to it serially.
    """
    # Out-of-range ids, not a factor of 0: 0 * inf is NaN, and -0.0 + 0 changes the sign bit.
    ids = jnp.where(ok & (block.values != 0), block.ids, rows.shape[0])
    return rows.at[ids].add(block.values[:, None] * steps[entry_rows(block)], mode="drop")


def _project_loop(rows: jax.Array, ids: jax.Array, count: jax.Array) -> jax.Array:
    """Scales the first `count` rows of `ids` to unit length, a block at a time.

    A block keeps all cores busy; a loop over single rows would use one core.
    """
    block = min(_PROJECT_BLOCK, ids.shape[0])

    def one_block(i: jax.Array, rows: jax.Array) -> jax.Array:
        start = jnp.minimum(i * block, ids.shape[0] - block)  # the last block may overlap
        return _project_rows(rows, lax.dynamic_slice(ids, (start,), (block,)), count - start)

    return lax.fori_loop(0, (count + block - 1) // block, one_block, rows)


def _project_rows(rows: jax.Array, ids: jax.Array, count: jax.Array) -> jax.Array:
    """Scales the first `count` rows of `ids` to unit length, all at once."""
    written = jnp.where(jnp.arange(ids.shape[0]) < count, ids, rows.shape[0])
    return rows.at[written].set(normalize(rows_at(rows, ids)), mode="drop")


def _update_summed(
    table: RowTable, gradients: Sequence[Gradient], step: RowStep, ok: jax.Array
) -> RowTable:
    """Sums the gradients of each row, then updates and rounds it once."""
    entries = _SortedEntries.of(gradients, table.rows.shape[0])
    cpu = functools.partial(_segments_loop, step)
    default = functools.partial(_segments_scatter, step)
    return by_platform(table, entries, ok, cpu=cpu, default=default)


class _SortedEntries(NamedTuple):
    """The entries of all blocks, sorted by table row.

    Attributes:
      ids: int32 [entries], ascending; the number of table rows for padding and entries of value 0.
      values: float32 [entries].
      vector_rows: int32 [entries], rows of `vectors`.
      vectors: float32 [m, dim], of all gradients.
    """

    ids: jax.Array
    values: jax.Array
    vector_rows: jax.Array
    vectors: jax.Array

    @classmethod
    def of(cls, gradients: Sequence[Gradient], num_rows: int) -> _SortedEntries:
        ids, values, vector_rows, offset = [], [], [], 0
        for block, vectors in gradients:
            real = jnp.arange(block.ids.shape[0]) < block.starts[-1]
            ids.append(jnp.where(real & (block.values != 0), block.ids, num_rows))
            values.append(block.values)
            vector_rows.append(entry_rows(block) + offset)
            offset += vectors.shape[0]
        entries = [jnp.concatenate(parts) for parts in (ids, values, vector_rows)]
        row_ids, factors, places = lax.sort(entries, num_keys=1, is_stable=True)
        return cls(row_ids, factors, places, jnp.concatenate([v for _, v in gradients]))


def _segments_loop(
    step: RowStep, table: RowTable, entries: _SortedEntries, ok: jax.Array
) -> RowTable:
    ids, values, vector_rows, vectors = entries
    num_rows, dim = table.rows.shape
    last = ids.shape[0] - 1
    count = jnp.where(ok, jnp.searchsorted(ids, num_rows), 0).astype(jnp.int32)
    # Accumulators are read before the loop. Read inside it, they would feed two writes that no data
    # dependency orders, and XLA copies the whole array for every row.
    accumulator = table.accumulator
    old = None if accumulator is None else accumulator.at[ids].get(mode="clip")

    def same_row(p: jax.Array, row: jax.Array) -> jax.Array:
        return (p < count) & (element_at(ids, lax.min(p, jnp.int32(last))) == row)

    Carry = tuple[jax.Array, jax.Array, jax.Array | None]  # entry index, rows, accumulators

    def one_row(carry: Carry) -> Carry:
        first, rows, accumulators = carry
        row = element_at(ids, first)

        def one_entry(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            p, gradient = carry
            vector = row_at(vectors, element_at(vector_rows, p))
            return p + 1, gradient + element_at(values, p) * vector

        zero = jnp.zeros((1, dim), vectors.dtype)
        p, gradient = lax.while_loop(lambda c: same_row(c[0], row), one_entry, (first, zero))
        old_row = row_at(rows, row)
        old_sum = None if old is None else lax.dynamic_slice(old, (first,), (1,))
        new_row, new_sum = step.apply(old_row, old_sum, gradient, row[None])
        rows = set_row(rows, new_row, row)
        if accumulators is not None:
            assert new_sum is not None
            accumulators = lax.dynamic_update_slice(accumulators, new_sum, (row,))
        return p, rows, accumulators

    start = (jnp.int32(0), table.rows, accumulator)
    return RowTable(*lax.while_loop(lambda carry: carry[0] < count, one_row, start)[1:])


def _segments_scatter(
    step: RowStep, table: RowTable, entries: _SortedEntries, ok: jax.Array
) -> RowTable:
    ids, values, vector_rows, vectors = entries
    count, num_rows = ids.shape[0], table.rows.shape[0]
    segment = jnp.cumsum(jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.diff(ids) != 0]))
    gradient = jax.ops.segment_sum(
        values[:, None] * vectors[vector_rows], segment, count, indices_are_sorted=True
    )
    # Unused segments keep an id outside the table: reads of it give 0, writes to it are dropped.
    row = jnp.full(count, num_rows, ids.dtype).at[segment].set(ids)
    row = jnp.where(ok, row, num_rows)
    old = table.rows.at[row].get(mode="fill", fill_value=0)
    accumulator = table.accumulator
    old_sum = None if accumulator is None else accumulator.at[row].get(mode="fill", fill_value=0)
    new, new_sum = step.apply(old, old_sum, gradient, row)
    if accumulator is not None:
        accumulator = accumulator.at[row].set(new_sum, mode="drop")
    return RowTable(table.rows.at[row].set(new, mode="drop"), accumulator)

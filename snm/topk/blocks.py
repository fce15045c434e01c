"""Cuts the labels into blocks, reads the class rows of a block and computes its scores."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from snm.losses.reductions import MASKED
from snm.machine.platform import of_platform
from snm.tables.rounding import as_float

__all__ = ["Added", "Best", "BlockPlan", "Masked", "block_plan", "read_block", "score_block"]


WIDTH = 16  # slots of one fold; see `snm.topk.search`
_PIECE = 1024  # entries of `Added` that are looked at together
UNIT = {"cpu": WIDTH, "gpu": 128, "tpu": 128}
"""By platform: the size of a block is a multiple of this. The tiles of matrix products on
accelerators are 128 long, and XLA:GPU copies a block to pad it to a multiple."""


class Masked(NamedTuple):
    """(query, slot) pairs that must not be chosen: query `rows[e]` excludes slot `slots[e]`.

    Attributes:
      rows: int32 [E].
      slots: int32 [E]; a slot past the last masks nothing.
    """

    rows: jax.Array
    slots: jax.Array

    def in_block(self, begin: jax.Array, size: int) -> tuple[jax.Array, jax.Array]:
        """Indices into the scores of slots begin .. begin + size - 1; others are out of range."""
        return _in_block(self.rows, self.slots, begin, size)


class Added(NamedTuple):
    """What is added to scores: `values[e]` to that of query `rows[e]` and slot `slots[e]`.

    Attributes:
      rows: int32 [E].
      slots: int32 [E], ascending; a slot past the last adds nothing.
      values: float32 [E]; those of a repeated pair are summed.
    """

    rows: jax.Array
    slots: jax.Array
    values: jax.Array

    def added_to(self, scores: jax.Array, begin: jax.Array, *, on_cpu: bool) -> jax.Array:
        """The scores float32 [n, size] of slots begin .. begin + size - 1, with what is added.

        Blocks on a CPU are many and a scatter is a loop, so that each looks only at the pieces with
        entries of its own. An accelerator has few blocks.
        """
        if not on_cpu or self.slots.shape[0] <= _PIECE:
            return self._added_to(scores, begin)
        ends = jnp.stack([begin, begin + scores.shape[1]])
        first, last = jnp.searchsorted(self.slots, ends)
        whole = self._padded()

        def add_piece(piece: jax.Array, scores: jax.Array) -> jax.Array:
            own = (lax.dynamic_slice(x, (piece * _PIECE,), (_PIECE,)) for x in whole)
            return Added(*own)._added_to(scores, begin)

        return lax.fori_loop(first // _PIECE, -(-last // _PIECE), add_piece, scores)

    def _added_to(self, scores: jax.Array, begin: jax.Array) -> jax.Array:
        place = _in_block(self.rows, self.slots, begin, scores.shape[1])
        return scores.at[place].add(self.values, mode="drop")

    def _padded(self) -> Added:
        """To a multiple of `_PIECE`, with slots that are in no block."""
        more = (0, -self.slots.shape[0] % _PIECE)
        no_slot = jnp.iinfo(jnp.int32).max
        return Added(
            jnp.pad(self.rows, more),
            jnp.pad(self.slots, more, constant_values=no_slot),
            jnp.pad(self.values, more),
        )


def _in_block(
    rows: jax.Array, slots: jax.Array, begin: jax.Array, size: int
) -> tuple[jax.Array, jax.Array]:
    columns = slots - begin
    # A negative index would wrap around.
    return rows, jnp.where(columns < 0, size, columns)


class Best(NamedTuple):
    """The highest scores of each query.

    Attributes:
      scores: float32 [n, count], MASKED where fewer exist; non-increasing along the last axis
        unless the caller asked for no order.
      slots: int32 [n, count], indices into the sample, or table rows if there is no sample.
    """

    scores: jax.Array
    slots: jax.Array


class BlockPlan(NamedTuple):
    """A partition of the slots into blocks of `size`; the last block overlaps or is padded."""

    num_blocks: int
    size: int


def block_plan(num_slots: int, longest: int, unit: int | None = None) -> BlockPlan:
    """Plans blocks of equal size, about `longest` slots.

    Args:
      num_slots: to be cut.
      longest: slots of a block, about.
      unit: the size is a multiple of it; by default of `UNIT` for this platform.
    """
    unit = of_platform(UNIT) if unit is None else unit
    count = max(1, round(num_slots / longest))
    size = -(-num_slots // (count * unit)) * unit
    return BlockPlan(-(-num_slots // size), size)


def read_block(
    table: jax.Array,
    ids: jax.Array | None,
    start: jax.Array,
    size: int,
    first_row: jax.Array | int,
    num_valid: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Reads the class rows of the slots start .. start + size - 1.

    Args:
      table: [N, dim] in the storage type, the rows of labels first_row .. first_row + N - 1.
      ids: int32 [S], the label of each slot, or None if slot j is row j of the table.
      start: int32 scalar.
      size: slots to read, static.
      first_row: the label of the table's first row.
      num_valid: the number of table rows that belong to labels; None if all do.

    Returns:
      float32 [size, dim] rows; int32 [size], their indices in the table, N where the slot has no
      row here; and int32 scalar, the first slot of the block. This is before `start` if the last
      block would end past the table; slots that the block before it covers have index N.
    """
    num_rows = table.shape[0]
    valid = num_rows if num_valid is None else num_valid
    if ids is None:
        begin = jnp.clip(start, 0, max(num_rows - size, 0))
        if size > num_rows:
            table = jnp.pad(table, ((0, size - num_rows), (0, 0)))
        rows = as_float(lax.dynamic_slice_in_dim(table, begin, size))
        place = begin + jnp.arange(size, dtype=jnp.int32)
        return rows, jnp.where((place >= start) & (place < valid), place, num_rows), begin
    slots = start + jnp.arange(size, dtype=jnp.int32)
    place = ids.at[slots].get(mode="fill", fill_value=-1) - first_row
    place = jnp.where((place >= 0) & (place < valid), place, num_rows)
    return as_float(table.at[place].get(mode="clip")), place, start


def score_block(
    queries: jax.Array,
    rows: jax.Array,
    place: jax.Array,
    begin: jax.Array,
    *,
    num_rows: int,
    masked: Masked | None,
    bias: jax.Array | None,
    compute_dtype: jnp.dtype,
) -> jax.Array:
    """Scores a block from `read_block`; MASKED where the slot has no label or is excluded.

    Returns:
      float32 [n, size].
    """
    scores = score_rows(queries, rows, place, begin, masked, bias, compute_dtype)
    return jnp.where((place < num_rows)[None, :], scores, MASKED)


def score_rows(
    queries: jax.Array,
    rows: jax.Array,
    place: jax.Array,
    begin: jax.Array,
    masked: Masked | None,
    bias: jax.Array | None,
    compute_dtype: jnp.dtype,
    added: Added | None = None,
    *,
    on_cpu: bool = False,
) -> jax.Array:
    """`score_block` without masking the slots that have no label: their scores are undefined."""
    scores = lax.dot_general(
        queries.astype(compute_dtype),
        rows.astype(compute_dtype),
        (((1,), (1,)), ((), ())),
        preferred_element_type=jnp.float32,
    )
    if added is not None:
        scores = added.added_to(scores, begin, on_cpu=on_cpu)
    if masked is not None:
        scores = scores.at[masked.in_block(begin, rows.shape[0])].set(MASKED, mode="drop")
    if bias is not None:
        scores = scores + bias.at[place].get(mode="clip")[None, :]
    return scores

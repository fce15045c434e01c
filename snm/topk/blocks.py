"""Cuts the labels into blocks, reads the class rows of a block and computes its scores."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from snm.losses.reductions import MASKED
from snm.machine.platform import for_platform, platform
from snm.tables.rounding import as_float

__all__ = [
    "WIDTH",
    "Added",
    "Best",
    "Block",
    "BlockPlan",
    "LabelRows",
    "Masked",
    "block_columns",
    "block_plan",
    "score_block",
    "score_rows",
]


WIDTH = 16  # slots of one fold; see `snm.topk.search`
_PIECE = 1024  # entries of `Added` that are added together
_UNIT = {"cpu": WIDTH, "gpu": 128, "tpu": 128}
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


class Added(NamedTuple):
    """Values to add to scores: `values[e]` to the score of query `rows[e]` and slot `slots[e]`.

    Attributes:
      rows: int32 [E].
      slots: int32 [E], ascending; a slot past the last adds nothing.
      values: float32 [E]; those of a repeated pair are summed.
    """

    rows: jax.Array
    slots: jax.Array
    values: jax.Array

    def add_to(self, scores: jax.Array, begin: jax.Array) -> jax.Array:
        """Adds the values to float32 [n, size] scores of slots begin .. begin + size - 1.

        A CPU has many blocks, and its scatter is a loop over the entries. So each block reads only
        the pieces that contain entries of its own. An accelerator has few blocks.
        """
        if platform() != "cpu" or self.slots.shape[0] <= _PIECE:
            return self._scatter_add(scores, begin)
        ends = jnp.stack([begin, begin + scores.shape[1]])
        first, last = jnp.searchsorted(self.slots, ends)
        padded = self._padded()

        def add_piece(piece: jax.Array, scores: jax.Array) -> jax.Array:
            entries = (lax.dynamic_slice(x, (piece * _PIECE,), (_PIECE,)) for x in padded)
            return Added(*entries)._scatter_add(scores, begin)

        return lax.fori_loop(first // _PIECE, -(-last // _PIECE), add_piece, scores)

    def _scatter_add(self, scores: jax.Array, begin: jax.Array) -> jax.Array:
        columns = block_columns(self.slots, begin, scores.shape[1])
        return scores.at[self.rows, columns].add(self.values, mode="drop")

    def _padded(self) -> Added:
        """Pads the entries to a multiple of `_PIECE`, with slots that are in no block."""
        padding = (0, -self.slots.shape[0] % _PIECE)
        no_slot = jnp.iinfo(jnp.int32).max
        return Added(
            jnp.pad(self.rows, padding),
            jnp.pad(self.slots, padding, constant_values=no_slot),
            jnp.pad(self.values, padding),
        )


def block_columns(slots: jax.Array, begin: jax.Array, size: int) -> jax.Array:
    """The columns of slots in the scores of slots begin .. begin + size - 1.

    Columns of other slots are `size` or more: a negative index would wrap around.
    """
    columns = slots - begin
    return jnp.where(columns < 0, size, columns)


class Best(NamedTuple):
    """The highest scores of each query.

    Attributes:
      scores: float32 [n, count], MASKED where fewer exist; non-increasing along the last axis
        unless the caller asked for no order.
      slots: int32 [n, count], indices into the sample, or table rows if there is no sample.
    """

    scores: jax.Array
    slots: jax.Array

    @classmethod
    def none(cls, num_queries: int) -> Best:
        """The empty result: count is 0."""
        return cls(jnp.zeros((num_queries, 0)), jnp.zeros((num_queries, 0), jnp.int32))


class BlockPlan(NamedTuple):
    """A partition of the slots into blocks of `size`; the last block overlaps or is padded."""

    num_blocks: int
    size: int

    @property
    def starts(self) -> jax.Array:
        """int32 [num_blocks], the first slot of each block."""
        return jnp.arange(self.num_blocks, dtype=jnp.int32) * self.size


def block_plan(num_slots: int, longest: int) -> BlockPlan:
    """Plans blocks of equal size, about `longest` slots, for this platform.

    Args:
      num_slots: the slots to cut into blocks.
      longest: the number of slots in a block, approximately.
    """
    unit = for_platform(_UNIT)
    count = max(1, round(num_slots / longest))
    size = -(-num_slots // (count * unit)) * unit
    return BlockPlan(-(-num_slots // size), size)


class Block(NamedTuple):
    """The class rows and biases of a block of slots.

    Attributes:
      rows: float32 [size, dim].
      table_rows: int32 [size], their indices in the table; N where the slot has no row here.
      begin: int32 scalar, the first slot of the block.
      real: bool [size], whether the slot has a row here.
      bias: float32 [size], or None.
    """

    rows: jax.Array
    table_rows: jax.Array
    begin: jax.Array
    real: jax.Array
    bias: jax.Array | None


class LabelRows(NamedTuple):
    """Labels to score: the slots of a search, and the class rows that this shard has of them.

    Attributes:
      table: [N, dim] in the storage type, or bfloat16: the rows of labels first_row ..
        first_row + N - 1.
      ids: int32 [S] ascending, the label of each slot; None if slot j is row j of the table.
      bias: float32 [N] or None, added to the score of each label.
      first_row: the label of the table's first row.
      num_valid: the number of table rows that belong to labels; None if all do.
    """

    table: jax.Array
    ids: jax.Array | None = None
    bias: jax.Array | None = None
    first_row: jax.Array | int = 0
    num_valid: jax.Array | None = None

    @property
    def num_searched(self) -> int:
        """How many slots a search reads: S, or the N rows of the table if slots are rows."""
        return self.table.shape[0] if self.ids is None else self.ids.shape[0]

    def block(self, start: jax.Array, size: int) -> Block:
        """Reads the slots start .. start + size - 1.

        Where slots are rows, the block begins before `start` if it would end past the table; slots
        that the block before it covers count as without a row.
        """
        num_rows = self.table.shape[0]
        valid = num_rows if self.num_valid is None else self.num_valid
        if self.ids is None:
            table, begin = self.table, jnp.clip(start, 0, max(num_rows - size, 0))
            if size > num_rows:
                table = jnp.pad(table, ((0, size - num_rows), (0, 0)))
            rows = as_float(lax.dynamic_slice_in_dim(table, begin, size))
            table_rows = begin + jnp.arange(size, dtype=jnp.int32)
            real = (table_rows >= start) & (table_rows < valid)
            table_rows = jnp.where(real, table_rows, num_rows)
        else:
            begin = start
            slots = start + jnp.arange(size, dtype=jnp.int32)
            table_rows = self.ids.at[slots].get(mode="fill", fill_value=-1) - self.first_row
            real = (table_rows >= 0) & (table_rows < valid)
            table_rows = jnp.where(real, table_rows, num_rows)
            rows = as_float(self.table.at[table_rows].get(mode="clip"))
        bias = None if self.bias is None else self.bias.at[table_rows].get(mode="clip")
        return Block(rows, table_rows, begin, real, bias)


def score_block(
    queries: jax.Array,
    block: Block,
    *,
    masked: Masked | None = None,
    compute_dtype: jnp.dtype,
) -> jax.Array:
    """Scores a block: float32 [n, size]; MASKED where the slot has no row or is excluded."""
    scores = score_rows(queries, block, masked=masked, added=None, compute_dtype=compute_dtype)
    return jnp.where(block.real[None, :], scores, MASKED)


def score_rows(
    queries: jax.Array,
    block: Block,
    *,
    masked: Masked | None,
    added: Added | None,
    compute_dtype: jnp.dtype,
) -> jax.Array:
    """`score_block` without masking the slots that have no row: their scores are undefined."""
    scores = lax.dot_general(
        queries.astype(compute_dtype),
        block.rows.astype(compute_dtype),
        (((1,), (1,)), ((), ())),
        preferred_element_type=jnp.float32,
    )
    if added is not None:
        scores = added.add_to(scores, block.begin)
    if masked is not None:
        columns = block_columns(masked.slots, block.begin, block.rows.shape[0])
        scores = scores.at[masked.rows, columns].set(MASKED, mode="drop")
    if block.bias is not None:
        scores = scores + block.bias[None, :]
    return scores

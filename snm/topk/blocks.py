"""Blocks of labels: their layout, their rows, their scores."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from snm.tables.rounding import as_float
from snm.topk.bisection import MASKED

__all__ = ["Best", "BlockPlan", "Masked", "block_plan", "read_block", "score_block"]


WIDTH = 16  # labels a block maximum stands for


class Masked(NamedTuple):
    """Pairs that must not be chosen: row `rows[e]` may not choose slot `slots[e]`.

    Attributes:
      rows: int32 [E].
      slots: int32 [E]; a slot past the last masks nothing.
    """

    rows: jax.Array
    slots: jax.Array

    def in_block(self, begin: jax.Array, size: int) -> tuple[jax.Array, jax.Array]:
        """Rows and columns in the scores of slots begin .. begin + size - 1, or past the end."""
        columns = self.slots - begin
        # A negative index would count from the end.
        return self.rows, jnp.where(columns < 0, size, columns)


class Best(NamedTuple):
    """The highest scores of each row.

    Attributes:
      scores: float32 [n, count], MASKED where fewer exist; non-increasing along the last axis, but
        where the caller needs no order.
      slots: int32 [n, count], places in the sample, or label rows where there is no sample.
    """

    scores: jax.Array
    slots: jax.Array


class BlockPlan(NamedTuple):
    """How S slots are cut: blocks of `size` slots, the last one overlapping or padded."""

    num_blocks: int
    size: int


def block_plan(num_slots: int, longest: int) -> BlockPlan:
    """Blocks of about `longest` slots, equal in size, a multiple of 16 so that they fold evenly."""
    count = max(1, round(num_slots / longest))
    size = -(-num_slots // (count * WIDTH)) * WIDTH
    return BlockPlan(-(-num_slots // size), size)


def read_block(
    table: jax.Array,
    ids: jax.Array | None,
    start: jax.Array,
    size: int,
    first_row: jax.Array | int,
    num_valid: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Rows of the slots start .. start + size - 1.

    Args:
      table: [N, dim] as a table keeps them, the rows first_row .. first_row + N - 1 of all labels.
      ids: int32 [S], the label of each slot, or None where slot j is row j of the table.
      start: int32 scalar.
      size: slots to read, static.
      first_row: the label that the table's first row belongs to.
      num_valid: how many of its rows belong to labels; None where all do.

    Returns:
      float32 [size, dim] rows, int32 [size] table rows (N where the slot holds none of them), and
      int32 scalar, the slot that the block begins with: earlier than `start` where the last
      block of a table would pass its end. The slots read twice come out as N.
    """
    num_rows = table.shape[0]
    valid = num_rows if num_valid is None else num_valid
    if ids is None:
        begin = jnp.clip(start, 0, max(num_rows - size, 0))
        if size > num_rows:
            table = jnp.pad(table, ((0, size - num_rows), (0, 0)))
        rows = as_float(lax.dynamic_slice(table, (begin, 0), (size, table.shape[1])))
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
    """Scores of a block from `read_block`, MASKED where the slot is no label or is masked.

    Returns:
      float32 [n, size].
    """
    scores = _scores_of_rows(queries, rows, place, begin, masked, bias, compute_dtype)
    return jnp.where((place < num_rows)[None, :], scores, MASKED)


def _scores_of_rows(
    queries: jax.Array,
    rows: jax.Array,
    place: jax.Array,
    begin: jax.Array,
    masked: Masked | None,
    bias: jax.Array | None,
    compute_dtype: jnp.dtype,
) -> jax.Array:
    """`score_block`, but for slots that hold no label: what they get means nothing."""
    scores = lax.dot_general(
        queries.astype(compute_dtype),
        rows.astype(compute_dtype),
        (((1,), (1,)), ((), ())),
        preferred_element_type=jnp.float32,
    )
    if masked is not None:
        scores = scores.at[masked.in_block(begin, rows.shape[0])].set(MASKED, mode="drop")
    if bias is not None:
        scores = scores + bias.at[place].get(mode="clip")[None, :]
    return scores

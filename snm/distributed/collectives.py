"""Which part of the tables and of the batch a device holds, and how the parts agree.

A mesh has two axes. `label` cuts the rows of the class table into equal ranges, `data` the points
of a batch; the feature table's rows are cut over the longer one
(`snm.distributed.mesh.feature_axis`). Devices exchange the scores and ids of the best and sums of
queries along `label`, queries and the entries of updates along `data`, and sums of feature rows
along the axis that these are cut over. They never exchange a score matrix or anything as long as a
table.

With no axes (one device) every method hands back what it was given.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from snm.tables.bag import embedding_bag
from snm.tables.table import SparseRows
from snm.topk.blocks import Best

__all__ = ["Shard"]


class Shard(NamedTuple):
    """This device's place.

    Attributes:
      first_row: the row of the whole table that the first of this device's rows is.
      num_valid: how many of its rows are rows of the whole table; the rest only makes the parts
        equal. None where all are.
      axis_name: the mesh axis that rows are cut over, or None.
      data_axis: the mesh axis that points are cut over, or None; feature rows may be cut over it
        too.
    """

    first_row: jax.Array | int
    num_valid: jax.Array | None
    axis_name: str | None
    data_axis: str | None

    @classmethod
    def of(
        cls, rows: jax.Array, total: int, axis_name: str | None, data_axis: str | None = None
    ) -> Shard:
        """The place of a device that holds `rows` of a table of `total` rows."""
        if axis_name is None:
            return cls(0, None, None, data_axis)
        first = lax.axis_index(axis_name) * rows.shape[0]
        return cls(first, jnp.clip(total - first, 0, rows.shape[0]), axis_name, data_axis)

    @property
    def alone(self) -> bool:
        """Whether this device holds all rows and all points."""
        return self.axis_name is None and self.data_axis is None

    @property
    def parts(self) -> int:
        """Parts that the rows are cut into."""
        return 1 if self.axis_name is None else lax.axis_size(self.axis_name)

    @property
    def data_parts(self) -> int:
        """Parts that the batch is cut into."""
        return 1 if self.data_axis is None else lax.axis_size(self.data_axis)

    def sum(self, x: jax.Array) -> jax.Array:
        """The sum over the parts of the rows."""
        return x if self.axis_name is None else lax.psum(x, self.axis_name)

    def max(self, x: jax.Array) -> jax.Array:
        """The maximum over the parts of the rows."""
        return x if self.axis_name is None else lax.pmax(x, self.axis_name)

    def data_sum(self, x: jax.Array) -> jax.Array:
        """The sum over the parts of the batch."""
        return x if self.data_axis is None else lax.psum(x, self.data_axis)

    def all(self, x: jax.Array) -> jax.Array:
        """Whether x, a bool, holds on every device."""
        axes = tuple(dict.fromkeys(filter(None, (self.axis_name, self.data_axis))))
        return lax.pmin(x.astype(jnp.int32), axes) > 0 if axes else x

    def gather(self, x: jax.Array) -> jax.Array:
        """The parts of the batch behind each other: [n, ...] becomes [parts * n, ...]."""
        return x if self.data_axis is None else lax.all_gather(x, self.data_axis, tiled=True)

    def gather_block(self, block: SparseRows) -> SparseRows:
        """A block of the whole batch; the padding of a part counts to its last row, as value 0."""
        if self.data_axis is None:
            return block
        entries = block.ids.shape[0]
        parts = lax.axis_size(self.data_axis)
        starts = lax.all_gather(block.starts[:-1], self.data_axis)
        starts = starts + jnp.arange(parts, dtype=starts.dtype)[:, None] * entries
        return SparseRows(
            self.gather(block.ids),
            self.gather(block.values),
            jnp.append(starts.reshape(-1), jnp.asarray(parts * entries, starts.dtype)),
        )

    def own_draws(self, drawn: jax.Array, starts: jax.Array) -> jax.Array:
        """Of what was drawn for the entries of the whole batch, that for this part's.

        An entry's draw is found by its place among all entries, so that a cut batch draws the same.

        Args:
          drawn: [parts * entries, ...], the same on every device.
          starts: int32 [n + 1], of this part's block.

        Returns:
          [entries, ...]; for padding, anything.
        """
        if self.data_axis is None:
            return drawn
        totals = lax.all_gather(starts[-1], self.data_axis)
        before = jnp.arange(self.data_parts) < lax.axis_index(self.data_axis)
        first = jnp.sum(jnp.where(before, totals, 0))
        return lax.dynamic_slice_in_dim(drawn, first, drawn.shape[0] // self.data_parts)

    def merge_topk(self, best: Best, count: int) -> Best:
        """The best of all parts of the rows, from the best of each: parts * count numbers a point.

        Ties go to the lowest slot, as the parts come in order.
        """
        if self.axis_name is None:
            return best
        scores = lax.all_gather(best.scores, self.axis_name, axis=1, tiled=True)
        slots = lax.all_gather(best.slots, self.axis_name, axis=1, tiled=True)
        scores, place = lax.top_k(scores, min(count, scores.shape[1]))
        return Best(scores, jnp.take_along_axis(slots, place, axis=1))

    def local(self, ids: jax.Array, num_rows: int) -> tuple[jax.Array, jax.Array]:
        """Rows of this device's part that hold `ids` (0 where none), and whether one does."""
        place = ids - self.first_row
        here = (place >= 0) & (place < num_rows)
        return jnp.where(here, place, 0), here

    def own_entries(self, block: SparseRows, num_rows: int) -> SparseRows:
        """A block of this device's rows; entries of others keep their place with the value 0."""
        if self.axis_name is None:
            return block
        place, here = self.local(block.ids, num_rows)
        return SparseRows(place, jnp.where(here, block.values, 0), block.starts)

    def of_batch(self, block: SparseRows, num_rows: int) -> SparseRows:
        """`own_entries` of the block of the whole batch."""
        return self.own_entries(self.gather_block(block), num_rows)

    def row_sums(
        self, rows: jax.Array, block: SparseRows, of_batch: SparseRows | None = None
    ) -> jax.Array:
        """`embedding_bag` for this device's examples over a table whose rows are sharded.

        Args:
          rows: [N, dim], those that this device holds.
          block: sparse [n, total] block of its points.
          of_batch: `of_batch` of the block, where the caller has it.

        Returns:
          float32 [n, dim].
        """
        num_rows = rows.shape[0]
        if self.axis_name is None or self.axis_name != self.data_axis:
            return self.sum(embedding_bag(rows, self.own_entries(block, num_rows)))
        # The devices along the axis have other points too: each adds up what its rows give to the
        # points of all, and of the parts' sums each gets those of its own points.
        of_batch = self.of_batch(block, num_rows) if of_batch is None else of_batch
        return lax.psum_scatter(embedding_bag(rows, of_batch), self.axis_name, tiled=True)

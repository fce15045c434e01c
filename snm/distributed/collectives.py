"""Collectives of a sharded step: which rows and examples a device holds, and how results combine.

A mesh has two axes. `label` shards the rows of the class table into equal ranges, `data` shards the
examples of a batch. The rows of the feature table are sharded over the larger axis
(`snm.distributed.mesh.feature_axis`). Devices exchange top-k scores and ids and sums of queries
along `label`, queries and the entries of updates along `data`, and sums of feature rows along the
axis that shards them. They never exchange a score matrix or anything of the size of a table.

Without axes (one device) nothing is exchanged.
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
    """The shard of a table and of the batch that this device holds.

    Attributes:
      first_row: the row of the whole table at which this shard starts.
      num_valid: the number of rows of this shard that exist in the whole table; the others are
        padding that makes the shards equal. None if all exist.
      row_axis: the mesh axis that shards the rows, or None.
      data_axis: the mesh axis that shards the examples, or None; it may shard the feature rows too.
    """

    first_row: jax.Array | int
    num_valid: jax.Array | None
    row_axis: str | None
    data_axis: str | None

    @classmethod
    def of(
        cls, rows: jax.Array, total: int, row_axis: str | None, data_axis: str | None = None
    ) -> Shard:
        """The shard of a device that holds `rows` of a table of `total` rows."""
        if row_axis is None:
            return cls(0, None, None, data_axis)
        first = lax.axis_index(row_axis) * rows.shape[0]
        return cls(first, jnp.clip(total - first, 0, rows.shape[0]), row_axis, data_axis)

    @property
    def is_single_device(self) -> bool:
        """Whether this device holds all rows and all examples."""
        return self.row_axis is None and self.data_axis is None

    @property
    def parts(self) -> int:
        """The number of shards of the rows."""
        return 1 if self.row_axis is None else lax.axis_size(self.row_axis)

    @property
    def data_parts(self) -> int:
        """The number of shards of the batch."""
        return 1 if self.data_axis is None else lax.axis_size(self.data_axis)

    def sum(self, x: jax.Array) -> jax.Array:
        """The sum over the shards of the rows."""
        return x if self.row_axis is None else lax.psum(x, self.row_axis)

    def max(self, x: jax.Array) -> jax.Array:
        """The maximum over the shards of the rows."""
        return x if self.row_axis is None else lax.pmax(x, self.row_axis)

    def data_sum(self, x: jax.Array) -> jax.Array:
        """The sum over the shards of the batch."""
        return x if self.data_axis is None else lax.psum(x, self.data_axis)

    def all(self, x: jax.Array) -> jax.Array:
        """Whether the bool x is true on every device."""
        axes = tuple(dict.fromkeys(filter(None, (self.row_axis, self.data_axis))))
        return lax.pmin(x.astype(jnp.int32), axes) > 0 if axes else x

    def gather(self, x: jax.Array) -> jax.Array:
        """Concatenates the shards of the batch: [n, ...] becomes [data_parts * n, ...]."""
        return x if self.data_axis is None else lax.all_gather(x, self.data_axis, tiled=True)

    def gather_block(self, block: SparseRows) -> SparseRows:
        """The block of the whole batch; padding of a shard becomes 0 entries of its last row."""
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

    def local_draws(self, drawn: jax.Array, starts: jax.Array) -> jax.Array:
        """Selects this shard's random numbers from those drawn for the whole batch.

        An entry's number depends on its index in the whole batch, so that the draws do not depend
        on how the batch is sharded.

        Args:
          drawn: [data_parts * entries, ...], the same on every device.
          starts: int32 [n + 1], the starts of this shard's block.

        Returns:
          [entries, ...]; arbitrary for padding.
        """
        if self.data_axis is None:
            return drawn
        totals = lax.all_gather(starts[-1], self.data_axis)
        before = jnp.arange(self.data_parts) < lax.axis_index(self.data_axis)
        first = jnp.sum(jnp.where(before, totals, 0))
        return lax.dynamic_slice_in_dim(drawn, first, drawn.shape[0] // self.data_parts)

    def merge_topk(self, best: Best, count: int) -> Best:
        """The top k of all shards of the rows, from the top k of each shard.

        Each device receives parts * count scores and slots per example. Ties go to the lowest slot,
        because the shards are concatenated in order.
        """
        if self.row_axis is None:
            return best
        scores = lax.all_gather(best.scores, self.row_axis, axis=1, tiled=True)
        slots = lax.all_gather(best.slots, self.row_axis, axis=1, tiled=True)
        scores, place = lax.top_k(scores, min(count, scores.shape[1]))
        return Best(scores, jnp.take_along_axis(slots, place, axis=1))

    def local(self, ids: jax.Array, num_rows: int) -> tuple[jax.Array, jax.Array]:
        """The local rows of `ids`, and whether they are in this shard; 0 for other rows."""
        rows = ids - self.first_row
        is_local = (rows >= 0) & (rows < num_rows)
        return jnp.where(is_local, rows, 0), is_local

    def local_entries(self, block: SparseRows, num_rows: int) -> SparseRows:
        """The block with ids local to this shard; entries of other shards' rows get the value 0."""
        if self.row_axis is None:
            return block
        rows, is_local = self.local(block.ids, num_rows)
        return SparseRows(rows, jnp.where(is_local, block.values, 0), block.starts)

    def batch_entries(self, block: SparseRows, num_rows: int) -> SparseRows:
        """`local_entries` of `gather_block`."""
        return self.local_entries(self.gather_block(block), num_rows)

    def row_sums(
        self, rows: jax.Array, block: SparseRows, batch_entries: SparseRows | None = None
    ) -> jax.Array:
        """`embedding_bag` for this device's examples over a table whose rows are sharded.

        Args:
          rows: [N, dim], this device's shard.
          block: sparse [n, total] block of its examples.
          batch_entries: the result of `batch_entries`, if the caller has it already.

        Returns:
          float32 [n, dim].
        """
        num_rows = rows.shape[0]
        if self.row_axis is None or self.row_axis != self.data_axis:
            return self.sum(embedding_bag(rows, self.local_entries(block, num_rows)))
        # The axis shards both rows and examples: each device sums its rows for all examples, and
        # the reduce-scatter returns to each device the totals of its own examples.
        batch_entries = (
            self.batch_entries(block, num_rows) if batch_entries is None else batch_entries
        )
        return lax.psum_scatter(embedding_bag(rows, batch_entries), self.row_axis, tiled=True)

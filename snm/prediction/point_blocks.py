"""Blocks of points, and the votes of a memory for them, padded to few shapes.

Each shape needs a compiled program of its own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
from jax.sharding import Mesh
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.batches.csr_blocks import make_block
from snm.batches.device_parts import local_data_parts, spread_points
from snm.data.weighting import Weighting
from snm.distributed.mesh import DATA
from snm.system.numbers import stable_argsort
from snm.tables.table import SparseRows
from snm.topk.blocks import Added

__all__ = ["ROWS", "Blocks", "concatenate_blocks", "place_shared", "yield_delayed"]

T = TypeVar("T")

ROWS = 512
"""Points per block; the scores of a block fit into a CPU's cache."""

_MIN_VOTES_PER_POINT = 1024  # room for votes per point in the smallest compiled shape
# Sizes of blocks for few points, per data shard of a mesh. There is no size 1: a CPU rounds the
# product with a single vector differently.
_SMALL_SIZES = (8, 64)


class Blocks(NamedTuple):
    """Splits points into blocks of equal size.

    Attributes:
      weighting: of the features.
      rows: points of a block; the last block is padded, so that all share one program.
      entries: the fewest feature entries of a padded block, for the same reason.
      mesh: its `data` axis splits a block into parts; None is one device.
    """

    weighting: Weighting
    rows: int
    entries: int
    mesh: Mesh | None = None

    @property
    def parts(self) -> int:
        """The number of parts of a block."""
        return 1 if self.mesh is None else self.mesh.shape[DATA]

    @property
    def rows_per_part(self) -> int:
        """The number of points of a part."""
        return math.ceil(self.rows / self.parts)

    @property
    def points_with_room(self) -> int:
        """Points of a part for whose votes there is room from the start; more add room later."""
        return min(self.rows_per_part, _SMALL_SIZES[-1])

    def for_points(self, count: int) -> Blocks:
        """Smaller blocks for `count` points if these are few: padding costs as much as points."""
        sizes = (size * self.parts for size in _SMALL_SIZES if count <= size * self.parts)
        return self._replace(rows=min(self.rows, next(sizes, self.rows)))

    def split(self, features: csr_matrix) -> Iterator[tuple[int, SparseRows]]:
        """Blocks of weighted points, each with the number of its points.

        Args:
          features: CSR [n, d], not weighted.
        """
        entries = self.most_entries(features)
        part_edges = np.arange(self.parts + 1) * self.rows_per_part
        # A process makes the parts of its own devices.
        mine = range(1) if self.mesh is None else local_data_parts(self.mesh)
        for first in range(0, features.shape[0], int(part_edges[-1])):
            edges = np.minimum(part_edges + first, features.shape[0]).tolist()
            blocks = [self._block(features, edges[part], edges[part + 1], entries) for part in mine]
            block = blocks[0]
            if self.parts > 1:
                block = jax.tree.map(lambda *leaves: np.stack(leaves), *blocks)
            yield edges[-1] - first, spread_points(block, self.mesh)

    def most_entries(self, features: csr_matrix) -> int:
        """The number of feature entries that each part of a block is padded to."""
        starts = self.weighting.starts(features)
        part_starts = np.append(starts[:: self.rows_per_part], starts[-1])
        return max(int(np.diff(part_starts).max()), self.entries)

    def _block(self, features: csr_matrix, first: int, last: int, entries: int) -> SparseRows:
        weighted = self.weighting.apply(features[first:last], first_row=first)
        rows = np.full(self.rows_per_part, -1, np.int64)
        rows[: last - first] = np.arange(last - first)
        return make_block(weighted, rows, entries)

    def pad_votes(self, votes: csr_matrix, min_size: int) -> Added:
        """The votes of a memory for a block, sorted by slot and padded, to add to the scores.

        Args:
          votes: CSR [count, K] of the points of the block; K is the number of slots.
          min_size: the padded size for the block before; for the first one, room for the votes of
            `points_with_room` points.
        """
        count = votes.shape[0]
        edges = np.minimum(np.arange(self.parts + 1) * self.rows_per_part, count)
        # Most blocks share one program: the size is the largest of 1024 votes a point (of at most
        # 64 points), `min_size`, and the next power of four for the votes. Padding has the slot K,
        # which is no label.
        least = _MIN_VOTES_PER_POINT * self.points_with_room
        most = int(np.diff(votes.indptr[edges]).max())
        size = max(least, min_size, 1 << (most.bit_length() + 1) // 2 * 2)
        rows = np.zeros((self.parts, size), np.int32)
        slots = np.full((self.parts, size), votes.shape[1], np.int32)
        values = np.zeros((self.parts, size), np.float32)
        for part, (first, last) in enumerate(itertools.pairwise(edges)):
            entries = votes[first:last].tocoo()
            # `tocsc` would sort too, but it makes arrays of all K slots.
            order = stable_argsort(entries.col.astype(np.uint32))
            real = slice(entries.nnz)
            rows[part, real] = entries.row[order]
            slots[part, real] = entries.col[order]
            values[part, real] = entries.data[order]
        arrays = tuple(x if self.parts > 1 else x[0] for x in (rows, slots, values))
        if self.mesh is None:
            return Added(*jax.device_put(arrays))
        return Added(*spread_points(arrays, self.mesh))


def place_shared(array: NDArray, mesh: Mesh | None) -> Any:
    """Copies an array that all points share to the devices that hold a block of points."""
    if mesh is None:
        return jax.device_put(array)
    if mesh.shape[DATA] > 1:
        array = np.tile(array, (len(local_data_parts(mesh)), 1))
    return spread_points(array, mesh)


def yield_delayed(blocks: Iterable[T]) -> Iterator[T]:
    """Yields each block after the next one is started.

    So the device scores a block while the host makes the next one and searches its neighbours.
    """
    previous: list[T] = []
    for block in blocks:
        yield from previous
        previous = [block]
    yield from previous


def concatenate_blocks(
    blocks: Iterable[tuple[NDArray, NDArray]], k: int
) -> tuple[NDArray, NDArray]:
    """Concatenates blocks: int32 [n, k] labels and float32 [n, k] scores; n may be 0."""
    all_blocks = list(blocks)
    if not all_blocks:
        return np.zeros((0, k), np.int32), np.zeros((0, k), np.float32)
    labels, scores = zip(*all_blocks, strict=True)
    return np.concatenate(labels), np.concatenate(scores)

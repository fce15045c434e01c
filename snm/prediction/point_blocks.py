"""Points in blocks, and what a memory adds to their scores, in few sizes: each is a program."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
from jax.sharding import Mesh
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.batches.csr_blocks import block_of
from snm.batches.device_parts import local_data_parts, spread_points
from snm.data.weighting import Weighting
from snm.distributed.mesh import DATA
from snm.distributed.processes import replicate
from snm.machine.sorting import stable_argsort
from snm.tables.table import SparseRows
from snm.topk.blocks import Added

__all__ = ["Blocks", "beside_points", "one_ahead", "stacked"]

T = TypeVar("T")

_LABELS_OF_POINT = 1024  # of a point's neighbours, in the smallest compiled shape
# Points of a block where there are no more of them, on each part of a mesh; few sizes, for each is
# a program. A point alone would be a product with a vector, which a CPU rounds in another way.
_FEW = (8, 64)


class Blocks(NamedTuple):
    """The sizes of blocks.

    Attributes:
      weighting: of the features.
      rows: points of a block; the last block is padded, so that one program serves all.
      entries: the fewest feature entries of a padded block, for the same reason.
      mesh: its `data` axis cuts a block into parts; None is one device.
    """

    weighting: Weighting
    rows: int
    entries: int
    mesh: Mesh | None = None

    @property
    def parts(self) -> int:
        """The parts of a block."""
        return 1 if self.mesh is None else self.mesh.shape[DATA]

    @property
    def each(self) -> int:
        """Points of a part."""
        return -(-self.rows // self.parts)

    def for_points(self, count: int) -> Blocks:
        """Smaller blocks where there are few points: padding costs as much as points do."""
        sizes = (few * self.parts for few in _FEW if count <= few * self.parts)
        return self._replace(rows=min(self.rows, next(sizes, self.rows)))

    def of(self, features: csr_matrix) -> Iterator[tuple[int, SparseRows]]:
        """Blocks of weighted points, each with the number of its points.

        Args:
          features: CSR [n, d], not weighted.
        """
        length, most = self.parts * self.each, self.most_entries(features)
        for first in range(0, features.shape[0], length):
            last = min(first + length, features.shape[0])
            if self.parts > 1:
                yield last - first, self._sharded(features, first, last, most)
                continue
            block = self._block(features, first, last, most)
            yield last - first, block if self.mesh is None else replicate(block, self.mesh)

    def most_entries(self, features: csr_matrix) -> int:
        """The room for entries that each part of a block of these points has."""
        starts = self.weighting.starts(features)
        edges = np.append(starts[:: self.each], starts[-1])
        return max(int(np.diff(edges).max()), self.entries)

    def _block(self, features: csr_matrix, first: int, last: int, entries: int) -> SparseRows:
        weighted = self.weighting.apply(features[first:last], first_row=first)
        padded = np.full(self.each, -1, np.int64)
        padded[: last - first] = np.arange(last - first)
        return block_of(weighted, padded, entries)

    def _sharded(self, features: csr_matrix, first: int, last: int, most: int) -> SparseRows:
        """A block in equally long parts; made for this process's devices."""
        assert self.mesh is not None
        edges = np.minimum(np.arange(self.parts + 1) * self.each + first, last)
        ranges = [(int(edges[part]), int(edges[part + 1])) for part in local_data_parts(self.mesh)]
        blocks = [self._block(features, *ends, most) for ends in ranges]
        parts = jax.tree.map(lambda *leaves: np.stack(leaves), *blocks)
        return spread_points(parts, self.parts, self.mesh)

    def added(self, found: csr_matrix, at_least: int) -> Added:
        """What a memory adds to the scores of a block.

        Args:
          found: CSR [count, K] of the points of the block, K the number of slots.
          at_least: entries that the block before had room for.
        """
        count = found.shape[0]
        cuts = np.minimum(np.arange(self.parts + 1) * self.each, count)
        # Padded with slots of no label, so that one program serves most blocks of a size: to a
        # thousand labels a point, of large blocks and where that is too few to a power of four, and
        # to the size of the block before. The last block is often smaller.
        least, most = _LABELS_OF_POINT * min(self.each, 64), int(np.diff(found.indptr[cuts]).max())
        size = max(least, at_least, 1 << (most.bit_length() + 1) // 2 * 2)
        rows = np.zeros((self.parts, size), np.int32)
        slots = np.full((self.parts, size), found.shape[1], np.int32)
        values = np.zeros((self.parts, size), np.float32)
        for part, (begin, end) in enumerate(itertools.pairwise(cuts)):
            entries = found[begin:end].tocoo()
            # By slot; `tocsc` would make arrays of all K, of a point with a few hundred.
            order = stable_argsort(entries.col.astype(np.uint32))
            own = slice(entries.nnz)
            rows[part, own] = entries.row[order]
            slots[part, own] = entries.col[order]
            values[part, own] = entries.data[order]
        arrays = tuple(x if self.parts > 1 else x[0] for x in (rows, slots, values))
        if self.mesh is None:
            return Added(*jax.device_put(arrays))
        return Added(*spread_points(arrays, self.parts, self.mesh))


def beside_points(array: NDArray, mesh: Mesh | None) -> Any:
    """An array that all points share, placed beside a block of points."""
    if mesh is None:
        return jax.device_put(array)
    parts = mesh.shape[DATA]
    if parts > 1:
        array = np.tile(array, (len(local_data_parts(mesh)), 1))
    return spread_points(array, parts, mesh)


def one_ahead(blocks: Iterable[T]) -> Iterator[T]:
    """The blocks, each when the next one is made.

    The device scores a block while the host makes the next one and searches its neighbours.
    """
    before: list[T] = []
    for block in blocks:
        yield from before
        before = [block]
    yield from before


def stacked(blocks: Iterable[tuple[NDArray, NDArray]], k: int) -> tuple[NDArray, NDArray]:
    """Concatenates blocks: int32 [n, k] labels and float32 [n, k] scores; n may be 0."""
    found = list(blocks)
    if not found:
        return np.zeros((0, k), np.int32), np.zeros((0, k), np.float32)
    labels, scores = zip(*found, strict=True)
    return np.concatenate(labels), np.concatenate(scores)

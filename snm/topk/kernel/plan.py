"""Tiles of the kernel, and whether it moves less memory than scores that are written and read."""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

from snm.topk.kernel.excluded import BITS, num_words

__all__ = [
    "LANES",
    "VMEM",
    "Sizes",
    "Tiles",
    "choose_tiles",
    "kernel_bytes",
    "moves_fewer_bytes",
    "product_bytes",
]

_MAX_COUNT = 256
"""The largest count that is tested."""
LANES = 128
"""Numbers of a row of a TPU's registers."""
VMEM = 32 << 20
"""Bytes of a TPU's on-chip memory that the kernel may take."""

_NUMBER = 4  # bytes of a float32 and of an int32


class Tiles(NamedTuple):
    """The sizes of the tiles of the kernel.

    Attributes:
      queries: queries of a block.
      slots: slots whose scores are computed together.
      searched: slots that are searched together.
    """

    queries: int
    slots: int
    searched: int = LANES


@dataclasses.dataclass(frozen=True)
class Sizes:
    """The sizes of a search.

    Attributes:
      queries: n.
      num_slots: S.
      dim: the length of a row.
      count: how many slots are kept.
      row_bytes: the bytes of one number of a row.
    """

    queries: int
    num_slots: int
    dim: int
    count: int
    row_bytes: int

    @property
    def total_row_bytes(self) -> int:
        """Bytes of all rows."""
        return self.num_slots * self.dim * self.row_bytes

    @property
    def total_query_bytes(self) -> int:
        """Bytes of all queries."""
        return _NUMBER * self.queries * self.dim


def choose_tiles(sizes: Sizes) -> Tiles | None:
    """The largest tiles that fit into VMEM; None if none fit. Each block of queries reads all rows.

    Args:
      sizes: the sizes of the search.
    """
    if not 1 <= sizes.count <= min(_MAX_COUNT, sizes.num_slots) or not sizes.queries:
        return None
    padded = -(-sizes.queries // LANES) * LANES
    for block in (512, 256, 128):
        for tile in (512, 256):
            if block <= padded and _vmem(sizes, block, tile) <= VMEM:
                return Tiles(block, tile)
    return None


def _vmem(sizes: Sizes, block: int, tile: int) -> int:
    """Bytes of VMEM, somewhat more than Mosaic takes: each operand twice, for the next one."""
    dim, count, row_bytes = sizes.dim, sizes.count, sizes.row_bytes
    operands = _NUMBER * block * dim + row_bytes * tile * dim + _NUMBER * 8 * tile
    operands += _NUMBER * block * (tile // BITS + 2 * count)
    scores, best = _NUMBER * tile * block, 2 * _NUMBER * (count + 8) * block
    factors = _NUMBER * tile * dim + 2 * (block + tile) * dim  # rows as float32, and their parts
    return 2 * operands + 4 * scores + 3 * best + factors


def kernel_bytes(tiles: Tiles, sizes: Sizes, *, masked: bool = False) -> int:
    """Bytes that the kernel moves: every block of queries reads all rows.

    Args:
      tiles: from `choose_tiles`.
      sizes: the sizes of the search.
      masked: whether pairs are excluded; their bits are written and read.
    """
    blocks = math.ceil(sizes.queries / tiles.queries)
    moved = blocks * sizes.total_row_bytes + sizes.total_query_bytes
    # Scores and slots of the best, both ways.
    moved += 2 * 2 * _NUMBER * sizes.queries * sizes.count
    if masked:
        moved += 2 * _NUMBER * sizes.queries * num_words(sizes.num_slots, tiles.slots)
    return moved


def product_bytes(sizes: Sizes) -> int:
    """The least that a product and a top-k after it move: the scores are written and read once."""
    moved = sizes.total_row_bytes + sizes.total_query_bytes
    return moved + 2 * _NUMBER * sizes.queries * (sizes.num_slots + sizes.count)


def moves_fewer_bytes(tiles: Tiles, sizes: Sizes, *, masked: bool) -> bool:
    """Whether the kernel moves fewer bytes, and no more than half of its queries are padding.

    Args:
      tiles: from `choose_tiles`.
      sizes: the sizes of the search.
      masked: whether pairs are excluded.
    """
    padded = math.ceil(sizes.queries / tiles.queries) * tiles.queries
    fewer = kernel_bytes(tiles, sizes, masked=masked) < product_bytes(sizes)
    return fewer and padded <= 2 * sizes.queries

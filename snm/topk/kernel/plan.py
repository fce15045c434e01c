"""Tiles of the kernel, and whether it moves less memory than scores that are written and read."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

from snm.topk.kernel.excluded import BITS, words_of
from snm.topk.kernel.numbers import LANES, VMEM, Tiles, kept_of

__all__ = ["MOST", "Sizes", "kernel_bytes", "product_bytes", "saves", "tiles_for"]

MOST = 256
"""The largest count. A GPU's program would hold no more in its registers."""

_NUMBER = 4  # bytes of a float32 and of an int32
_PROGRAMS = 128  # of a GPU, about one for each multiprocessor
_DEPTH = 64


@dataclasses.dataclass(frozen=True)
class Sizes:
    """The sizes of a search.

    Attributes:
      queries: n.
      num_slots: S.
      dim: of a row.
      count: how many of the slots are kept.
      row_bytes: of a number of a row.
    """

    queries: int
    num_slots: int
    dim: int
    count: int
    row_bytes: int

    @property
    def bytes_of_rows(self) -> int:
        """Bytes of all rows."""
        return self.num_slots * self.dim * self.row_bytes

    @property
    def bytes_of_queries(self) -> int:
        """Bytes of all queries."""
        return _NUMBER * self.queries * self.dim


def tiles_for(platform: str, sizes: Sizes) -> Tiles | None:
    """Tiles of the kernel on a platform, `tpu` or `gpu`; None where there is no kernel.

    Args:
      platform: as `snm.machine.platform` has it.
      sizes: of the search.
    """
    if not 1 <= sizes.count <= min(MOST, sizes.num_slots) or not sizes.queries:
        return None
    form = _TILES.get(platform)
    return None if form is None else form(sizes)


def _tpu_tiles(sizes: Sizes) -> Tiles | None:
    """As many queries as fit into VMEM, for each block of them reads all rows; None if none do."""
    padded = -(-sizes.queries // LANES) * LANES
    for block in (512, 256, 128):
        for tile in (512, 256):
            if block <= padded and _vmem(sizes, block, tile) <= VMEM:
                return Tiles(block, tile, searched=LANES)
    return None


def _vmem(sizes: Sizes, block: int, tile: int) -> int:
    """Bytes of VMEM, somewhat more than Mosaic takes: each operand twice, for the next one."""
    dim, count, row_bytes = sizes.dim, sizes.count, sizes.row_bytes
    operands = _NUMBER * block * dim + row_bytes * tile * dim + _NUMBER * 8 * tile
    operands += _NUMBER * block * (tile // BITS + 2 * count)
    scores, best = _NUMBER * tile * block, 2 * _NUMBER * (count + 8) * block
    factors = _NUMBER * tile * dim + 2 * (block + tile) * dim  # rows as float32, and their parts
    return 2 * operands + 4 * scores + 3 * best + factors


def _gpu_tiles(sizes: Sizes) -> Tiles:
    """What registers hold, and parts for all multiprocessors."""
    kept = kept_of(sizes.count)
    block = 64 if kept <= 32 else 32
    block = min(block, max(16, 1 << (sizes.queries - 1).bit_length()))
    slots = 64
    most = max(1, sizes.num_slots // max(slots, 8 * kept))  # of a part, at most an eighth is kept
    parts = min(math.ceil(_PROGRAMS / math.ceil(sizes.queries / block)), most)
    return Tiles(block, slots, parts=parts, depth=_DEPTH, warps=4 if kept <= 64 else 8)


_TILES: dict[str, Callable[[Sizes], Tiles | None]] = {"tpu": _tpu_tiles, "gpu": _gpu_tiles}


def kernel_bytes(tiles: Tiles, sizes: Sizes, *, masked: bool = False) -> int:
    """Bytes that the kernel moves: every block of queries reads all rows.

    On a GPU blocks that run side by side may find rows in its cache; that is not counted.

    Args:
      tiles: of `tiles_for`.
      sizes: of the search.
      masked: whether pairs are excluded, whose bits are made and read.
    """
    blocks = math.ceil(sizes.queries / tiles.queries)
    moved = blocks * sizes.bytes_of_rows + sizes.bytes_of_queries * tiles.parts
    # Scores and slots of the best, both ways.
    moved += 2 * 2 * _NUMBER * sizes.queries * sizes.count * tiles.parts
    if masked:
        moved += 2 * _NUMBER * sizes.queries * words_of(sizes.num_slots, tiles.slots)
    return moved


def product_bytes(sizes: Sizes) -> int:
    """The least that a product and a top-k after it move: the scores are written and read once."""
    moved = sizes.bytes_of_rows + sizes.bytes_of_queries
    return moved + 2 * _NUMBER * sizes.queries * (sizes.num_slots + sizes.count)


def saves(tiles: Tiles, sizes: Sizes, *, masked: bool) -> bool:
    """Whether the kernel moves fewer bytes, and no more than half of its queries are padding.

    Args:
      tiles: of `tiles_for`.
      sizes: of the search.
      masked: whether pairs are excluded.
    """
    padded = math.ceil(sizes.queries / tiles.queries) * tiles.queries
    fewer = kernel_bytes(tiles, sizes, masked=masked) < product_bytes(sizes)
    return fewer and padded <= 2 * sizes.queries

"""Tiles of the kernel, and whether it moves less memory than scores that are written and read."""

from __future__ import annotations

import math

from snm.topk.kernel.excluded import BITS, words_of
from snm.topk.kernel.numbers import LANES, VMEM, Tiles, kept_of

__all__ = ["MOST", "kernel_bytes", "product_bytes", "saves", "tiles_for"]

MOST = 256
"""The largest count. A GPU's program would hold no more in its registers."""

_NUMBER = 4  # bytes of a float32 and of an int32
_PROGRAMS = 128  # of a GPU, about one for each multiprocessor
_DEPTH = 64


def _tpu_tiles(queries: int, dim: int, count: int, row_bytes: int) -> Tiles | None:
    """Tiles for a TPU: as many queries as fit, for each block of them reads all rows.

    Args:
      queries: n.
      dim: of a row.
      count: how many are kept.
      row_bytes: of a number of a row.

    Returns:
      The tiles; None if none fit into VMEM.
    """
    padded = -(-queries // LANES) * LANES
    for block in (512, 256, 128):
        for tile in (512, 256):
            if block <= padded and _vmem(block, tile, dim, count, row_bytes) <= VMEM:
                return Tiles(block, tile, searched=LANES)
    return None


def _vmem(block: int, tile: int, dim: int, count: int, row_bytes: int) -> int:
    """Bytes of VMEM, somewhat more than Mosaic takes: each operand twice, for the next one."""
    operands = _NUMBER * block * dim + row_bytes * tile * dim + _NUMBER * 8 * tile
    operands += _NUMBER * block * (tile // BITS + 2 * count)
    scores, best = _NUMBER * tile * block, 2 * _NUMBER * (count + 8) * block
    factors = _NUMBER * tile * dim + 2 * (block + tile) * dim  # rows as float32, and their parts
    return 2 * operands + 4 * scores + 3 * best + factors


def _gpu_tiles(queries: int, num_slots: int, count: int) -> Tiles:
    """Tiles for a GPU: what registers hold, and parts for all multiprocessors.

    Args:
      queries: n.
      num_slots: S.
      count: how many are kept.
    """
    kept = kept_of(count)
    block = 64 if kept <= 32 else 32
    block = min(block, max(16, 1 << (queries - 1).bit_length()))
    slots = 64
    most = max(1, num_slots // max(slots, 8 * kept))  # of a part, at most an eighth is kept
    parts = min(math.ceil(_PROGRAMS / math.ceil(queries / block)), most)
    return Tiles(block, slots, parts=parts, depth=_DEPTH, warps=4 if kept <= 64 else 8)


def tiles_for(
    platform: str, queries: int, num_slots: int, dim: int, count: int, row_bytes: int
) -> Tiles | None:
    """Tiles of the kernel on a platform, `tpu` or `gpu`; None where there is no kernel.

    Args:
      platform: as `snm.system.platform` has it.
      queries: n.
      num_slots: S.
      dim: of a row.
      count: how many are kept.
      row_bytes: of a number of a row.
    """
    if not 1 <= count <= min(MOST, num_slots) or not queries:
        return None
    if platform == "tpu":
        return _tpu_tiles(queries, dim, count, row_bytes)
    return _gpu_tiles(queries, num_slots, count) if platform == "gpu" else None


def kernel_bytes(
    tiles: Tiles,
    queries: int,
    num_slots: int,
    dim: int,
    count: int,
    row_bytes: int,
    *,
    masked: bool = False,
) -> int:
    """Bytes that the kernel moves: every block of queries reads all rows.

    On a GPU blocks that run side by side may find rows in its cache; that is not counted.

    Args:
      tiles: of `tiles_for`.
      queries: n.
      num_slots: S.
      dim: of a row.
      count: how many are kept.
      row_bytes: of a number of a row.
      masked: whether pairs are excluded, whose bits are made and read.
    """
    blocks = math.ceil(queries / tiles.queries)
    moved = blocks * num_slots * dim * row_bytes + _NUMBER * queries * dim * tiles.parts
    moved += 2 * 2 * _NUMBER * queries * count * tiles.parts  # scores and slots, both ways
    if masked:
        moved += 2 * _NUMBER * queries * words_of(num_slots, tiles.slots)
    return moved


def product_bytes(queries: int, num_slots: int, dim: int, count: int, row_bytes: int) -> int:
    """The least that a product and a top-k after it move: the scores are written and read once.

    Args:
      queries: n.
      num_slots: S.
      dim: of a row.
      count: how many are kept.
      row_bytes: of a number of a row.
    """
    moved = num_slots * dim * row_bytes + _NUMBER * queries * dim
    return moved + 2 * _NUMBER * queries * (num_slots + count)


def saves(
    tiles: Tiles,
    queries: int,
    num_slots: int,
    dim: int,
    count: int,
    row_bytes: int,
    *,
    masked: bool,
) -> bool:
    """Whether the kernel moves fewer bytes, and no more than half of its queries are padding.

    Args:
      tiles: of `tiles_for`.
      queries: n.
      num_slots: S.
      dim: of a row.
      count: how many are kept.
      row_bytes: of a number of a row.
      masked: whether pairs are excluded.
    """
    sizes = queries, num_slots, dim, count, row_bytes
    padded = math.ceil(queries / tiles.queries) * tiles.queries
    return padded <= 2 * queries and (
        kernel_bytes(tiles, *sizes, masked=masked) < product_bytes(*sizes)
    )

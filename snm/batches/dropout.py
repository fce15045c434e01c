"""Input dropout: the features of a point that a visit leaves out.

Which features are dropped is a function of the seed, the epoch, the point and the position of the
feature in the point. It does not depend on where a batch is made: on the host or on the device,
whole or in parts. On the host, dropped entries are removed from the batch, so they cost no time
later.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from snm.batches.csr_blocks import repeat
from snm.batches.streams import Stream
from snm.data.csr import row_starts
from snm.data.mapped import row_blocks
from snm.tables.hashing import GOLDEN, mix_bits
from snm.tables.table import SparseRows

__all__ = ["count_kept", "drop_entries", "dropout_keys", "zero_dropped"]

_BLOCK = 1 << 20  # entries counted at a time


def dropout_keys(seed: int, epoch: int, points: np.ndarray) -> np.ndarray:
    """A hash key for each visit of a point, from which its features to drop follow.

    Args:
      seed: the seed of the member.
      epoch: counted from 0.
      points: int [...], numbers of points.

    Returns:
      uint32 [...].
    """
    epoch_key = Stream.DROPOUT.seed_sequence(seed, epoch).generate_state(2, np.uint32)
    return mix_bits(mix_bits(points.astype(np.uint32) * GOLDEN ^ epoch_key[0]) ^ epoch_key[1])


def count_kept(keys: np.ndarray, counts: np.ndarray, rate: float) -> np.ndarray:
    """The number of features that each point keeps, without reading the features.

    Args:
      keys: uint32 [n], from `dropout_keys`.
      counts: int [n], the number of features of each point.
      rate: dropout rate, in (0, 1).

    Returns:
      int64 [n].
    """
    left = np.zeros(len(counts), np.int64)
    starts_of_points = row_starts(counts)
    for first, last in row_blocks(starts_of_points, _BLOCK):  # limits the memory of the draws
        starts = starts_of_points[first : last + 1] - starts_of_points[first]
        kept = _kept(keys[first:last], starts, int(starts[-1]), rate)
        left[first:last] = np.diff(row_starts(kept)[starts])
    return left


def drop_entries(block: SparseRows, keys: np.ndarray, rate: float, entries: int) -> SparseRows:
    """Removes dropped entries from a block on the host.

    The others are scaled up, so that the expected sum of a row does not change.

    Args:
      block: NumPy arrays, [n, d].
      keys: uint32 [n].
      rate: dropout rate, in (0, 1).
      entries: number of entries of the result, at least as many as are kept; the rest is padding.
    """
    total = int(block.starts[-1])
    kept = _kept(keys, block.starts, total, rate)
    starts = row_starts(kept)[block.starts].astype(np.int32)
    ids: Any = np.zeros(entries, np.int32)
    values: Any = np.zeros(entries, np.float32)
    ids[: starts[-1]] = block.ids[:total][kept]
    values[: starts[-1]] = block.values[:total][kept] / np.float32(1 - rate)
    return SparseRows(ids, values, starts)


def zero_dropped(block: SparseRows, keys: Any, rate: float) -> SparseRows:
    """Sets dropped entries of a block on the device to 0; otherwise as `drop_entries`."""
    kept = _kept(keys, block.starts, block.ids.shape[0], rate)
    xp = keys.__array_namespace__()
    return block._replace(values=xp.where(kept, block.values / np.float32(1 - rate), 0))


def _kept(keys: Any, starts: Any, entries: int, rate: float) -> Any:
    """Whether each entry is kept: bool [entries], NumPy or JAX; arbitrary for padding."""
    xp = keys.__array_namespace__()
    counts = xp.diff(starts)
    place = xp.arange(entries, dtype=np.int32) - repeat(starts[:-1], counts, entries)
    drawn = mix_bits(repeat(keys, counts, entries) + place.astype(np.uint32) * GOLDEN)
    return drawn >= np.uint32(min(round(rate * 2**32), 2**32 - 1))

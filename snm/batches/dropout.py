"""Input dropout: the features of a point that a visit leaves out.

What is left out is a function of the seed, the pass, the point and the place of the feature in the
point. So it does not depend on where a batch is made, on the host or on the device, whole or in
parts. On the host the entries that are left out leave the batch: nothing later spends time on them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from snm.batches.csr_blocks import repeat
from snm.batches.streams import Stream
from snm.data.mapped import row_blocks
from snm.tables.hashing import GOLDEN, mix_bits
from snm.tables.table import SparseRows

__all__ = ["entries_left", "keys_of_points", "with_dropout", "without_dropped"]

_BLOCK = 1 << 20  # entries counted at a time


def keys_of_points(seed: int, epoch: int, points: np.ndarray) -> np.ndarray:
    """A number for each visit of a point, from which the draws for its features follow.

    Args:
      seed: of the run's member.
      epoch: counted from 0.
      points: int [...], numbers of points.

    Returns:
      uint32 [...].
    """
    of_pass = Stream.DROPOUT.of(seed, epoch).generate_state(2, np.uint32)
    return mix_bits(mix_bits(points.astype(np.uint32) * GOLDEN ^ of_pass[0]) ^ of_pass[1])


def entries_left(keys: np.ndarray, counts: np.ndarray, share: float) -> np.ndarray:
    """How many features of each point are left, without looking at them.

    Args:
      keys: uint32 [n], of `keys_of_points`.
      counts: int [n], the features of each point.
      share: to leave out, in (0, 1).

    Returns:
      int64 [n].
    """
    left = np.zeros(len(counts), np.int64)
    of_all = np.append(0, np.cumsum(counts))
    for first, last in row_blocks(of_all, _BLOCK):  # the draws of all are never there at once
        starts = of_all[first : last + 1] - of_all[first]
        kept = _kept(keys[first:last], starts, int(starts[-1]), share)
        left[first:last] = np.diff(np.append(0, np.cumsum(kept))[starts])
    return left


def without_dropped(block: SparseRows, keys: np.ndarray, share: float, entries: int) -> SparseRows:
    """A block on the host without the entries that are left out.

    The others are scaled up, so that the expected sum of a row stays the same.

    Args:
      block: NumPy arrays, [n, d].
      keys: uint32 [n].
      share: to leave out, in (0, 1).
      entries: of the result: at least as many as are left. The rest is padding.
    """
    total = int(block.starts[-1])
    kept = _kept(keys, block.starts, total, share)
    starts = np.append(0, np.cumsum(kept))[block.starts].astype(np.int32)
    ids: Any = np.zeros(entries, np.int32)
    values: Any = np.zeros(entries, np.float32)
    ids[: starts[-1]] = block.ids[:total][kept]
    values[: starts[-1]] = block.values[:total][kept] / np.float32(1 - share)
    return SparseRows(ids, values, starts)


def with_dropout(block: SparseRows, keys: Any, share: float) -> SparseRows:
    """A block on the device whose entries that are left out have value 0; see `without_dropped`."""
    kept = _kept(keys, block.starts, block.ids.shape[0], share)
    xp = keys.__array_namespace__()
    return block._replace(values=xp.where(kept, block.values / np.float32(1 - share), 0))


def _kept(keys: Any, starts: Any, entries: int, share: float) -> Any:
    """Whether each entry is kept, bool [entries], NumPy or JAX; arbitrary for padding."""
    xp = keys.__array_namespace__()
    counts = xp.diff(starts)
    place = xp.arange(entries, dtype=np.int32) - repeat(starts[:-1], counts, entries)
    drawn = mix_bits(repeat(keys, counts, entries) + place.astype(np.uint32) * GOLDEN)
    return drawn >= np.uint32(min(round(share * 2**32), 2**32 - 1))

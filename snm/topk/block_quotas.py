"""The best of many blocks of scores, of which each gives a share.

Of the hundreds that are wanted of a random sample, a block of it holds few: it gives somewhat more
than it is likely to hold, found by counting, and the best of what all gave are the best of all
unless a block had more to give, which is seen.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from snm.topk.bisection import MASKED, collect, interval
from snm.topk.parallel import highest

__all__ = ["Quota", "Share", "joined", "quota_of", "share_of"]

_BLOCKS = 4  # from so many on, a block's share is far below the count
_ROOM = 1.4  # times the quota: the narrower, the longer a threshold takes to find
_WIDTH = 32  # room comes in whole words


class Quota(NamedTuple):
    """How many scores a block gives for each point: `fewest` to `most`."""

    fewest: int
    most: int


class Share(NamedTuple):
    """What a block gives.

    Attributes:
      scores: float32 [n, most], MASKED where it gives fewer.
      slots: int32 [n, most], ascending.
      floor: float32 [n]: all scores from here on were given. MASKED where all were, infinity where
        not even the highest certainly was.
    """

    scores: jax.Array
    slots: jax.Array
    floor: jax.Array


def quota_of(count: int, num_blocks: int, size: int) -> Quota | None:
    """More of the `count` best than a block is likely to hold; None where that saves nothing.

    The sample is drawn at random, so a block holds about count / num_blocks of a point's best;
    where neighbouring labels resemble each other it may hold more. The quota is that mean and six
    standard deviations.

    Example:
      >>> quota_of(256, num_blocks=8, size=4112)
      Quota(fewest=66, most=96)
      >>> quota_of(256, num_blocks=2, size=4112)
    """
    mean = count / num_blocks
    fewest = math.ceil(mean + 6 * math.sqrt(mean))
    most = math.ceil(fewest * _ROOM / _WIDTH) * _WIDTH
    if num_blocks < _BLOCKS or fewest >= count or most >= size:
        return None
    return Quota(fewest, most)


def share_of(scores: jax.Array, begin: jax.Array, quota: Quota) -> Share:
    """The share of a block.

    Args:
      scores: float32 [n, size].
      begin: int32 scalar, the block's first slot.
      quota: how many to give.
    """
    low, high = interval(scores, quota.fewest, quota.most)
    found, place = collect(scores, low, quota.most)
    # Equal scores may stand in the way, and not even the fewest be there.
    floor = jnp.where(low == high, low, jnp.inf)
    floor = jnp.where(found[:, quota.fewest - 1] <= MASKED, MASKED, floor)
    return Share(found, begin + place, floor)


def joined(shares: Share, count: int, *, ordered: bool) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The best of what each block gave, and whether they are the best of all.

    Args:
      shares: of all blocks, stacked, by ascending slot.
      count: how many to keep.
      ordered: whether in falling order, equal ones by slot.

    Returns:
      float32 [n, count] scores, int32 [n, count] slots, and a bool scalar. Where it is False, a
      block had more to give, or more than `count` are as high as the last of them.
    """
    scores, slots = (
        jnp.moveaxis(x, 0, 1).reshape(x.shape[1], -1) for x in (shares.scores, shares.slots)
    )
    exact = jnp.bool_(True)
    if ordered:
        top, place = highest(scores, count)
    else:
        low, high = interval(scores, count, count)
        top, place = collect(scores, low, count)
        exact = jnp.all(low == high)
    # As a minimum, not as top[:, -1]: XLA:CPU sorts whole rows where a slice of a top-k is taken.
    needed = jnp.min(top, axis=1)[None, :]
    complete = jnp.all((shares.floor <= needed) | (shares.floor <= MASKED))
    return top, jnp.take_along_axis(slots, place, axis=1), exact & complete

"""Top-k from per-block candidates, with a flag that says whether it is exact.

Labels are sampled at random, so each of B blocks holds about k / B of the top k. Each block returns
its highest scores up to a quota somewhat above that, found by bisection. The top k of all
candidates is exact unless some block held more of it than its quota, which is detected.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from snm.losses.reductions import MASKED
from snm.topk.bisection import collect_above, find_threshold
from snm.topk.parallel import parallel_top_k

__all__ = ["Candidates", "Quota", "block_candidates", "choose_quota", "merge_candidates"]

_MIN_BLOCKS = 4  # with fewer blocks, a quota is not far below the count
_MOST_OVER_FEWEST = 1.4  # the closer to 1, the more passes it takes to find a threshold
_WIDTH = 32  # `most` is a multiple of the word size


class Quota(NamedTuple):
    """How many candidates a block returns for each query: `fewest` to `most`."""

    fewest: int
    most: int


class Candidates(NamedTuple):
    """The candidates of a block for the top k.

    Attributes:
      scores: float32 [n, most], MASKED after the last candidate.
      slots: int32 [n, most], ascending.
      floor: float32 [n]; every score of the block that is >= floor is a candidate. MASKED if all
        scores are candidates, infinity if no such bound is known.
    """

    scores: jax.Array
    slots: jax.Array
    floor: jax.Array


def choose_quota(count: int, num_blocks: int, size: int) -> Quota | None:
    """Chooses a quota that a block is unlikely to exceed; None if quotas would save nothing.

    With random samples, a block holds about mean = count / num_blocks of the top `count` of a
    query, and more if neighbouring labels are similar. The quota is mean + 6 sqrt(mean), six
    standard deviations of a Poisson variable above its mean.

    Example:
      >>> choose_quota(256, num_blocks=8, size=4112)
      Quota(fewest=66, most=96)
      >>> choose_quota(256, num_blocks=2, size=4112)
    """
    mean = count / num_blocks
    fewest = math.ceil(mean + 6 * math.sqrt(mean))
    most = math.ceil(fewest * _MOST_OVER_FEWEST / _WIDTH) * _WIDTH
    if num_blocks < _MIN_BLOCKS or fewest >= count or most >= size:
        return None
    return Quota(fewest, most)


def block_candidates(scores: jax.Array, begin: jax.Array, quota: Quota) -> Candidates:
    """Selects the candidates of a block.

    Args:
      scores: float32 [n, size].
      begin: int32 scalar, the block's first slot.
      quota: how many candidates to return.
    """
    low, high = find_threshold(scores, quota.fewest, quota.most)
    collected, columns = collect_above(scores, low, quota.most)
    # Where equal scores leave low < high, not all of them may fit: no floor is known. Where fewer
    # than `fewest` were found, all scores of the block are candidates.
    floor = jnp.where(low == high, low, jnp.inf)
    floor = jnp.where(collected[:, quota.fewest - 1] <= MASKED, MASKED, floor)
    return Candidates(collected, begin + columns, floor)


def merge_candidates(
    candidates: Candidates, count: int, *, ordered: bool
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Selects the top `count` of the candidates of all blocks, and tells whether they are exact.

    Args:
      candidates: stacked over the blocks, in ascending order of slots.
      count: how many to keep.
      ordered: whether to return scores in descending order, ties by slot.

    Returns:
      float32 [n, count] scores, int32 [n, count] slots, and a bool scalar. It is False if a block
      may hold more of the top `count` than it returned, or, for unordered results, if scores tie
      for the last ranks.
    """
    scores, slots = (
        jnp.moveaxis(x, 0, 1).reshape(x.shape[1], -1) for x in (candidates.scores, candidates.slots)
    )
    exact = jnp.bool_(True)
    if ordered:
        top, columns = parallel_top_k(scores, count)
    else:
        low, high = find_threshold(scores, count, count)
        top, columns = collect_above(scores, low, count)
        exact = jnp.all(low == high)
    # jnp.min, not top[:, -1]: XLA:CPU sorts whole rows if a top-k is sliced.
    needed = jnp.min(top, axis=1)[None, :]
    complete = jnp.all((candidates.floor <= needed) | (candidates.floor <= MASKED))
    return top, jnp.take_along_axis(slots, columns, axis=1), exact & complete

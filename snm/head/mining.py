"""Mining: the highest scoring sampled labels of each point, found per shard and then merged."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from snm.head.problem import Problem
from snm.topk.blocks import Best, Masked
from snm.topk.search import best_scores

__all__ = ["mine"]


def mine(problem: Problem) -> Best:
    """The k' highest scoring sampled labels of each point.

    Args:
      problem: n queries, the sampled slots, and the slots that each point excludes.

    Returns:
      Scores float32 [n, count] and slots int32 [n, count], in descending order if the plan of the
      step has `sorted`.
    """
    plan = problem.plan
    if plan.masks_own:
        assert problem.excluded is not None
        n = problem.queries.shape[0]
        own = Masked(jnp.arange(n, dtype=jnp.int32), problem.excluded)
        problem = dataclasses.replace(problem, masked=own)
    return _top_slots(problem, plan.count, plan.sorted)


def _top_slots(problem: Problem, count: int, ordered: bool) -> Best:
    """The top `count` sampled labels of each point, the same on every shard.

    Each shard searches its own rows; then the shards exchange `count` scores and slots per point.
    """
    shard = problem.shard
    masked = problem.masked
    if problem.ids is None and masked is not None:
        masked = Masked(masked.rows, masked.slots - shard.first_row)

    def search(ids: jax.Array | None, first_slot: jax.Array | int) -> Best:
        local_masked, labels = masked, problem.labels._replace(ids=ids)
        if masked is not None and ids is not None:
            local_masked = Masked(masked.rows, masked.slots - first_slot)
        best = best_scores(
            problem.queries,
            labels,
            min(count, labels.num_slots),
            masked=local_masked,
            compute_dtype=problem.compute_dtype,
            ordered=ordered,
            kernel=problem.spec.mining_kernel,
        )
        return Best(best.scores, best.slots + first_slot)

    if shard.row_axis is None:
        return search(problem.ids, 0)
    if problem.ids is None:
        best = search(None, shard.first_row)
    else:
        best = _search_own_slots(problem, count, search)
    return shard.merge_topk(best, count)


def _search_own_slots(problem: Problem, count: int, search: Callable[..., Best]) -> Best:
    """The top sampled labels that this shard holds, whose slots are contiguous.

    It searches a fixed number of slots: the mean for a uniform sample plus eight standard
    deviations. If the shard holds more, it searches the whole sample.
    """
    ids, shard, size = problem.ids, problem.shard, problem.num_slots
    assert ids is not None
    mean = size / shard.parts
    capacity = math.ceil(mean + 8 * math.sqrt(mean * (1 - 1 / shard.parts)))
    capacity = max(-(-capacity // 16) * 16, count)
    if capacity >= size:
        return search(problem.ids, 0)
    first, end = problem.own_slots()
    start = jnp.minimum(first, size - capacity)

    def search_own() -> Best:
        return search(lax.dynamic_slice(ids, (start,), (capacity,)), start)

    return lax.cond(end - start <= capacity, search_own, lambda: search(problem.ids, 0))

"""Mining: the highest scoring sampled labels of each point, per shard and then merged."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from snm.head.problem import Problem
from snm.machine.platform import of_platform
from snm.topk.blocks import Best, Masked
from snm.topk.search import best_scores

__all__ = ["mine"]

_MASKED_FROM = {"cpu": 64, "gpu": 1}
"""By platform: from how many mined on, a slot that a term leaves out is masked before mining.

Where they are few, one more is mined and left out later; to order many takes longer than to find
them (timed on CPUs). XLA:GPU has a top-k kernel for at most 16, and sorts for 17. XLA:TPU has one
for both, and the mask would keep the scores of a step from staying on the chip (compiled for v5e).
"""


def mine(problem: Problem) -> Best:
    """The k' highest scoring sampled labels of each point.

    Args:
      problem: n queries, the sampled slots, and what a point leaves out.

    Returns:
      Scores float32 [n, m] and slots int32 [n, m]. m is k', or k' + 1 where each term leaves out a
      slot of its own; 0 where nothing is mined. Scores are in descending order if the loss asks for
      it, otherwise in any.
    """
    spec, n = problem.spec, problem.queries.shape[0]
    if spec.head_loss.dense_only:
        return Best(jnp.zeros((n, 0)), jnp.zeros((n, 0), jnp.int32))
    excluded = problem.excluded
    if excluded is not None and problem.one_term_a_row and spec.mined >= of_platform(_MASKED_FROM):
        # The point has one term: mask the slot that it leaves out, and no order is needed.
        own = Masked(jnp.arange(n, dtype=jnp.int32), excluded)
        problem, excluded = dataclasses.replace(problem, masked=own), None
    ordered = excluded is not None or spec.head_loss.needs_order
    count = min(spec.mined + (excluded is not None), problem.num_slots)
    return _best(problem, count, ordered)


def _best(problem: Problem, count: int, ordered: bool) -> Best:
    """The top `count` sampled labels of each point, the same on every shard.

    Each shard searches its own rows; then shards exchange count scores and slots a point.
    """
    shard = problem.shard
    masked = problem.masked
    if problem.ids is None and masked is not None:
        masked = Masked(masked.rows, masked.slots - shard.first_row)

    def best_of(ids: jax.Array | None, first_slot: jax.Array | int) -> Best:
        places = masked
        if masked is not None and ids is not None:
            places = Masked(masked.rows, masked.slots - first_slot)
        best = best_scores(
            problem.queries,
            problem.table.rows,
            ids,
            min(count, problem.table.rows.shape[0] if ids is None else ids.shape[0]),
            masked=places,
            bias=problem.bias,
            first_row=shard.first_row,
            num_valid=shard.num_valid,
            compute_dtype=problem.compute_dtype,
            ordered=ordered,
            kernel=problem.spec.mining_kernel,
        )
        return Best(best.scores, best.slots + first_slot)

    if shard.axis_name is None:
        return best_of(problem.ids, 0)
    if problem.ids is None:
        best = best_of(None, shard.first_row)
    else:
        best = _best_of_own(problem, count, best_of)
    return shard.merge_topk(best, count)


def _best_of_own(problem: Problem, count: int, best_of: Callable[..., Best]) -> Best:
    """The top sampled labels that this shard holds, whose slots are contiguous.

    The search is over a fixed number of slots: the mean of a uniform sample and eight standard
    deviations. If the shard has more, it searches the whole sample.
    """
    ids, shard, size = problem.ids, problem.shard, problem.num_slots
    assert ids is not None
    mean = size / shard.parts
    capacity = math.ceil(mean + 8 * math.sqrt(mean * (1 - 1 / shard.parts)))
    capacity = max(-(-capacity // 16) * 16, count)
    if capacity >= size:
        return best_of(problem.ids, 0)
    first, end = problem.own_slots()
    start = jnp.minimum(first, size - capacity)

    def own() -> Best:
        return best_of(lax.dynamic_slice(ids, (start,), (capacity,)), start)

    return lax.cond(end - start <= capacity, own, lambda: best_of(problem.ids, 0))

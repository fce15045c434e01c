"""Mining: the highest scoring sampled labels of each point, found per shard and then merged."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from snm.head.step_inputs import StepInputs
from snm.topk.blocks import Best, Masked
from snm.topk.search import best_scores

__all__ = ["mine"]


def mine(inputs: StepInputs) -> Best:
    """The k' highest scoring sampled labels of each point.

    Args:
      inputs: n queries, the sampled slots, and the slots that each point excludes.

    Returns:
      Scores float32 [n, count] and slots int32 [n, count], in descending order if the plan of the
      step has `sorted`.
    """
    plan = inputs.plan
    if plan.masks_own:
        assert inputs.excluded is not None
        n = inputs.queries.shape[0]
        own = Masked(jnp.arange(n, dtype=jnp.int32), inputs.excluded)
        inputs = dataclasses.replace(inputs, masked=own)
    return _top_slots(inputs, plan.count, plan.sorted)


def _top_slots(inputs: StepInputs, count: int, ordered: bool) -> Best:
    """The top `count` sampled labels of each point, the same on every shard.

    Each shard searches its own rows; then the shards exchange `count` scores and slots per point.
    """
    shard = inputs.shard
    masked = inputs.masked
    if inputs.ids is None and masked is not None:
        masked = Masked(masked.rows, masked.slots - shard.first_row)

    def search(ids: jax.Array | None, first_slot: jax.Array | int) -> Best:
        local_masked, labels = masked, inputs.labels._replace(ids=ids)
        if masked is not None and ids is not None:
            local_masked = Masked(masked.rows, masked.slots - first_slot)
        best = best_scores(
            inputs.queries,
            labels,
            min(count, labels.num_searched),
            masked=local_masked,
            compute_dtype=inputs.compute_dtype,
            ordered=ordered,
            kernel=inputs.spec.mining_kernel,
        )
        return Best(best.scores, best.slots + first_slot)

    if shard.row_axis is None:
        return search(inputs.ids, 0)
    if inputs.ids is None:
        best = search(None, shard.first_row)
    else:
        best = _search_own_slots(inputs, count, search)
    return shard.merge_topk(best, count)


def _search_own_slots(inputs: StepInputs, count: int, search: Callable[..., Best]) -> Best:
    """The top sampled labels that this shard holds, whose slots are contiguous.

    It searches a fixed number of slots: the mean for a uniform sample plus eight standard
    deviations. If the shard holds more, it searches the whole sample.
    """
    ids, shard, size = inputs.ids, inputs.shard, inputs.num_slots
    assert ids is not None
    mean = size / shard.parts
    capacity = math.ceil(mean + 8 * math.sqrt(mean * (1 - 1 / shard.parts)))
    capacity = max(-(-capacity // 16) * 16, count)
    if capacity >= size:
        return search(ids, 0)
    first, end = inputs.own_slots()
    start = jnp.minimum(first, size - capacity)

    def search_own() -> Best:
        return search(lax.dynamic_slice(ids, (start,), (capacity,)), start)

    return lax.cond(end - start <= capacity, search_own, lambda: search(ids, 0))

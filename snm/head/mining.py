"""Mining: the highest scoring sampled labels of each point, found per shard and then merged."""

from __future__ import annotations

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
    """The k' highest scoring sampled labels of each point, the same on every shard.

    Each shard searches its own rows; then the shards exchange `count` scores and slots per point.

    Args:
      inputs: n queries, the sampled slots, and the slots that each point excludes.

    Returns:
      Scores float32 [n, count] and slots int32 [n, count] with the `count` of the step's plan, in
      descending order if it has `sorted`.
    """
    plan, shard, masked = inputs.plan, inputs.shard, inputs.masked
    if plan.masks_own:
        assert inputs.excluded is not None
        masked = Masked(jnp.arange(inputs.queries.shape[0], dtype=jnp.int32), inputs.excluded)

    def search(ids: jax.Array | None, first_slot: jax.Array | int) -> Best:
        labels, local = inputs.labels._replace(ids=ids), None
        if masked is not None:
            local = Masked(masked.rows, masked.slots - first_slot)
        best = best_scores(
            inputs.queries,
            labels,
            min(plan.count, labels.num_searched),
            masked=local,
            compute_dtype=inputs.compute_dtype,
            ordered=plan.sorted,
            kernel=inputs.spec.mining_kernel,
        )
        return Best(best.scores, best.slots + first_slot)

    if shard.row_axis is None:
        return search(inputs.ids, 0)
    if inputs.ids is None:
        best = search(None, shard.first_row)
    else:
        best = _search_own_slots(inputs, plan.count, search)
    return shard.merge_topk(best, plan.count)


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

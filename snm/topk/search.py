"""Scores of a batch against sampled or all labels, in blocks, and the best of them.

The n x S score matrix is never whole in memory on a CPU: a block of labels is scored, its best
join the running best, and the block is forgotten. Ties go to the lowest label id everywhere,
because blocks come in ascending order and a top-k prefers the earlier entry.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from snm.topk.bisection import MASKED
from snm.topk.block_quotas import Share, joined, quota_of, share_of
from snm.topk.blocks import WIDTH, Best, BlockPlan, Masked, _scores_of_rows, block_plan, read_block
from snm.topk.parallel import highest

__all__ = ["MASKED", "best_scores"]

_CPU_BLOCK = 4096  # 512 x 4096 float32 scores are 8 MB: above 32 MB fresh pages cost more than sums
_ACCELERATOR_SCORES = 1 << 26  # scores in a block, 256 MB of float32


def best_scores(
    queries: jax.Array,
    table: jax.Array,
    ids: jax.Array | None,
    count: int,
    *,
    masked: Masked | None = None,
    bias: jax.Array | None = None,
    first_row: jax.Array | int = 0,
    num_valid: jax.Array | None = None,
    compute_dtype: jnp.dtype = jnp.float32,
    ordered: bool = True,
) -> Best:
    """The `count` best of the sampled labels for each query, exactly, ties to the lowest slot.

    Costs n x S x dim multiply-adds and reads each sampled row once; memory is one block.

    Args:
      queries: float32 [n, dim].
      table: float32 [N, dim].
      ids: int32 [S] ascending, or None for all rows of the table.
      count: how many to keep.
      masked: pairs that may not be chosen.
      bias: float32 [N], added to the scores of each label.
      first_row: the label that the table's first row belongs to.
      num_valid: how many of its rows belong to labels; None where all do.
      compute_dtype: type of the factors of the product; sums are float32.
      ordered: whether the best have to come in falling order. Ordering hundreds takes a CPU longer
        than finding them.

    Returns:
      The best scores and their slots.
    """

    def form(longest: int, on_cpu: bool) -> functools.partial[Best]:
        plan = block_plan(table.shape[0] if ids is None else ids.shape[0], longest)
        return functools.partial(
            _best,
            count=count,
            plan=plan,
            on_cpu=on_cpu,
            compute_dtype=compute_dtype,
            ordered=ordered,
        )

    cpu = form(_CPU_BLOCK, on_cpu=True)
    longest = max(_CPU_BLOCK, _ACCELERATOR_SCORES // max(1, queries.shape[0]))
    accelerator = form(longest, on_cpu=False)
    return lax.platform_dependent(
        queries, table, ids, masked, bias, first_row, num_valid, cpu=cpu, default=accelerator
    )


def _best(
    queries: jax.Array,
    table: jax.Array,
    ids: jax.Array | None,
    masked: Masked | None,
    bias: jax.Array | None,
    first_row: jax.Array | int,
    num_valid: jax.Array | None,
    *,
    count: int,
    plan: BlockPlan,
    on_cpu: bool,
    compute_dtype: jnp.dtype,
    ordered: bool,
) -> Best:
    n = queries.shape[0]

    def scores_of(start: jax.Array) -> tuple[jax.Array, jax.Array]:
        rows, place, begin = read_block(table, ids, start, plan.size, first_row, num_valid)
        real = place < table.shape[0]

        def product() -> jax.Array:
            return _scores_of_rows(queries, rows, place, begin, masked, bias, compute_dtype)

        def masked_product() -> jax.Array:
            return jnp.where(real[None, :], product(), MASKED)

        # Most blocks are full, and XLA:CPU writes a masked copy of all scores for the few that
        # are not. An accelerator masks as it reads, and would wait for the host to choose.
        if on_cpu:
            return lax.cond(jnp.all(real), product, masked_product), begin
        return masked_product(), begin

    def merged(best: Best, start: jax.Array) -> tuple[Best, None]:
        return _merge(best, *scores_of(start)), None

    def folded(best: _Folds, start: jax.Array) -> tuple[_Folds, None]:
        return _merge_folds(best, *scores_of(start)), None

    starts = jnp.arange(plan.num_blocks, dtype=jnp.int32) * plan.size
    none = Best(jnp.full((n, count), MASKED), jnp.zeros((n, count), jnp.int32))
    if count * 4 <= plan.size // WIDTH:
        folds = _Folds(none.scores, jnp.full((n, count, WIDTH), MASKED), none.slots)
        return _scanned(folded, folds, starts)[0].unfolded()

    def by_merging() -> Best:
        return _scanned(merged, none, starts)[0]

    quota = quota_of(count, plan.num_blocks, plan.size)
    if not on_cpu or ids is None or quota is None:
        return by_merging()

    def given(_: None, start: jax.Array) -> tuple[None, Share]:
        return None, share_of(*scores_of(start), quota)

    scores, slots, complete = joined(_scanned(given, None, starts)[1], count, ordered=ordered)
    best = Best(scores, slots)
    return lax.cond(complete, lambda: best, by_merging)


def _scanned(one_block: Callable, start: Any, starts: jax.Array) -> tuple[Any, Any]:
    if starts.shape[0] == 1:
        carry, out = one_block(start, starts[0])
        return carry, jax.tree.map(lambda x: x[None], out)
    return lax.scan(one_block, start, starts)


def _merge(best: Best, scores: jax.Array, begin: jax.Array) -> Best:
    """The best of the running best and of a block's scores."""
    n, size = scores.shape
    slots = jnp.broadcast_to((begin + jnp.arange(size, dtype=jnp.int32))[None, :], (n, size))
    scores = jnp.concatenate([best.scores, scores], axis=1)
    slots = jnp.concatenate([best.slots, slots], axis=1)
    top, place = highest(scores, best.scores.shape[1])
    return Best(top, jnp.take_along_axis(slots, place, axis=1))


class _Folds(NamedTuple):
    """The folds of 16 neighbouring slots that hold the best scores so far, by ascending slot.

    The best `count` scores lie in the `count` folds with the highest maxima. So for a small count
    most scores are looked at once, to find the maxima, and only the last folds are searched.

    Attributes:
      maxima: float32 [n, count], the highest score of each fold.
      scores: float32 [n, count, 16].
      starts: int32 [n, count], the first slot of each fold.
    """

    maxima: jax.Array
    scores: jax.Array
    starts: jax.Array

    def unfolded(self) -> Best:
        """The best scores themselves."""
        n, count, width = self.scores.shape
        slots = self.starts[:, :, None] + jnp.arange(width, dtype=jnp.int32)[None, None, :]
        top, place = highest(self.scores.reshape(n, count * width), count)
        return Best(top, jnp.take_along_axis(slots.reshape(n, count * width), place, axis=1))


def _merge_folds(best: _Folds, scores: jax.Array, begin: jax.Array) -> _Folds:
    """The best folds of the running best and of a block.

    Args:
      best: the running best.
      scores: float32 [n, size].
      begin: int32 scalar, the block's first slot.
    """
    n, count = best.maxima.shape
    folded = scores.reshape(n, -1, WIDTH)
    maxima = jnp.concatenate([best.maxima, jnp.max(folded, axis=-1)], axis=1)
    _, chosen = lax.top_k(maxima, count)
    chosen = jnp.sort(chosen, axis=-1)  # ascending again, for the ties
    from_best = chosen < count
    old, new = jnp.minimum(chosen, count - 1), jnp.maximum(chosen - count, 0)
    return _Folds(
        jnp.take_along_axis(maxima, chosen, axis=1),
        jnp.where(from_best[:, :, None], _take_folds(best.scores, old), _take_folds(folded, new)),
        jnp.where(from_best, jnp.take_along_axis(best.starts, old, axis=1), begin + new * WIDTH),
    )


def _take_folds(folds: jax.Array, chosen: jax.Array) -> jax.Array:
    return jnp.take_along_axis(folds, chosen[:, :, None], axis=1)

"""Finds the exact top-k labels of a batch, over sampled or all labels.

The n x S score matrix is never whole in memory: each block of labels is scored, and its top k is
merged into the running top k; on a TPU a kernel may do this on the chip. Ties always go to
the lowest label id, because blocks come in ascending order and `top_k` prefers the earlier entry.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from snm.losses.reductions import MASKED
from snm.machine.platform import for_platform, platform
from snm.topk.block_quotas import (
    Candidates,
    Quota,
    block_candidates,
    choose_quota,
    merge_candidates,
)
from snm.topk.blocks import (
    WIDTH,
    Added,
    Best,
    BlockPlan,
    LabelRows,
    Masked,
    block_plan,
    score_rows,
)
from snm.topk.kernel.choice import kernel_form
from snm.topk.parallel import parallel_top_k
from snm.topk.strided_folds import merge_best, strided_top_k

__all__ = ["best_scores"]

_CPU_BLOCK = 4096  # 512 x 4096 float32 scores are 8 MB; above 32 MB, page faults cost more time
_ACCELERATOR_NUMBERS = 1 << 26
"""Numbers of a block on an accelerator, scores and rows together: 256 MiB of float32.

This limits memory; the time of other sizes was not measured.
"""
_FALLBACK_DIVISOR = 8  # after a tie, an accelerator searches blocks of an eighth of the slots
_FOLDS_PER_SCORE = {"cpu": 8, "gpu": 2, "tpu": 2}
"""By platform: folds of a block for each score to keep.

With fewer folds, the search is slower on CPUs (timed). XLA:GPU sorts where more than 16 scores are
kept: with folds, the maxima and the 16 scores of each chosen fold instead of the whole block, at
most 18 / 32 of it. An H200 finds 16 of 32,768 scores in 0.38 of the time with folds
(`benchmarks/results/gpu-forms.json`).
"""

_ScoreBlock = Callable[[jax.Array], tuple[jax.Array, jax.Array]]
"""int32 scalar, where a block starts -> its scores, float32 [n, size], and its first slot."""


def best_scores(
    queries: jax.Array,
    labels: LabelRows,
    count: int,
    *,
    masked: Masked | None = None,
    added: Added | None = None,
    compute_dtype: jnp.dtype = jnp.float32,
    ordered: bool = True,
    kernel: str = "auto",
) -> Best:
    """The exact top `count` of the labels for each query; ties go to the lowest slot.

    Takes n x S x dim multiply-adds and the memory of one block, and reads each label's row once.

    Args:
      queries: float32 [n, dim].
      labels: the S sampled labels, or all of a shard.
      count: how many to keep.
      masked: pairs that must not be chosen.
      added: values to add to the scores of some pairs.
      compute_dtype: type of the factors of the matrix product; it accumulates in float32.
      ordered: whether to return scores in descending order. On a CPU, to sort hundreds takes longer
        than to find them.
      kernel: auto or off; see `snm.topk.kernel.choice`.

    Returns:
      The top scores and their slots.
    """
    by_kernel = kernel_form(
        kernel,
        queries,
        labels,
        count,
        masked=masked is not None,
        added=added is not None,
        compute_dtype=compute_dtype,
    )
    if by_kernel is not None:
        return by_kernel(queries, labels, masked, added)
    return _search_blocks(queries, labels, count, masked, added, compute_dtype, ordered)


def _make_plans(num_slots: int, numbers_per_slot: int) -> tuple[BlockPlan, BlockPlan]:
    """Plans the blocks of a search, and those of `_by_folds`, for this platform.

    Args:
      num_slots: the slots to search.
      numbers_per_slot: scores of a slot, and numbers of its row.
    """
    if platform() == "cpu":
        plan = block_plan(num_slots, _CPU_BLOCK)
        return plan, plan
    longest = max(_CPU_BLOCK, _ACCELERATOR_NUMBERS // numbers_per_slot)
    after_tie = max(_CPU_BLOCK, longest // _FALLBACK_DIVISOR)
    return block_plan(num_slots, longest), block_plan(num_slots, after_tie)


def _search_blocks(
    queries: jax.Array,
    labels: LabelRows,
    count: int,
    masked: Masked | None,
    added: Added | None,
    compute_dtype: jnp.dtype,
    ordered: bool,
) -> Best:
    """Chooses a way to search, and searches."""
    on_cpu = platform() == "cpu"
    plan, fold_plan = _make_plans(labels.num_searched, sum(queries.shape))

    def block_scores(start: jax.Array, *, size: int) -> tuple[jax.Array, jax.Array]:
        block = labels.block(start, size)

        def product() -> jax.Array:
            return score_rows(
                queries, block, masked=masked, added=added, compute_dtype=compute_dtype
            )

        def masked_product() -> jax.Array:
            return jnp.where(block.real[None, :], product(), MASKED)

        # XLA:CPU writes a masked copy of all scores, which most blocks do not need. An accelerator
        # fuses the mask, and a branch would make it wait for the host.
        if on_cpu:
            return lax.cond(jnp.all(block.real), product, masked_product), block.begin
        return masked_product(), block.begin

    n = queries.shape[0]
    starts, fold_starts = plan.starts, fold_plan.starts
    none = Best(jnp.full((n, count), MASKED), jnp.zeros((n, count), jnp.int32))
    score = functools.partial(block_scores, size=plan.size)

    if count * for_platform(_FOLDS_PER_SCORE) <= plan.size // WIDTH:
        no_folds = _Folds(none.scores, jnp.full((n, count, WIDTH), MASKED), none.slots)
        score_folds = functools.partial(block_scores, size=fold_plan.size)
        by_folds = functools.partial(_by_folds, score_folds, fold_starts, no_folds)
        if on_cpu:
            return by_folds()
        best, exact = _by_strided_folds(score, starts, none)
        return lax.cond(exact, lambda: best, by_folds)

    by_merging = functools.partial(_by_merging, score, starts, none)
    quota = choose_quota(count, plan.num_blocks, plan.size)
    if not on_cpu or labels.ids is None or quota is None:
        return by_merging()
    best, exact = _by_quotas(score, starts, count, quota, ordered)
    return lax.cond(exact, lambda: best, by_merging)


def _by_merging(score: _ScoreBlock, starts: jax.Array, none: Best) -> Best:
    """Merges the scores of each block into the running top k."""

    def merge_block(best: Best, start: jax.Array) -> tuple[Best, None]:
        scores, begin = score(start)
        slots = begin + jnp.arange(scores.shape[1], dtype=jnp.int32)
        return merge_best(best, Best(scores, jnp.broadcast_to(slots[None, :], scores.shape))), None

    return _scan_blocks(merge_block, none, starts)[0]


def _by_folds(score: _ScoreBlock, starts: jax.Array, none: _Folds) -> Best:
    """Keeps the folds with the highest maxima, and searches these at the end."""

    def merge_block(best: _Folds, start: jax.Array) -> tuple[_Folds, None]:
        return _merge_folds(best, *score(start)), None

    return _scan_blocks(merge_block, none, starts)[0].top_scores()


def _by_strided_folds(score: _ScoreBlock, starts: jax.Array, none: Best) -> tuple[Best, jax.Array]:
    """Merges the top k of each block; False if ties make the result of a block inexact."""

    def merge_block(carry: tuple[Best, jax.Array], start: jax.Array) -> tuple:
        best, exact = carry
        block_best, block_exact = strided_top_k(*score(start), best.scores.shape[1])
        return (merge_best(best, block_best), exact & block_exact), None

    return _scan_blocks(merge_block, (none, jnp.bool_(True)), starts)[0]


def _by_quotas(
    score: _ScoreBlock, starts: jax.Array, count: int, quota: Quota, ordered: bool
) -> tuple[Best, jax.Array]:
    """Takes a quota of candidates from each block; False if a block may have had more."""

    def select_candidates(_: None, start: jax.Array) -> tuple[None, Candidates]:
        return None, block_candidates(*score(start), quota)

    candidates = _scan_blocks(select_candidates, None, starts)[1]
    scores, slots, exact = merge_candidates(candidates, count, ordered=ordered)
    return Best(scores, slots), exact


def _scan_blocks(body: Callable, start: Any, starts: jax.Array) -> tuple[Any, Any]:
    if starts.shape[0] == 1:
        carry, out = body(start, starts[0])
        return carry, jax.tree.map(lambda x: x[None], out)
    return lax.scan(body, start, starts)


class _Folds(NamedTuple):
    """The folds (16 neighbouring slots each) with the highest maxima so far, by ascending slot.

    The top `count` scores lie in the `count` folds with the highest maxima. So for a small count
    most scores are read once, for their fold's maximum, and only the last folds are searched.

    Attributes:
      maxima: float32 [n, count], the highest score of each fold.
      scores: float32 [n, count, 16].
      starts: int32 [n, count], the first slot of each fold.
    """

    maxima: jax.Array
    scores: jax.Array
    starts: jax.Array

    def top_scores(self) -> Best:
        """The top `count` scores of the folds."""
        n, count, width = self.scores.shape
        slots = self.starts[:, :, None] + jnp.arange(width, dtype=jnp.int32)[None, None, :]
        top, columns = parallel_top_k(self.scores.reshape(n, count * width), count)
        return Best(top, jnp.take_along_axis(slots.reshape(n, count * width), columns, axis=1))


def _merge_folds(best: _Folds, scores: jax.Array, begin: jax.Array) -> _Folds:
    """Merges the folds of a block into the running folds.

    Args:
      best: the running folds.
      scores: float32 [n, size].
      begin: int32 scalar, the block's first slot.
    """
    n, count = best.maxima.shape
    folded = scores.reshape(n, -1, WIDTH)
    maxima = jnp.concatenate([best.maxima, jnp.max(folded, axis=-1)], axis=1)
    _, chosen = lax.top_k(maxima, count)
    chosen = jnp.sort(chosen, axis=-1)  # ascending slots, so that ties go to the lowest
    from_best = chosen < count
    old, new = jnp.minimum(chosen, count - 1), jnp.maximum(chosen - count, 0)
    return _Folds(
        jnp.take_along_axis(maxima, chosen, axis=1),
        jnp.where(from_best[:, :, None], _take_folds(best.scores, old), _take_folds(folded, new)),
        jnp.where(from_best, jnp.take_along_axis(best.starts, old, axis=1), begin + new * WIDTH),
    )


def _take_folds(folds: jax.Array, chosen: jax.Array) -> jax.Array:
    return jnp.take_along_axis(folds, chosen[:, :, None], axis=1)

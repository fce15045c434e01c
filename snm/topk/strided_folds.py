"""The top k of a block of scores on an accelerator: maxima over folds, then the folds that hold it.

The top `count` scores lie in the `count` folds with the highest maxima, so most scores are read
once. On a CPU `snm.topk.search` folds neighbouring slots. A TPU keeps slots along the sublanes of a
register, and XLA:GPU along the threads of a warp: a maximum over neighbours moves numbers between
them. Here a fold takes every F-th slot of a block of 16 F, and maxima are taken of whole vectors.

Where folds tie for the last place, the lowest slot may be in one that was not chosen. A flag tells.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from snm.losses.reductions import unmasked
from snm.topk.blocks import WIDTH, Best
from snm.topk.parallel import parallel_top_k

__all__ = ["merged_in_order", "top_of_strided_folds"]


def top_of_strided_folds(scores: jax.Array, begin: jax.Array, count: int) -> tuple[Best, jax.Array]:
    """The top `count` of a block, and whether they are sure to be those of a stable sort.

    Args:
      scores: float32 [n, size], size a multiple of 16.
      begin: int32 scalar, the block's first slot.
      count: at most size / 16.

    Returns:
      The best, in descending order, and a bool scalar. It is False if folds tie for the last place.
    """
    n, size = scores.shape
    folds = size // WIDTH
    parts = [lax.slice_in_dim(scores, i * folds, (i + 1) * folds, axis=1) for i in range(WIDTH)]
    maxima = parts[0]
    for part in parts[1:]:
        maxima = jnp.maximum(maxima, part)
    maxima = lax.optimization_barrier(maxima)  # or XLA takes them again below, from all scores
    highest, chosen = lax.top_k(maxima, count)
    # Ascending slots, so that ties go to the lowest: by part, then by place in it.
    chosen = jnp.sort(chosen, axis=1)
    offsets = jnp.arange(WIDTH, dtype=jnp.int32) * folds
    columns = (offsets[None, :, None] + chosen[:, None, :]).reshape(n, WIDTH * count)
    top, place = lax.top_k(jnp.take_along_axis(scores, columns, axis=1), count)
    slots = begin + jnp.take_along_axis(columns, place, axis=1)
    # Only folds not chosen that reach the last place can hold a lower slot of the same score.
    # jnp.min, not a slice: XLA:CPU sorts whole rows if a top-k is sliced.
    last = jnp.min(top, axis=1)
    at_last = jnp.sum(maxima >= last[:, None], axis=1) > jnp.sum(highest >= last[:, None], axis=1)
    return Best(top, slots), ~jnp.any(at_last & unmasked(last))


def merged_in_order(first: Best, second: Best) -> Best:
    """The best of both, as many as `first` has, whose slots are all below those of `second`."""
    scores = jnp.concatenate([first.scores, second.scores], axis=1)
    slots = jnp.concatenate([first.slots, second.slots], axis=1)
    top, place = parallel_top_k(scores, first.scores.shape[1])
    return Best(top, jnp.take_along_axis(slots, place, axis=1))

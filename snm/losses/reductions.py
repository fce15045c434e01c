"""Masking, ranking and reducing: written here once for every loss.

Masked scores are replaced before anything is computed from them, not only weighed with zero: the
gradient of an infinite value times zero would be NaN.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from snm.errors import InputError

__all__ = [
    "MASKED",
    "Reduce",
    "as_mask",
    "check_ranks",
    "log_sum_exp",
    "padding_zeroed",
    "ranked",
    "reduced",
    "scored_pairs",
    "split_positive",
    "unmasked",
    "weighed",
    "widened",
]

Reduce = Callable[[jax.Array], jax.Array]

MASKED = -1e30
"""The score of a label that must not be chosen. Finite, so that no gradient becomes 0 * inf;
softmax and the surrogates of the repository give it the loss 0 and the gradient 0."""


def unmasked(scores: jax.Array) -> jax.Array:
    """Which scores are of labels that may be chosen: bool, as `scores`."""
    return scores > MASKED / 2


def widened(*scores: ArrayLike) -> tuple[tuple[jax.Array, ...], jnp.dtype]:
    """The scores in their common dtype, or float32 if that is narrower, and the common dtype."""
    arrays = [jnp.asarray(score) for score in scores]
    dtype = jnp.result_type(*arrays)
    if not jnp.issubdtype(dtype, jnp.floating):
        dtype = jnp.result_type(float)
    wide = jnp.promote_types(dtype, jnp.float32)
    return tuple(array.astype(wide) for array in arrays), dtype


def as_mask(where: ArrayLike | None, shape: tuple[int, ...]) -> jax.Array:
    """The mask in full shape; None is everything."""
    return jnp.broadcast_to(jnp.asarray(True if where is None else where, bool), shape)


def split_positive(
    scores: ArrayLike, labels: ArrayLike, where: ArrayLike | None
) -> tuple[jax.Array, jax.Array]:
    """The scores [...] of the labels [...], and the mask [..., K] of the other unmasked labels.

    The score of a label that is out of range is NaN, where it is not known before the program runs.

    Raises:
      InputError: labels that are no integers, or in an array of NumPy or a list, out of range.
    """
    count = np.shape(scores)[-1]
    labels = labels if isinstance(labels, jax.Array) else np.asarray(labels)
    if not jnp.issubdtype(labels.dtype, jnp.integer):
        raise InputError("labels", f"labels of {labels.dtype}", f"integers, 0 to {count - 1}")
    if isinstance(labels, np.ndarray) and labels.size:
        low, high = np.min(labels), np.max(labels)
        if not 0 <= low <= high < count:
            found = f"label {low if low < 0 else high}"
            raise InputError("labels", found, f"0 to {count - 1}, the columns of the scores")
    # Labels may come in a type that holds fewer numbers than there are labels.
    scores, column = jnp.asarray(scores), jnp.asarray(labels)[..., None].astype(jnp.int32)
    column = jnp.where(column < 0, count, column)  # -1 would be the last one
    ids = jax.lax.broadcasted_iota(jnp.int32, scores.shape, scores.ndim - 1)
    positive = jnp.take_along_axis(scores, column, axis=-1)[..., 0]
    return positive, (ids != column) & as_mask(where, scores.shape)


def scored_pairs(
    positive_scores: ArrayLike, negative_scores: ArrayLike, weights: ArrayLike | None
) -> tuple[tuple[jax.Array, jax.Array], jnp.dtype]:
    """As `widened`, of positives [...] and negatives [..., m], with `padding_zeroed`.

    Raises:
      InputError: other shapes: a column of positives would meet the negatives of every example.
    """
    (positive, negative), dtype = widened(positive_scores, negative_scores)
    if positive.shape != negative.shape[:-1]:
        found = f"positive scores {list(positive.shape)}, negative scores {list(negative.shape)}"
        raise InputError("scores", found, "one positive for each list of negatives: [n] and [n, m]")
    positive = padding_zeroed(weights, positive[..., None])[..., 0]
    return (positive, padding_zeroed(weights, negative)), dtype


def check_ranks(weights: ArrayLike, most: int) -> None:
    """Raises `InputError` if there are more rank weights than scores can have ranks, or no axis."""
    if not np.ndim(weights):
        raise InputError("rank weights", "a number", "an array [r], a weight a rank")
    if np.shape(weights)[-1] > most:
        raise InputError("rank weights", f"{np.shape(weights)[-1]} of them", f"at most {most}")


def ranked(
    scores: jax.Array, weights: ArrayLike, where: ArrayLike | None, *, presorted: bool
) -> tuple[jax.Array, jax.Array]:
    """The scores that can weigh something, and the weight of each by its rank.

    Ranks are counted from the largest score among those unmasked.

    Args:
      scores: [..., m].
      weights: [r] or [..., r] with r <= m; ranks after r weigh nothing.
      where: `bool` [..., m], or None.
      presorted: Whether the unmasked scores are non-increasing already.

    Returns:
      Scores and weights, [..., r] or [..., m]; where masked, both are 0.
    """
    check_ranks(weights, scores.shape[-1])
    batch, count, ranks = scores.shape[:-1], scores.shape[-1], np.shape(weights)[-1]
    # Equal weights for all (negative sampling) need no ranks, hence no sort and no lookup. Only
    # weights on the host can be looked at here.
    same = ranks == count > 0 and not isinstance(weights, jax.Array) and np.ptp(weights) == 0
    weights = jnp.asarray(weights, scores.dtype)
    if where is None or ranks == 0:
        kept = scores[..., :ranks] if presorted or same else jax.lax.top_k(scores, ranks)[0]
        return kept, jnp.broadcast_to(weights, (*batch, ranks))
    where = as_mask(where, scores.shape)
    if same:
        kept, counts = scores, where
    elif presorted:
        rank = jnp.cumsum(where, axis=-1) - 1
        kept, counts = scores, where & (rank < ranks)
        rank = jnp.clip(rank, 0, ranks - 1)
        if weights.ndim == 1:
            weights = weights[rank]
        else:
            weights = jnp.broadcast_to(weights, (*batch, ranks))
            weights = jnp.take_along_axis(weights, rank, axis=-1)
    else:
        # A count, not the value -inf, tells the masked from the unmasked once they are sorted.
        kept = jax.lax.top_k(jnp.where(where, scores, -jnp.inf), ranks)[0]
        unmasked = jnp.sum(where, axis=-1, keepdims=True)
        counts = jax.lax.broadcasted_iota(unmasked.dtype, kept.shape, kept.ndim - 1) < unmasked
    weights = jnp.broadcast_to(weights, kept.shape)
    return jnp.where(counts, kept, 0), jnp.where(counts, weights, 0)


def log_sum_exp(scores: jax.Array, where: jax.Array) -> tuple[jax.Array, jax.Array]:
    """log(sum(exp(scores))) over the unmasked of the last axis, and whether there are any.

    Where there are none the value is 0, with a zero gradient; the caller says what it stands for.
    """
    some = jnp.any(where, axis=-1)
    # The largest score is a constant shift: it cancels from the value, so from the gradient too.
    shift = jax.lax.stop_gradient(jnp.max(scores, axis=-1, initial=-jnp.inf, where=where))
    shift = jnp.where(some, shift, 0)
    terms = jnp.where(where, jnp.exp(jnp.where(where, scores - shift[..., None], 0)), 0)
    return shift + jnp.log(jnp.where(some, jnp.sum(terms, axis=-1), 1)), some


def padding_zeroed(weights: ArrayLike | None, scores: jax.Array) -> jax.Array:
    """Scores [..., m] of examples, 0 where the weight [...] of the example is 0 (padding).

    So whatever such a score is, neither the loss nor the gradient of another is NaN for it.
    """
    if weights is None:
        return scores
    counts = jnp.broadcast_to(jnp.asarray(weights) != 0, scores.shape[:-1])
    return jnp.where(counts[..., None], scores, 0)


def reduced(
    values: jax.Array, weights: ArrayLike | None, reduce_fn: Reduce | None, dtype: jnp.dtype
) -> jax.Array:
    """Weighs the values [...], reduces them in their own dtype, then returns to `dtype`.

    A value of weight 0 counts as 0 also where it is infinite or NaN.
    """
    if weights is not None:
        weights = jnp.broadcast_to(jnp.asarray(weights, values.dtype), values.shape)
        values = weighed(weights, values)
    return (values if reduce_fn is None else reduce_fn(values)).astype(dtype)


def weighed(weights: jax.Array, values: jax.Array) -> jax.Array:
    """Their product; 0 where the weight is 0 (padding), whatever the value."""
    return jnp.where(weights != 0, weights * values, 0)

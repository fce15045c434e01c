"""Masking, ranking and reducing, shared by all losses.

Masked scores are replaced before anything is computed from them. To multiply by a weight of 0 is
not enough: the gradient of an infinite value times zero is NaN.
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
    "apply_weights",
    "as_mask",
    "check_ranks",
    "log_sum_exp",
    "prepare_pairs",
    "promote_scores",
    "rank_scores",
    "reduce_losses",
    "split_positive",
    "unmasked",
    "zero_padding",
]

Reduce = Callable[[jax.Array], jax.Array]

MASKED = -1e30
"""The score of a label that must not be chosen. Finite, so that no gradient becomes 0 * inf;
softmax and the surrogates of the repository give it the loss 0 and the gradient 0."""


def unmasked(scores: jax.Array) -> jax.Array:
    """True where a score belongs to a label that may be chosen: bool, in the shape of `scores`."""
    return scores > MASKED / 2


def promote_scores(*scores: ArrayLike) -> tuple[tuple[jax.Array, ...], jnp.dtype]:
    """Converts scores to their common dtype, at least float32; also returns the common dtype.

    Raises:
      InputError: the scores are complex.
    """
    arrays = [jnp.asarray(score) for score in scores]
    dtype = jnp.result_type(*arrays)
    if jnp.issubdtype(dtype, jnp.complexfloating):
        raise InputError("scores", f"scores of {dtype}", "real numbers")
    if not jnp.issubdtype(dtype, jnp.floating):
        dtype = jnp.result_type(float)
    compute_dtype = jnp.promote_types(dtype, jnp.float32)
    return tuple(array.astype(compute_dtype) for array in arrays), dtype


def _check_broadcast(name: str, found: tuple[int, ...], shape: tuple[int, ...]) -> None:
    """Raises `InputError` if an argument of shape `found` cannot be broadcast to `shape`."""
    fits = len(found) <= len(shape) and all(
        size in (1, of_shape)
        for size, of_shape in zip(reversed(found), reversed(shape), strict=False)
    )
    if not fits:
        raise InputError(name, f"shape {list(found)}", f"{list(shape)}, or what broadcasts to it")


def as_mask(where: ArrayLike | None, shape: tuple[int, ...], *, name: str = "where") -> jax.Array:
    """The mask, broadcast to `shape`; None masks nothing.

    Raises:
      InputError: it has another shape; `name` is that of the argument.
    """
    mask = jnp.asarray(True if where is None else where, bool)
    _check_broadcast(name, mask.shape, shape)
    return jnp.broadcast_to(mask, shape)


def split_positive(
    scores: ArrayLike, labels: ArrayLike, where: ArrayLike | None
) -> tuple[jax.Array, jax.Array]:
    """The scores [...] of the labels [...], and the mask [..., K] of the other unmasked labels.

    A label out of range raises an error if `labels` is a list or a NumPy array. In a JAX array,
    whose values may not be known yet, its score is NaN.

    Raises:
      InputError: the labels are not integers, not one for each example, or one of a list or NumPy
        array is out of range.
    """
    shape = np.shape(scores)
    if not shape:
        raise InputError("scores", "a number", "an array [..., K], a score a label")
    num_labels = shape[-1]
    labels = labels if isinstance(labels, jax.Array) else np.asarray(labels)
    if not jnp.issubdtype(labels.dtype, jnp.integer):
        raise InputError("labels", f"labels of {labels.dtype}", f"integers, 0 to {num_labels - 1}")
    if labels.shape != shape[:-1]:
        found = f"labels {list(labels.shape)}, scores {list(shape)}"
        raise InputError("labels", found, f"one for each example: {list(shape[:-1])}")
    if isinstance(labels, np.ndarray) and labels.size:
        low, high = np.min(labels), np.max(labels)
        if not 0 <= low <= high < num_labels:
            found = f"label {low if low < 0 else high}"
            raise InputError("labels", found, f"0 to {num_labels - 1}, the columns of the scores")
    # The dtype of the labels may be too narrow for the number of labels.
    scores, column = jnp.asarray(scores), jnp.asarray(labels)[..., None].astype(jnp.int32)
    column = jnp.where(column < 0, num_labels, column)  # -1 would be the last column
    ids = jax.lax.broadcasted_iota(jnp.int32, scores.shape, scores.ndim - 1)
    positive = jnp.take_along_axis(scores, column, axis=-1)[..., 0]
    return positive, (ids != column) & as_mask(where, scores.shape)


def prepare_pairs(
    positive_scores: ArrayLike, negative_scores: ArrayLike, weights: ArrayLike | None
) -> tuple[tuple[jax.Array, jax.Array], jnp.dtype]:
    """Checks positives [...] and negatives [..., m]; applies `promote_scores` and `zero_padding`.

    Raises:
      InputError: other shapes. Broadcasting would pair a positive with the negatives of another
        example.
    """
    (positive, negative), dtype = promote_scores(positive_scores, negative_scores)
    if positive.shape != negative.shape[:-1]:
        found = f"positive scores {list(positive.shape)}, negative scores {list(negative.shape)}"
        raise InputError("scores", found, "one positive for each list of negatives: [n] and [n, m]")
    positive = zero_padding(weights, positive[..., None])[..., 0]
    return (positive, zero_padding(weights, negative)), dtype


def check_ranks(weights: ArrayLike, num_ranks: int) -> None:
    """Checks rank weights [..., r]; their numbers only on the host, where they are known.

    They may increase, though the theorems need weights that do not.

    Raises:
      InputError: there are more than ranks, `weights` is a scalar, or one is negative or NaN.
    """
    if not np.ndim(weights):
        raise InputError("rank weights", "a number", "an array [r], a weight a rank")
    if np.shape(weights)[-1] > num_ranks:
        raise InputError("rank weights", f"{np.shape(weights)[-1]} of them", f"at most {num_ranks}")
    if not isinstance(weights, jax.Array) and not (np.asarray(weights) >= 0).all():
        raise InputError("rank weights", "a negative weight or NaN", "weights >= 0")


def rank_scores(
    scores: jax.Array, weights: ArrayLike, where: ArrayLike | None, *, presorted: bool
) -> tuple[jax.Array, jax.Array]:
    """The highest unmasked scores, and the weight of each by its rank.

    Rank 1 is the largest unmasked score.

    Args:
      scores: [..., m].
      weights: [r] or [..., r] with r <= m; ranks after r have weight 0.
      where: `bool` [..., m], or None.
      presorted: whether the unmasked scores are non-increasing already.

    Returns:
      Scores and weights, [..., r] or [..., m]; where masked, both are 0.
    """
    check_ranks(weights, scores.shape[-1])
    batch, count, num_ranks = scores.shape[:-1], scores.shape[-1], np.shape(weights)[-1]
    _check_broadcast("rank weights", np.shape(weights), (*batch, num_ranks))
    # Equal weights for all scores (negative sampling) need no sort. Only weights on the host can be
    # compared here.
    on_host = not isinstance(weights, jax.Array)
    equal_weights = num_ranks == count > 0 and on_host and np.ptp(weights) == 0
    weights = jnp.asarray(weights, scores.dtype)
    if where is None or num_ranks == 0:
        sort = not (presorted or equal_weights)
        top_scores = jax.lax.top_k(scores, num_ranks)[0] if sort else scores[..., :num_ranks]
        return top_scores, jnp.broadcast_to(weights, (*batch, num_ranks))
    where = as_mask(where, scores.shape)
    if equal_weights:
        top_scores, valid = scores, where
    elif presorted:
        rank = jnp.cumsum(where, axis=-1) - 1
        top_scores, valid = scores, where & (rank < num_ranks)
        rank = jnp.clip(rank, 0, num_ranks - 1)
        if weights.ndim == 1:
            weights = weights[rank]
        else:
            weights = jnp.broadcast_to(weights, (*batch, num_ranks))
            weights = jnp.take_along_axis(weights, rank, axis=-1)
    else:
        # An unmasked score may be -inf too, so masked scores are told by their number.
        top_scores = jax.lax.top_k(jnp.where(where, scores, -jnp.inf), num_ranks)[0]
        num_valid = jnp.sum(where, axis=-1, keepdims=True)
        column = jax.lax.broadcasted_iota(num_valid.dtype, top_scores.shape, top_scores.ndim - 1)
        valid = column < num_valid
    weights = jnp.broadcast_to(weights, top_scores.shape)
    return jnp.where(valid, top_scores, 0), jnp.where(valid, weights, 0)


def log_sum_exp(scores: jax.Array, where: jax.Array) -> tuple[jax.Array, jax.Array]:
    """log(sum(exp(scores))) over the unmasked scores of the last axis, and whether there are any.

    Where all are masked, the value and its gradient are 0.

    Returns:
      The values [...], and bool [...], False where all are masked.
    """
    nonempty = jnp.any(where, axis=-1)
    # The largest score is a constant shift: it cancels from the value, so from the gradient too.
    shift = jax.lax.stop_gradient(jnp.max(scores, axis=-1, initial=-jnp.inf, where=where))
    shift = jnp.where(nonempty, shift, 0)
    terms = jnp.where(where, jnp.exp(jnp.where(where, scores - shift[..., None], 0)), 0)
    return shift + jnp.log(jnp.where(nonempty, jnp.sum(terms, axis=-1), 1)), nonempty


def zero_padding(weights: ArrayLike | None, scores: jax.Array) -> jax.Array:
    """Sets the scores [..., m] to 0 where the weight [...] of their example is 0 (padding).

    Otherwise a NaN or infinite score in padding could make other examples' gradients NaN.
    """
    if weights is None:
        return scores
    weights = jnp.asarray(weights)
    _check_broadcast("weights", weights.shape, scores.shape[:-1])
    real = jnp.broadcast_to(weights != 0, scores.shape[:-1])
    return jnp.where(real[..., None], scores, 0)


def reduce_losses(
    values: jax.Array, weights: ArrayLike | None, reduce_fn: Reduce | None, dtype: jnp.dtype
) -> jax.Array:
    """Multiplies values [...] by their weights, reduces them, and converts the result to `dtype`.

    A value of weight 0 counts as 0, even if it is infinite or NaN.
    """
    if weights is not None:
        weights = jnp.broadcast_to(jnp.asarray(weights, values.dtype), values.shape)
        values = apply_weights(weights, values)
    return (values if reduce_fn is None else reduce_fn(values)).astype(dtype)


def apply_weights(weights: jax.Array, values: jax.Array) -> jax.Array:
    """Weights * values; 0 where the weight is 0 (padding), even if the value is infinite or NaN."""
    return jnp.where(weights != 0, weights * values, 0)

"""Softmax cross-entropy, in natural logarithms: sampled, full, and with several positives.

The sampled softmax is a biased estimate of the full one: the expectation of the logarithm of a sum
is not the logarithm of its expectation. The logQ correction (`log_weights`) makes it consistent as
the sample grows, not unbiased. Over *mined* negatives the bias is larger: the labels with the
highest scores are not a random sample, and no correction by sampling probabilities removes it.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from snm.losses.reductions import (
    Reduce,
    as_mask,
    log_sum_exp,
    prepare_pairs,
    promote_scores,
    reduce_losses,
    split_positive,
    zero_padding,
)

__all__ = ["decoupled_softmax", "sampled_softmax", "softmax"]


def sampled_softmax(
    positive_scores: ArrayLike,
    negative_scores: ArrayLike,
    *,
    log_weights: ArrayLike | None = None,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    score_scale: ArrayLike = 1.0,
    reduce_fn: Reduce | None = jnp.mean,
) -> jax.Array:
    r"""Cross-entropy of a positive against sampled negatives; biased, as the module docstring says.

    .. math:: L = -\log \frac{\exp(c v_y)}{\exp(c v_y) + \sum_j w_j \exp(c v_j)}

    Args:
      positive_scores: [...], any float dtype.
      negative_scores: [..., m], in any order.
      log_weights: [m] or [..., m], log w_j; None is all 0. For a negative drawn with expected count
        q_j this is -log(q_j) (logQ correction): log((K - 1) / B) each for a uniform sample.
      where: `bool` [..., m]; a negative where it is False takes no part.
      weights: [...], multiplies each example's loss.
      score_scale: Scalar c, an inverse temperature; may be learned.
      reduce_fn: Applied to the losses [...]; None returns them.

    Returns:
      The loss, in the dtype of the scores; 0 where every negative is masked.

    Example:
      >>> round(float(sampled_softmax(1.0, [1.0, 1.0, 1.0])), 4)  # log 4
      1.3863

    References:
      Bengio and Senécal (2008) and Jean et al. (2015), the logQ correction.
    """
    (positive, negative), dtype = prepare_pairs(positive_scores, negative_scores, weights)
    mask = as_mask(where, negative.shape)
    if log_weights is not None:
        log_weights = jnp.broadcast_to(jnp.asarray(log_weights, negative.dtype), negative.shape)
        mask &= log_weights != -jnp.inf  # NaN stays, so that the loss shows it
    # Subtract before scaling, so that close scores with a large common offset lose no digits. Mask
    # before scaling too, or masked scores would enter the gradient of the scale.
    margins = jnp.where(mask, negative - positive[..., None], 0)
    margins = margins * jnp.asarray(score_scale, negative.dtype)
    if log_weights is not None:
        margins = margins + jnp.where(mask, log_weights, 0)
    log_sum, has_negatives = log_sum_exp(margins, mask)
    values = jnp.where(has_negatives, jax.nn.softplus(log_sum), 0)
    return reduce_losses(values, weights, reduce_fn, dtype)


def softmax(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    score_scale: ArrayLike = 1.0,
    reduce_fn: Reduce | None = jnp.mean,
) -> jax.Array:
    r"""Cross-entropy of full score vectors, one positive each.

    .. math:: \ell(v, y) = -\log \frac{\exp(c v_y)}{\sum_j \exp(c v_j)}

    Args:
      scores: [..., K], any float dtype.
      labels: int [...], the positive of each example, in [0, K).
      where: `bool` [..., K]; a label other than the positive takes no part where it is False.
      weights: [...], multiplies each example's loss.
      score_scale: Scalar c, an inverse temperature; may be learned.
      reduce_fn: Applied to the losses [...]; None returns them.

    Returns:
      The loss, in the dtype of the scores.

    Example:
      >>> round(float(softmax([0.0, 0.0], 1)), 4)  # log 2
      0.6931
    """
    positive, others = split_positive(scores, labels, where)
    return sampled_softmax(
        positive,
        scores,
        where=others,
        weights=weights,
        score_scale=score_scale,
        reduce_fn=reduce_fn,
    )


def decoupled_softmax(
    scores: ArrayLike,
    positives: ArrayLike,
    *,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    score_scale: ArrayLike = 1.0,
    reduce_fn: Reduce | None = jnp.mean,
) -> jax.Array:
    r"""Cross-entropy averaged over positives that do not compete with one another.

    .. math::
      \ell(v, P) = -\frac{1}{|P|} \sum_{p \in P}
        \log \frac{\exp(c v_p)}{\exp(c v_p) + \sum_{j \notin P} \exp(c v_j)}

    Args:
      scores: [..., K], any float dtype.
      positives: `bool` [..., K], True at the positives P of each example.
      where: `bool` [..., K]; a label, positive or not, takes no part where it is False.
      weights: [...], multiplies each example's loss.
      score_scale: Scalar c, an inverse temperature; may be learned.
      reduce_fn: Applied to the losses [...]; None returns them.

    Returns:
      The loss, in the dtype of the scores; 0 for an example without positives or without negatives.

    Example:
      >>> round(float(decoupled_softmax([0.0, 0.0, 0.0], [True, True, False])), 4)  # log 2
      0.6931

    References:
      Gupta et al. (2024), the decoupled softmax.
    """
    (raw,), dtype = promote_scores(scores)
    raw = zero_padding(weights, raw)
    present = as_mask(where, raw.shape)
    scaled = jnp.where(present, raw, 0) * jnp.asarray(score_scale, raw.dtype)
    is_positive = as_mask(positives, scaled.shape, name="positives") & present
    log_sum, has_negatives = log_sum_exp(scaled, present & ~is_positive)
    valid = is_positive & has_negatives[..., None]
    terms = jax.nn.softplus(jnp.where(valid, log_sum[..., None] - scaled, 0))
    num_positives = jnp.maximum(jnp.sum(is_positive, axis=-1), 1).astype(terms.dtype)
    values = jnp.sum(jnp.where(valid, terms, 0), axis=-1) / num_positives
    return reduce_losses(values, weights, reduce_fn, dtype)

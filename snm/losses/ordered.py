"""Losses on scores: pairwise and binary ordered weighted losses, and their sampled forms.

Every loss takes scores and returns one value per example, reduced by `reduce_fn`. The last axis
holds labels, the leading axes are the batch. A loss takes no model and no label ids.

The loss of a full score vector is computed as the sampled loss of all labels, with the positive
masked. Results of Reddi et al. (2019):

* With weights `vartheta` on a uniform sample of B labels, the expected loss is the full loss with
  the weights of `theta.theta_from_vartheta`, and its gradient is unbiased (Lemma 2).
* The loss is convex in the scores for a convex `phi` and non-increasing weights (Theorem 2). It is
  proved calibrated only where `phi` is differentiable with a negative slope on (-inf, 0] (the hinge
  is not differentiable), theta_j = 1/k for j <= k and theta_j <= 1/k beyond, the labels'
  distribution obeys condition (3) and, for BOWL, every theta_j > 0 (Theorem 4). Top-k' mining gives
  the last ranks no weight: see `rank_weights.epsilon_tail`.
* It bounds the retrieval loss if theta_j = 1/k for every j <= k (Theorem 3), which the `surrogate`
  scale gives for k' >= k. With the `mean` scale it does so at k = k' if all labels are sampled
  (B = K - 1), but in general it does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from snm.errors import InputError
from snm.losses.reductions import (
    Reduce,
    check_ranks,
    prepare_pairs,
    rank_scores,
    reduce_losses,
    split_positive,
)
from snm.losses.surrogates import Surrogate, check_surrogate, hinge

__all__ = [
    "bowl",
    "crammer_singer",
    "lee_lin_wahba",
    "powl",
    "sampled_bowl",
    "sampled_powl",
    "top_k_loss",
    "weston_watkins",
]


# Algorithm 1: losses of a positive and of sampled negatives.


def sampled_powl(
    positive_scores: ArrayLike,
    negative_scores: ArrayLike,
    *,
    vartheta: ArrayLike,
    phi: Surrogate = hinge,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    reduce_fn: Reduce | None = jnp.mean,
    presorted: bool = False,
) -> jax.Array:
    r"""Pairwise ordered weighted loss of a sample, the first line of Algorithm 1.

    .. math:: L = \sum_j \vartheta_j \phi(v_y - v_{[j]}), \quad v_{[1]} \ge v_{[2]} \ge \dots

    If only r' < len(vartheta) negatives are unmasked, they take the first r' weights; with none the
    loss is 0. If all m weights are equal and on the host (not traced), as in negative sampling,
    nothing is sorted.

    Args:
      positive_scores: [...], any float dtype.
      negative_scores: [..., m], the scores of the sampled (or mined) labels.
      vartheta: [r] or [..., r] with r <= m, non-negative; non-increasing, where convexity is
        wanted. Ranks after r weigh 0.
      phi: Surrogate of the 0/1 loss, applied to each margin.
      where: `bool` [..., m]; a negative where it is False takes no part and no rank.
      weights: [...], multiplies each example's loss.
      reduce_fn: Applied to the losses [...]; None returns them.
      presorted: Whether the unmasked negatives are non-increasing along the last axis already
        (masked ones may be anywhere). If True, nothing is sorted.

    Returns:
      The loss, in the dtype of the scores.

    Example:
      >>> float(sampled_powl(0.5, [0.25, 1.0, 0.75], vartheta=[0.5, 0.5]))  # (1.5 + 1.25) / 2
      1.375

    References:
      Reddi et al. (2019), Definition 3, Algorithm 1. Usunier et al. (2009).
    """
    check_surrogate(phi)
    (positive, negative), dtype = prepare_pairs(positive_scores, negative_scores, weights)
    hardest, weight = rank_scores(negative, vartheta, where, presorted=presorted)
    values = jnp.sum(weight * phi(positive[..., None] - hardest), axis=-1)
    return reduce_losses(values, weights, reduce_fn, dtype)


def sampled_bowl(
    positive_scores: ArrayLike,
    negative_scores: ArrayLike,
    *,
    vartheta: ArrayLike,
    phi: Surrogate = hinge,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    reduce_fn: Reduce | None = jnp.mean,
    presorted: bool = False,
) -> jax.Array:
    r"""Binary ordered weighted loss of a sample, the second line of Algorithm 1.

    .. math:: L = \phi(v_y) + \sum_j \vartheta_j \phi(-v_{[j]})

    With the hinge and scores in [-1, 1], no term is clipped: on the mined labels the loss is the
    linear function 1 - v_y + sum_j vartheta_j (1 + v_[j]) of the scores. With every negative
    masked it is phi(v_y).

    Args:
      positive_scores: [...], any float dtype.
      negative_scores: [..., m], the scores of the sampled (or mined) labels.
      vartheta: [r] or [..., r] with r <= m, as in `sampled_powl`.
      phi: Surrogate of the 0/1 loss, applied to the positive's score and each negative's, negated.
      where: `bool` [..., m], as in `sampled_powl`.
      weights: [...], multiplies each example's loss.
      reduce_fn: Applied to the losses [...]; None returns them.
      presorted: As in `sampled_powl`.

    Returns:
      The loss, in the dtype of the scores.

    Example:
      >>> float(sampled_bowl(0.5, [0.25, 1.0, 0.75], vartheta=[0.5, 0.5]))  # .5 + (2 + 1.75) / 2
      2.375

    References:
      Reddi et al. (2019), Definition 4, Algorithm 1.
    """
    check_surrogate(phi)
    (positive, negative), dtype = prepare_pairs(positive_scores, negative_scores, weights)
    hardest, weight = rank_scores(negative, vartheta, where, presorted=presorted)
    values = phi(positive) + jnp.sum(weight * phi(-hardest), axis=-1)
    return reduce_losses(values, weights, reduce_fn, dtype)


# Losses of full score vectors: every label but the positive is a negative.


def powl(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    theta: ArrayLike,
    phi: Surrogate = hinge,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    reduce_fn: Reduce | None = jnp.mean,
) -> jax.Array:
    r"""Pairwise ordered weighted loss of full score vectors.

    .. math:: \ell(v, y) = \sum_{j=1}^{K-1} \theta_j \phi(v_y - v^{-y}_{[j]})

    Args:
      scores: [..., K], any float dtype.
      labels: int [...], the positive of each example, in [0, K).
      theta: [r] or [..., r] with r <= K - 1, non-negative; non-increasing, where convexity is
        wanted. Ranks after r weigh 0.
      phi: Surrogate of the 0/1 loss.
      where: `bool` [..., K]; a label other than the positive takes no part where it is False.
      weights: [...], multiplies each example's loss.
      reduce_fn: Applied to the losses [...]; None returns them.

    Returns:
      The loss, in the dtype of the scores.

    Example:
      >>> float(powl([0.5, 0.25, 1.0], 0, theta=[1.0]))  # 1 - (0.5 - 1)
      1.5

    References:
      Reddi et al. (2019), Definition 3; Theorem 3: with theta_j = 1/k for j <= k it is at least
      I(y not in Top_k(v)).
    """
    options: dict[str, Any] = dict(phi=phi, where=where, weights=weights, reduce_fn=reduce_fn)
    return _of_all_labels(sampled_powl, scores, labels, theta, **options)


def bowl(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    theta: ArrayLike,
    phi: Surrogate = hinge,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    reduce_fn: Reduce | None = jnp.mean,
) -> jax.Array:
    r"""Binary ordered weighted loss of full score vectors.

    .. math:: \ell(v, y) = \phi(v_y) + \sum_{j=1}^{K-1} \theta_j \phi(-v^{-y}_{[j]})

    With theta_j = 1/k for j <= k and a *convex* phi it is at least twice the retrieval loss. The
    convexity is needed: the ramp with rho = 0.1, v_y = 0.5, v_1 = 0.6 and k = 1 gives 0 + 1 where
    the retrieval loss is 1, so the factor 2 is lost.

    Args:
      scores: [..., K], any float dtype.
      labels: int [...], the positive of each example, in [0, K).
      theta: [r] or [..., r] with r <= K - 1, as in `powl`.
      phi: Surrogate of the 0/1 loss.
      where: `bool` [..., K], as in `powl`.
      weights: [...], multiplies each example's loss.
      reduce_fn: Applied to the losses [...]; None returns them.

    Returns:
      The loss, in the dtype of the scores.

    Example:
      >>> float(bowl([0.5, 0.25, 1.0], 0, theta=[1.0]))  # (1 - 0.5) + (1 + 1)
      2.5

    References:
      Reddi et al. (2019), Definition 4, Theorem 3.
    """
    options: dict[str, Any] = dict(phi=phi, where=where, weights=weights, reduce_fn=reduce_fn)
    return _of_all_labels(sampled_bowl, scores, labels, theta, **options)


def crammer_singer(scores: ArrayLike, labels: ArrayLike, **options: Any) -> jax.Array:
    """Multiclass SVM loss: `powl` with theta = (1, 0, ..., 0) (Crammer and Singer, 2001).

    Args:
      scores: [..., K], any float dtype.
      labels: int [...], in [0, K).
      **options: `phi`, `where`, `weights`, `reduce_fn` of `powl`.

    Returns:
      The loss, in the dtype of the scores.

    Example:
      >>> float(crammer_singer([0.5, 0.25, 1.0], 0))
      1.5
    """
    return powl(scores, labels, theta=np.ones(1), **options)


def top_k_loss(scores: ArrayLike, labels: ArrayLike, k: int, **options: Any) -> jax.Array:
    """Top-k loss: `powl` with theta_j = 1/k for j <= k and 0 beyond.

    The mean of the k largest pairwise hinges; Lapin et al. (2015) also have a form that takes the
    hinge of the mean, which is smaller.

    Args:
      scores: [..., K], any float dtype.
      labels: int [...], in [0, K).
      k: The k of the retrieval loss that this bounds, from 1 to K - 1.
      **options: `phi`, `where`, `weights`, `reduce_fn` of `powl`.

    Returns:
      The loss, in the dtype of the scores.

    Example:
      >>> float(top_k_loss([0.5, 0.25, 1.0], 0, 2))  # (1.5 + 0.75) / 2
      1.125

    References:
      Lapin et al. (2015); Reddi et al. (2019), section 3.1, Theorem 3.
    """
    if k < 1:
        raise InputError("k of the top-k loss", str(k), "at least 1")
    return powl(scores, labels, theta=np.full(k, 1 / k), **options)


def weston_watkins(scores: ArrayLike, labels: ArrayLike, **options: Any) -> jax.Array:
    """Multiclass SVM loss over all pairs: `powl` with every theta_j = 1 (Weston, Watkins, 1998).

    Args:
      scores: [..., K], any float dtype.
      labels: int [...], in [0, K).
      **options: `phi`, `where`, `weights`, `reduce_fn` of `powl`.

    Returns:
      The loss, in the dtype of the scores.

    Example:
      >>> float(weston_watkins([0.5, 0.25, 1.0], 0))  # 0.75 + 1.5
      2.25
    """
    return _of_all_labels(sampled_powl, scores, labels, None, **options)


def lee_lin_wahba(scores: ArrayLike, labels: ArrayLike, **options: Any) -> jax.Array:
    """Multiclass SVM loss without pairs: `bowl` with every theta_j = 1.

    Lee et al. (2004) constrain the scores to add up to zero in place of the term phi(v_y), which
    Definition 4 of Reddi et al. (2019) adds.

    Args:
      scores: [..., K], any float dtype.
      labels: int [...], in [0, K).
      **options: `phi`, `where`, `weights`, `reduce_fn` of `bowl`.

    Returns:
      The loss, in the dtype of the scores.

    Example:
      >>> float(lee_lin_wahba([0.5, 0.25, 1.0], 0))  # 0.5 + 1.25 + 2
      3.75
    """
    return _of_all_labels(sampled_bowl, scores, labels, None, **options)


def _of_all_labels(
    sampled_loss: Callable[..., jax.Array],
    scores: ArrayLike,
    labels: ArrayLike,
    theta: ArrayLike | None,
    *,
    where: ArrayLike | None = None,
    **options: Any,
) -> jax.Array:
    """The sampled loss of all labels but the positive; with a theta of None, each weighs 1."""
    positive, others = split_positive(scores, labels, where)
    num_labels = others.shape[-1]
    if theta is None:
        theta = np.ones(num_labels)  # one for the masked positive too: so nothing is sorted
    else:
        check_ranks(theta, num_labels - 1)
    return sampled_loss(positive, scores, vartheta=theta, where=others, **options)

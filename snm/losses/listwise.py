r"""Losses on whole lists with graded labels: ListNet, ListMLE, RankCosine, RankSVM, smoothed DCG@1.

Every loss takes scores and relevance grades of the same shape: the last axis is the list, the
leading axes are the batch. As in `snm.losses.ordered`, everything after the arrays is keyword-only,
masked entries take no part, and the result is one value per list, reduced by `reduce_fn`.

ListNet, ListMLE and RankCosine apply a transformation psi to scores, and to grades that are scores
too: an increasing, strictly positive function of `snm.losses.transformations`.

References:
  Cao et al. (2007) ListNet; Xia et al. (2008) ListMLE; Qin et al. (2007) RankCosine; Joachims
  (2002) RankSVM; Chapelle and Wu (2010) smoothed DCG; the forms are those of Lan, Liu, Ma, Li
  (2009), section 3.2.1, and Tewari, Chaudhuri (2015), section 3.
"""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from snm.errors import InputError
from snm.losses.reductions import (
    Reduce,
    as_mask,
    log_sum_exp,
    promote_scores,
    reduce_losses,
    zero_padding,
)
from snm.losses.transformations import Transformation, exponential

__all__ = [
    "listmle",
    "listnet",
    "listnet_permutations",
    "rankcosine",
    "ranksvm",
    "smoothed_dcg",
]

_MAX_LIST_SIZE = 8  # for the sum over all permutations of a list: 8! is 40,320
_EXPONENTIAL = exponential()


def listnet(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    transformation: Transformation = _EXPONENTIAL,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    reduce_fn: Reduce | None = jnp.mean,
) -> jax.Array:
    r"""Cross entropy of the top-1 distributions of grades and scores.

    .. math:: -\sum_j P_j(y) \log P_j(s), \quad P_j(v) = \psi(v_j) / \sum_i \psi(v_i)

    The loss of a list without unmasked entries is 0.

    Args:
      scores: [..., m], any float dtype.
      labels: [..., m], grades of relevance.
      transformation: psi; with the exponential, P is the softmax.
      where: `bool` [..., m]; an entry takes no part where it is False.
      weights: [...], multiplies each list's loss.
      reduce_fn: Applied to the losses [...]; None returns them.

    Returns:
      The loss, in the dtype of the scores.

    Example:
      >>> round(float(listnet([0.0, 0.0], [1.0, 0.0])), 4)  # log 2
      0.6931

    References:
      Cao et al. (2007); Tewari, Chaudhuri (2015), section 3.1.
    """
    (s, y), mask, dtype = _lists(scores, labels, where, weights)
    target = _log_softmax(_log(transformation, y, mask), mask)
    predicted = _log_softmax(_log(transformation, s, mask), mask)
    values = -jnp.sum(jnp.where(mask, jnp.exp(target) * predicted, 0), axis=-1)
    return reduce_losses(values, weights, reduce_fn, dtype)


def listnet_permutations(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    transformation: Transformation = _EXPONENTIAL,
    weights: ArrayLike | None = None,
    reduce_fn: Reduce | None = jnp.mean,
) -> jax.Array:
    r"""ListNet over all m! permutations, as Lan et al. (2009) analyse it; m at most 8.

    .. math:: -\sum_\pi P(\pi \mid y) \log P(\pi \mid s), \quad
      P(\pi \mid v) = \prod_i \psi(v_{\pi(i)}) / \sum_{j \ge i} \psi(v_{\pi(j)})

    Args:
      scores: [..., m].
      labels: [..., m], scores of the ground truth.
      transformation: psi.
      weights: [...].
      reduce_fn: Applied to the losses [...]; None returns them.

    Returns:
      The loss, in the dtype of the scores.

    Raises:
      InputError: m above 8.

    Example:
      >>> round(float(listnet_permutations([0.0, 0.0], [1.0, 0.0])), 4)
      0.6931
    """
    (s, y), mask, dtype = _lists(scores, labels, None, weights)
    size = s.shape[-1]
    if size > _MAX_LIST_SIZE:
        raise InputError(
            "list", f"{size} entries", f"at most {_MAX_LIST_SIZE}: {size}! permutations"
        )
    orders = np.array(list(itertools.permutations(range(size))), np.int32)
    target = _log_permutation(_log(transformation, y, mask)[..., orders])
    predicted = _log_permutation(_log(transformation, s, mask)[..., orders])
    values = -jnp.sum(jnp.exp(target) * predicted, axis=-1)
    return reduce_losses(values, weights, reduce_fn, dtype)


def listmle(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    transformation: Transformation = _EXPONENTIAL,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    reduce_fn: Reduce | None = jnp.mean,
) -> jax.Array:
    r"""Negative log-likelihood of the order of the grades, best first.

    .. math:: -\sum_i \log \big(\psi(s_{y(i)}) / \sum_{j \ge i} \psi(s_{y(j)})\big)

    Entries of equal grade keep their order.

    Args:
      scores: [..., m], any float dtype.
      labels: [..., m], grades of relevance, finite.
      transformation: psi.
      where: `bool` [..., m].
      weights: [...].
      reduce_fn: Applied to the losses [...]; None returns them.

    Returns:
      The loss, in the dtype of the scores.

    Example:
      >>> round(float(listmle([0.0, 0.0, 0.0], [3.0, 1.0, 2.0])), 4)  # log 3!
      1.7918

    References:
      Xia et al. (2008); Lan et al. (2009), section 3.2.1.
    """
    (s, y), mask, dtype = _lists(scores, labels, where, weights)
    order = jnp.argsort(jnp.where(mask, -y, jnp.inf), axis=-1, stable=True)
    logs = jnp.take_along_axis(_log(transformation, s, mask), order, axis=-1)
    values = -_log_permutation(logs, jnp.take_along_axis(mask, order, axis=-1))
    return reduce_losses(values, weights, reduce_fn, dtype)


def rankcosine(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    transformation: Transformation = _EXPONENTIAL,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    reduce_fn: Reduce | None = jnp.mean,
) -> jax.Array:
    r"""Half of 1 minus the cosine between transformed grades and scores.

    .. math:: \tfrac 1 2 \big(1 - \psi(y)^T \psi(s) / (\|\psi(y)\| \|\psi(s)\|)\big)

    Both vectors are positive, so the loss is between 0 and 1/2.

    Args:
      scores: [..., m], any float dtype.
      labels: [..., m], scores of the ground truth.
      transformation: psi.
      where: `bool` [..., m].
      weights: [...].
      reduce_fn: Applied to the losses [...]; None returns them.

    Returns:
      The loss, in the dtype of the scores.

    Example:
      >>> float(rankcosine([1.0, 0.0], [1.0, 0.0])) < 1e-7
      True

    References:
      Qin et al. (2007); Lan et al. (2009), section 3.2.1.
    """
    (s, y), mask, dtype = _lists(scores, labels, where, weights)
    target, predicted = _log(transformation, y, mask), _log(transformation, s, mask)
    # In logarithms, so that no exponential overflows.
    log_dot, nonempty = log_sum_exp(target + predicted, mask)
    log_norms = (log_sum_exp(2 * target, mask)[0] + log_sum_exp(2 * predicted, mask)[0]) / 2
    values = jnp.where(nonempty, (1 - jnp.exp(log_dot - log_norms)) / 2, 0)
    return reduce_losses(values, weights, reduce_fn, dtype)


def smoothed_dcg(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    sigma: float = 1.0,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    reduce_fn: Reduce | None = jnp.mean,
) -> jax.Array:
    r"""Negated DCG@1, smoothed by a softmax in place of the highest score.

    .. math:: -D(1) \sum_i G(y_i) \exp(s_i / \sigma) / \sum_j \exp(s_j / \sigma), \quad
      D(1) = 1, \; G(y) = 2^y - 1

    It is not convex. Tewari and Chaudhuri print it without the minus sign; the constants are the
    same.

    Args:
      scores: [..., m], any float dtype.
      labels: [..., m], grades of relevance, at least 0.
      sigma: Temperature, above 0; the smaller, the closer to DCG@1.
      where: `bool` [..., m].
      weights: [...].
      reduce_fn: Applied to the losses [...]; None returns them.

    Returns:
      The loss, in the dtype of the scores.

    Example:
      >>> float(smoothed_dcg([0.0, 0.0], [1.0, 3.0]))  # -(1 + 7) / 2
      -4.0

    References:
      Chapelle and Wu (2010); Tewari, Chaudhuri (2015), section 3.2.
    """
    if not sigma > 0:
        raise InputError("sigma of the smoothed DCG", str(sigma), "a number above 0")
    (s, y), mask, dtype = _lists(scores, labels, where, weights)
    predicted = _log_softmax(jnp.where(mask, s / sigma, 0), mask)
    gains = jnp.where(mask, jnp.exp2(y) - 1, 0)
    values = -jnp.sum(jnp.where(mask, jnp.exp(predicted) * gains, 0), axis=-1)
    return reduce_losses(values, weights, reduce_fn, dtype)


def ranksvm(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    reduce_fn: Reduce | None = jnp.mean,
) -> jax.Array:
    r"""Hinge over all pairs of different grades.

    .. math:: \sum_{i,j: y_i > y_j} \max(0, 1 + s_j - s_i)

    Args:
      scores: [..., m], any float dtype.
      labels: [..., m], grades of relevance.
      where: `bool` [..., m].
      weights: [...].
      reduce_fn: Applied to the losses [...]; None returns them.

    Returns:
      The loss, in the dtype of the scores. It needs memory for m^2 numbers per list.

    Example:
      >>> float(ranksvm([0.0, 0.5, 0.0], [2.0, 1.0, 0.0]))  # 1.5 + 1 + 0.5
      3.0

    References:
      Joachims (2002); Tewari, Chaudhuri (2015), appendix C.
    """
    (s, y), mask, dtype = _lists(scores, labels, where, weights)
    above = (y[..., :, None] > y[..., None, :]) & mask[..., :, None] & mask[..., None, :]
    s = jnp.where(mask, s, 0)
    hinges = jnp.maximum(1 + s[..., None, :] - s[..., :, None], 0)
    values = jnp.sum(jnp.where(above, hinges, 0), axis=(-2, -1))
    return reduce_losses(values, weights, reduce_fn, dtype)


def _lists(
    scores: ArrayLike, labels: ArrayLike, where: ArrayLike | None, weights: ArrayLike | None
) -> tuple[tuple[jax.Array, jax.Array], jax.Array, jnp.dtype]:
    """Checks the shapes; returns scores and grades, the mask, and the dtype of the scores.

    Scores and grades are at least float32. The scores of a list of weight 0 are 0.
    """
    (s,), dtype = promote_scores(scores)
    y = jnp.asarray(labels).astype(s.dtype)
    if s.shape != y.shape or not s.ndim:
        raise InputError("lists", f"scores {s.shape}, labels {y.shape}", "the same shape [..., m]")
    return (zero_padding(weights, s), y), as_mask(where, s.shape), dtype


def _log(transformation: Transformation, v: jax.Array, mask: jax.Array) -> jax.Array:
    """Log psi(v), 0 where masked; the logarithm is not taken of masked entries."""
    return jnp.where(mask, transformation.log(jnp.where(mask, v, 0)), 0)


def _log_softmax(logs: jax.Array, mask: jax.Array) -> jax.Array:
    """Log-softmax over the unmasked entries of each list: [..., m]."""
    total, _ = log_sum_exp(logs, mask)
    return logs - total[..., None]


def _log_permutation(logs: jax.Array, mask: jax.Array | None = None) -> jax.Array:
    """Log probability of the given order of the entries; masked entries must come last."""
    mask = as_mask(mask, logs.shape)
    unmasked_logs = jnp.where(mask, logs, -jnp.inf)
    # From each entry to the end of the list; it includes the entry itself, so it is not empty.
    rest = jax.lax.cumlogsumexp(unmasked_logs, axis=logs.ndim - 1, reverse=True)
    return jnp.sum(jnp.where(mask, logs - jnp.where(mask, rest, 0), 0), axis=-1)

r"""Losses on whole lists with graded labels: ListNet, ListMLE, RankCosine, RankSVM, smoothed DCG@1.

Every loss takes scores and relevance grades of the same shape: the last axis is the list, the
leading axes are the batch. As in `snm.losses.ordered`, everything after the arrays is keyword-only,
masked entries take no part, and one value a list comes back, or what `reduce_fn` makes of them.

ListNet, ListMLE and RankCosine apply a transformation to scores (and to grades where they are
scores too): an increasing, strictly positive function psi of `snm.losses.transformations`.

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
from snm.losses.reductions import Reduce, as_mask, log_sum_exp, padding_zeroed, reduced, widened
from snm.losses.transformations import Transformation, exponential

__all__ = [
    "listmle",
    "listnet",
    "listnet_permutations",
    "rankcosine",
    "ranksvm",
    "smoothed_dcg",
]

_LONGEST = 8  # of a list whose permutations are all summed over: 8! is 40,320
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

    A list that is masked throughout costs 0.

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
    target = _log_shares(_log(transformation, y, mask), mask)
    ours = _log_shares(_log(transformation, s, mask), mask)
    values = -jnp.sum(jnp.where(mask, jnp.exp(target) * ours, 0), axis=-1)
    return reduced(values, weights, reduce_fn, dtype)


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
    if size > _LONGEST:
        raise InputError("list", f"{size} entries", f"at most {_LONGEST}: {size}! permutations")
    orders = np.array(list(itertools.permutations(range(size))), np.int32)
    target = _log_permutation(_log(transformation, y, mask)[..., orders])
    ours = _log_permutation(_log(transformation, s, mask)[..., orders])
    values = -jnp.sum(jnp.exp(target) * ours, axis=-1)
    return reduced(values, weights, reduce_fn, dtype)


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

    Equal grades are taken in the order in which they stand.

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
    return reduced(values, weights, reduce_fn, dtype)


def rankcosine(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    transformation: Transformation = _EXPONENTIAL,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    reduce_fn: Reduce | None = jnp.mean,
) -> jax.Array:
    r"""Half of one less the cosine between transformed grades and scores.

    .. math:: \tfrac 1 2 \big(1 - \psi(y)^T \psi(s) / (\|\psi(y)\| \|\psi(s)\|)\big)

    Both vectors are positive, so that it lies between 0 and 1/2.

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
    target, ours = _log(transformation, y, mask), _log(transformation, s, mask)
    # In logarithms, so that no exponential overflows: the cosine does not change with length.
    both, some = log_sum_exp(target + ours, mask)
    lengths = (log_sum_exp(2 * target, mask)[0] + log_sum_exp(2 * ours, mask)[0]) / 2
    values = jnp.where(some, (1 - jnp.exp(both - lengths)) / 2, 0)
    return reduced(values, weights, reduce_fn, dtype)


def smoothed_dcg(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    sigma: float = 1.0,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    reduce_fn: Reduce | None = jnp.mean,
) -> jax.Array:
    r"""DCG@1 with a softmax for the first place, negated so that less is better.

    .. math:: -D(1) \sum_i G(y_i) \exp(s_i / \sigma) / \sum_j \exp(s_j / \sigma), \quad
      D(1) = 1, \; G(y) = 2^y - 1

    It is not convex. Tewari and Chaudhuri print it without the sign, which is what it smooths and
    not yet a loss; the constants are the same.

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
    ours = _log_shares(jnp.where(mask, s / sigma, 0), mask)
    gains = jnp.where(mask, jnp.exp2(y) - 1, 0)
    values = -jnp.sum(jnp.where(mask, jnp.exp(ours) * gains, 0), axis=-1)
    return reduced(values, weights, reduce_fn, dtype)


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
      The loss, in the dtype of the scores. Memory is m^2 a list.

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
    return reduced(values, weights, reduce_fn, dtype)


def _lists(
    scores: ArrayLike, labels: ArrayLike, where: ArrayLike | None, weights: ArrayLike | None
) -> tuple[tuple[jax.Array, jax.Array], jax.Array, jnp.dtype]:
    """Scores and grades in one wide dtype, the full mask, and the dtype of the scores.

    The scores of a list of weight 0 are 0.
    """
    (s,), dtype = widened(scores)
    y = jnp.asarray(labels).astype(s.dtype)
    if s.shape != y.shape or not s.ndim:
        raise InputError("lists", f"scores {s.shape}, labels {y.shape}", "the same shape [..., m]")
    return (padding_zeroed(weights, s), y), as_mask(where, s.shape), dtype


def _log(transformation: Transformation, v: jax.Array, mask: jax.Array) -> jax.Array:
    """Log psi(v), 0 where masked; the masked never reach the logarithm."""
    return jnp.where(mask, transformation.log(jnp.where(mask, v, 0)), 0)


def _log_shares(logs: jax.Array, mask: jax.Array) -> jax.Array:
    """The log of each entry's share of the sum of exponentials over its list: [..., m]."""
    total, _ = log_sum_exp(logs, mask)
    return logs - total[..., None]


def _log_permutation(logs: jax.Array, mask: jax.Array | None = None) -> jax.Array:
    """Log P of the order in which the entries stand; masked ones stand last."""
    mask = as_mask(mask, logs.shape)
    low = jnp.where(mask, logs, -jnp.inf)
    # At least one entry follows each unmasked one (itself), so that no sum is empty there.
    rest = jax.lax.cumlogsumexp(low, axis=logs.ndim - 1, reverse=True)
    return jnp.sum(jnp.where(mask, logs - jnp.where(mask, rest, 0), 0), axis=-1)

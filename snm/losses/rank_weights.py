"""Rank weights of the mined negatives: the vectors vartheta of Algorithm 1.

k' (`mined`) is the number of sampled negatives with a weight above 0. k (`retrieval_k`) is the k of
the retrieval loss I(y not in Top_k(v)). The weights have one of two scales:

* `mean`: 1 / k' each, the average over the mined negatives. Where the exclusion of known labels
  leaves a point fewer than k' of B drawn labels, each still has 1 / k'; with the in-batch sampler,
  whose batch decides how many there are, `RankWeights.count_factors` rescales the weights to the
  point's own number. The loss bounds the retrieval loss at k = k' if all labels are sampled
  (B = K - 1). In general it does not.
* `surrogate`: (K - 1) / (k B) each, so that theta_j = 1 / k for j <= k' (Lemma 2). The loss bounds
  the retrieval loss (Theorem 3) if also k' >= k; a smaller k' is allowed, without this bound.

References:
  Reddi et al. (2019), section 3.1.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from snm.errors import InputError
from snm.losses.theta import Vector, check_non_increasing, check_weights

__all__ = [
    "epsilon_tail",
    "negative_sampling",
    "power_law",
    "subsample",
    "top",
]


def top(
    mined: int,
    *,
    scale: str = "mean",
    sampled: int | None = None,
    num_labels: int | None = None,
    retrieval_k: int | None = None,
) -> Vector:
    """Top-k' Stochastic Negative Mining: equal weights for the k' hardest, 0 for the others.

    vartheta_j = 1 / k' (`mean`) or (K - 1) / (k B) (`surrogate`) for j <= k'.

    Args:
      mined: k', from 1 to B.
      scale: "mean" or "surrogate".
      sampled: B, at most K - 1; `surrogate` needs it, and `mean` checks k' against it.
      num_labels: K; `surrogate` needs it.
      retrieval_k: k, from 1 to B; `surrogate` needs it.

    Returns:
      vartheta, float64 [k'].

    Example:
      >>> top(4)
      array([0.25, 0.25, 0.25, 0.25])
      >>> top(2, scale="surrogate", sampled=10, num_labels=101, retrieval_k=5)
      array([2., 2.])

    References:
      Reddi et al. (2019), Lemma 2 and the text after it.
    """
    return np.full(mined, _mined_weight(mined, scale, sampled, num_labels, retrieval_k))


def negative_sampling(
    sampled: int,
    *,
    scale: str = "mean",
    num_labels: int | None = None,
    retrieval_k: int | None = None,
) -> Vector:
    """Negative sampling: equal weights for all B sampled negatives, as `top` with k' = B.

    vartheta_j = 1 / B (`mean`) or (K - 1) / (k B) (`surrogate`) for j <= B.

    Args:
      sampled: B, at most K - 1.
      scale: "mean" or "surrogate".
      num_labels: K; `surrogate` needs it.
      retrieval_k: k, from 1 to B; `surrogate` needs it.

    Returns:
      vartheta, float64 [B].

    Example:
      >>> negative_sampling(2)
      array([0.5, 0.5])

    References:
      Reddi et al. (2019), section 3.1.
    """
    return top(
        sampled, scale=scale, sampled=sampled, num_labels=num_labels, retrieval_k=retrieval_k
    )


def power_law(
    mined: int,
    alpha: float,
    *,
    scale: str = "mean",
    sampled: int | None = None,
    num_labels: int | None = None,
    retrieval_k: int | None = None,
) -> Vector:
    """Weights that decrease with the rank, so that harder negatives cost more than in `top`.

    vartheta_j = c j^(-alpha) for j <= k', with c such that their sum is that of `top`.

    Args:
      mined: k', from 1 to B.
      alpha: Exponent, at least 0; 0 is `top`.
      scale: "mean" or "surrogate", of the sum. Theorem 3 as printed needs theta_j = 1 / k for all
        j <= k, which an alpha above 0 does not give. But its proof only needs that these theta_j
        add up to 1 or more: so the loss bounds the retrieval loss with `surrogate` and k' >= k.
      sampled: B, as in `top`.
      num_labels: K, as in `top`.
      retrieval_k: k, as in `top`.

    Returns:
      vartheta, float64 [k'].

    Example:
      >>> power_law(2, 1.0)
      array([0.66666667, 0.33333333])

    References:
      Reddi et al. (2019), section 3.1.
    """
    if not (np.isfinite(alpha) and alpha >= 0):
        raise InputError("alpha of the power law", str(alpha), "a finite number, at least 0")
    total = top(
        mined, scale=scale, sampled=sampled, num_labels=num_labels, retrieval_k=retrieval_k
    ).sum()
    shape = np.arange(1, mined + 1, dtype=np.float64) ** -alpha
    return shape * (total / shape.sum())


def epsilon_tail(
    sampled: int,
    mined: int,
    epsilon: float,
    *,
    scale: str = "mean",
    num_labels: int | None = None,
    retrieval_k: int | None = None,
) -> Vector:
    """Top-k' with a little weight on the rest, which calibration asks for (Theorem 4).

    vartheta_j = h for j <= k' and epsilon h for k' < j <= B, with h the weight of `top`.

    Args:
      sampled: B, at most K - 1.
      mined: k', from 1 to B.
      epsilon: From 0 (`top`) to 1 (all B have weight h).
      scale: "mean" or "surrogate", of h.
      num_labels: K, as in `top`.
      retrieval_k: k, as in `top`.

    Returns:
      vartheta, float64 [B].

    Example:
      >>> epsilon_tail(4, 2, 0.5)
      array([0.5 , 0.5 , 0.25, 0.25])

    References:
      Reddi et al. (2019), section 3.1, footnote 2.
    """
    if not 0 <= epsilon <= 1:
        raise InputError("epsilon of the tail", str(epsilon), "a number from 0 to 1")
    weight = _mined_weight(mined, scale, sampled, num_labels, retrieval_k)
    return np.where(np.arange(sampled) < mined, weight, epsilon * weight)


def subsample(
    key: jax.Array, vartheta: npt.ArrayLike, draws: int, shape: tuple[int, ...] = ()
) -> tuple[jax.Array, jax.Array]:
    r"""Draws ranks with replacement in proportion to vartheta, in place of summing over all ranks.

    .. math::
      E\Big[\frac{\|\vartheta\|_1}{m} \sum_{t=1}^m f(r_t)\Big] = \sum_j \vartheta_j f(j)

    Each rank's probability is exact to 2^-32. To estimate the loss of Algorithm 1, take the sorted
    scores at the drawn ranks, with the returned weights as vartheta. These weights are all equal,
    so `presorted=True` is correct in any order:

      sampled_powl(positive, jnp.take_along_axis(sorted_negatives, ranks, axis=-1),
                   vartheta=weight, presorted=True)

    Args:
      key: A random key, consumed here.
      vartheta: [r], on the host (not traced), non-negative and non-increasing, not all 0.
      draws: m, at least 1.
      shape: Batch shape: each entry has draws of its own.

    Returns:
      Ranks, int32 [*shape, m], counted from 0, and the weight of each, float32 [m].

    Example:
      >>> ranks, weight = subsample(jax.random.key(0), [0.5, 0.0], 4)
      >>> ranks, weight
      (Array([0, 0, 0, 0], dtype=int32), Array([0.125, 0.125, 0.125, 0.125], dtype=float32))

    References:
      Reddi et al. (2019), section 3.1.
    """
    weights = check_weights(vartheta, "vartheta")
    check_non_increasing(weights, "vartheta")
    if not weights.any():
        raise InputError("vartheta", "no weight above 0", "something to draw in proportion to")
    if draws < 1:
        raise InputError("draws", str(draws), "at least 1")
    weights = np.trim_zeros(weights, "b")
    # Inverse transform sampling with 32 random bits. A float32 uniform variable has only 23, which
    # is too few for the small probabilities in the tail of a power law.
    bounds = np.rint(np.cumsum(weights)[:-1] / weights.sum() * 2.0**32)
    bits = jax.random.bits(key, (*shape, draws), jnp.uint32)
    boundaries = jnp.asarray(np.minimum(bounds, 2.0**32 - 1).astype(np.uint32))
    ranks = jnp.searchsorted(boundaries, bits, side="right").astype(jnp.int32)
    return ranks, jnp.full(draws, weights.sum() / draws, jnp.float32)


def _mined_weight(
    mined: int,
    scale: str,
    sampled: int | None,
    num_labels: int | None,
    retrieval_k: int | None,
) -> float:
    """The weight of each of the k' hardest negatives, in the given scale."""
    if mined < 1:
        raise InputError("mined negatives", str(mined), "at least 1")
    if sampled is not None and mined > sampled:
        raise InputError("mined negatives", str(mined), f"at most the {sampled} sampled")
    if sampled is not None and num_labels is not None and sampled > num_labels - 1:
        raise InputError(
            "sampled labels", str(sampled), f"at most {num_labels - 1} of {num_labels} labels"
        )
    if scale == "mean":
        return 1 / mined
    if scale != "surrogate":
        raise InputError("scale of the weights", repr(scale), "'mean' or 'surrogate'")
    if sampled is None or num_labels is None or retrieval_k is None:
        raise InputError(
            "scale 'surrogate'", "none", "sampled, num_labels and retrieval_k all given"
        )
    if not 1 <= retrieval_k <= sampled:
        raise InputError("retrieval_k", str(retrieval_k), f"from 1 to the {sampled} sampled")
    return (num_labels - 1) / (retrieval_k * sampled)

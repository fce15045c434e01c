"""The retrieval problem of Reddi et al. (2019): its 0/1 risk, the Bayes predictor, and margins."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from snm.errors import InputError
from snm.losses.theta import Vector

__all__ = [
    "bayes_compatible",
    "bayes_predictor",
    "check_k",
    "check_one_distribution",
    "margin_risk",
    "margins",
    "retrieval_risk",
]


def _check_distribution(distribution: npt.ArrayLike) -> Vector:
    """Checks label distributions and returns them as float64 [..., K].

    Raises:
      InputError: a value that is not finite or negative, or a row whose sum differs from 1 by more
        than 1e-6.
    """
    values = np.asarray(distribution, np.float64)
    if values.ndim < 1 or values.shape[-1] < 2:
        raise InputError("distribution", f"shape {values.shape}", "at least 2 labels")
    if not np.isfinite(values).all() or (values < 0).any():
        raise InputError("distribution", "a negative or non-finite probability", "numbers >= 0")
    sums = values.sum(axis=-1)
    if (np.abs(sums - 1) > 1e-6).any():
        worst = np.ravel(sums)[np.argmax(np.abs(np.ravel(sums) - 1))]
        raise InputError("distribution", f"probabilities that add up to {worst:.8g}", "1")
    return values


def check_one_distribution(distribution: npt.ArrayLike) -> Vector:
    """As `_check_distribution`, for a single distribution [K]."""
    values = _check_distribution(distribution)
    if values.ndim != 1:
        raise InputError("distribution", f"shape {values.shape}", "one distribution, [K]")
    return values


def check_k(k: int, num_labels: int) -> None:
    """Raises `InputError` unless 1 <= k < K."""
    if not 1 <= k <= num_labels - 1:
        raise InputError("k", str(k), f"from 1 to {num_labels - 1} of {num_labels} labels")


def bayes_predictor(distribution: npt.ArrayLike, k: int) -> npt.NDArray[np.int64]:
    """The predictor of minimum risk: the k most probable labels, b(x) = Top_k(D(. | x)).

    Args:
      distribution: [..., K], the probability of each label given each input.
      k: From 1 to K - 1.

    Returns:
      int64 [..., k], most probable first; ties go to the lowest label.

    Example:
      >>> bayes_predictor([0.2, 0.5, 0.3], 2)
      array([1, 2])

    References:
      Reddi et al. (2019), Lemma 1.
    """
    values = _check_distribution(distribution)
    check_k(k, values.shape[-1])
    return np.argsort(-values, axis=-1, kind="stable")[..., :k]


def retrieval_risk(
    answers: npt.ArrayLike, distribution: npt.ArrayLike, weights: npt.ArrayLike | None = None
) -> float:
    r"""The 0/1 retrieval risk of a predictor that returns sets of labels.

    .. math:: R(f) = E_X \Big[\sum_{y \notin f(X)} D(Y = y \mid X)\Big]

    Args:
      answers: int [n, k], the predicted labels f(x) of each input, distinct within a row.
      distribution: [n, K], the label distribution of each input.
      weights: [n], the probability of each input; uniform by default.

    Returns:
      The risk, from 0 to 1.

    Example:
      >>> retrieval_risk([[1, 2]], [[0.25, 0.5, 0.25]])
      0.25

    References:
      Reddi et al. (2019), equation 1 and the proof of Lemma 1.
    """
    values, ids = _check_distribution(distribution), np.asarray(answers, np.int64)
    if ids.ndim != 2 or values.ndim != 2 or len(ids) != len(values):
        found = f"answers {ids.shape}, distribution {values.shape}"
        raise InputError("retrieval risk", found, "[n, k] and [n, K]")
    if ids.size and not 0 <= ids.min() <= ids.max() < values.shape[1]:
        last = values.shape[1] - 1
        raise InputError("answers", f"labels {ids.min()} to {ids.max()}", f"0 to {last}")
    if (np.diff(np.sort(ids, axis=1), axis=1) == 0).any():
        raise InputError("answers", "a label twice in a row", "distinct labels")
    missed = values.sum(axis=1) - np.take_along_axis(values, ids, axis=1).sum(axis=1)
    point_weights = None if weights is None else np.asarray(weights, np.float64)
    return float(np.average(missed, weights=point_weights))


def bayes_compatible(
    scores: npt.ArrayLike, distribution: npt.ArrayLike, k: int
) -> npt.NDArray[np.bool_]:
    """Whether the k highest scores belong to k most probable labels, without a tie at rank k.

    If D_[k] = D_[k+1], any set of k most probable labels is correct (footnote 1). Scores with
    v_[k] = v_[k+1] are not compatible, because the predicted set would depend on tie-breaking.

    Args:
      scores: [..., K].
      distribution: [..., K].
      k: From 1 to K - 1.

    Returns:
      bool [...].

    Example:
      >>> bayes_compatible([[3.0, 1.0, 2.0], [1.0, 1.0, 0.0]], [[0.5, 0.2, 0.3]], 1)
      array([ True, False])

    References:
      Reddi et al. (2019), Definition 1.
    """
    v, probability = np.broadcast_arrays(
        np.asarray(scores, np.float64), _check_distribution(distribution)
    )
    check_k(k, v.shape[-1])
    order = np.argsort(-v, axis=-1, kind="stable")
    ranked = np.take_along_axis(v, order, axis=-1)
    chosen = np.take_along_axis(probability, order, axis=-1)
    no_tie = ranked[..., k - 1] > ranked[..., k]
    return no_tie & (chosen[..., :k].min(axis=-1) >= chosen[..., k:].max(axis=-1))


def margins(scores: npt.ArrayLike, labels: npt.ArrayLike, k: int) -> Vector:
    r"""The score of a label minus the k-th highest score of the other labels.

    .. math:: \rho_h(x, y) = h_y(x) - h^{-y}_{[k]}(x)

    Top_k(h(x)) contains y exactly if the margin is above 0. A tie at rank k counts as a miss
    (footnote 3).

    Args:
      scores: [n, K].
      labels: int [n], in [0, K).
      k: From 1 to K - 1.

    Returns:
      float64 [n].

    Example:
      >>> margins([[3.0, 1.0, 2.0]], [2], 2)
      array([1.])

    References:
      Reddi et al. (2019), section 4.1.
    """
    v, y = np.asarray(scores, np.float64), np.asarray(labels, np.int64)
    check_k(k, v.shape[-1])
    top = np.sort(-np.partition(-v, k, axis=-1)[..., : k + 1], axis=-1)[..., ::-1]
    own = np.take_along_axis(v, y[..., None], axis=-1)[..., 0]
    # If y is among the first k, leaving it out moves the others up by one rank.
    return own - np.where(own >= top[..., k - 1], top[..., k], top[..., k - 1])


def margin_risk(
    values: npt.ArrayLike, rho: npt.ArrayLike = 0.0, weights: npt.ArrayLike | None = None
) -> Vector:
    r"""The empirical margin risk: the fraction of margins that are at most rho.

    .. math:: \hat R_{S,\rho}(h) = E_{(x,y) \sim S}[I(\rho_h(x, y) \le \rho)]

    Args:
      values: [n], margins.
      rho: [...]; at 0 the result is the empirical retrieval risk.
      weights: [n], non-negative, not all 0; uniform by default.

    Returns:
      float64 [...], of the shape of rho.

    Example:
      >>> margin_risk([-1.0, 0.5, 2.0, 3.0], [0.0, 0.5])
      array([0.25, 0.5 ])

    References:
      Reddi et al. (2019), section 4.1.
    """
    margins = np.asarray(values, np.float64)
    weight = np.ones(margins.size) if weights is None else np.asarray(weights, np.float64)
    if margins.ndim != 1 or weight.shape != margins.shape or not weight.sum() > 0:
        expected = "[n] with n >= 1, and weights [n] of positive sum"
        raise InputError("margins", f"shape {margins.shape}", expected)
    order = np.argsort(margins, kind="stable")
    below = np.concatenate([[0.0], np.cumsum(weight[order])])
    index = np.searchsorted(margins[order], np.asarray(rho, np.float64), side="right")
    return below[index] / below[-1]

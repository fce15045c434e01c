"""Weights theta of the full loss that a sampled loss with weights vartheta estimates (Lemma 2).

With N = K - 1 negatives in total and B of them sampled, the j-th hardest negative is sampled with
probability B / N, and then the number X_j of harder ones in the sample is hypergeometric: B - 1
draws from N - 1, of which j - 1 are harder. Hence

  theta_j = sum_i vartheta_i C(j-1, i-1) C(N-j, B-i) / C(N, B) = (B / N) E[vartheta_{X_j + 1}].

Two facts make this cheap for millions of labels. The probabilities decay so fast that a window of a
few standard deviations around the mode holds the whole expectation. And log(theta_j) is smooth in
j: it is computed at a few thousand ranks and interpolated, on intervals that are halved until the
interpolation is exact to rounding.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numpy.polynomial import chebyshev

from snm.errors import InputError

__all__ = [
    "Vector",
    "check_non_increasing",
    "check_vartheta",
    "check_weights",
    "lemma2_bound",
    "theta_from_vartheta",
    "theta_norms",
]

Vector = npt.NDArray[np.float64]

_NODES = 20  # interpolation nodes per interval, and as many points to check the interpolation
_TOLERANCE = 1e-11  # of log(theta), so relative to theta
_NEGLIGIBLE = 45.0  # exp(-45) is 3e-20, far below float64's rounding
_UNDERFLOW = -760.0  # exp() of this is zero
# Not from scipy.special, whose import would add a tenth of a second to each command.
_LOG_FACTORIALS = np.log([float(math.factorial(n)) for n in range(21)])
_BLOCK_SIZE = 1 << 20  # float64 numbers in a block of windows: 8 MB


def check_weights(weights: npt.ArrayLike, name: str) -> Vector:
    """Returns weights [r] as float64, or raises `InputError` if one is negative or not finite."""
    values = np.asarray(weights, np.float64)
    if values.ndim != 1:
        raise InputError(name, f"shape {values.shape}", "a vector")
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise InputError(name, "a negative or non-finite weight", "finite weights >= 0")
    return values


def check_non_increasing(weights: Vector, name: str) -> None:
    """Raises `InputError` if a weight is above the one before it."""
    if (np.diff(weights) > 0).any():
        raise InputError(name, "a weight above the one before it", "non-increasing weights")


def check_vartheta(vartheta: npt.ArrayLike, sampled: int, num_labels: int) -> Vector:
    """Returns vartheta as float64 [r], or raises `InputError` if it does not fit the sample.

    It must be finite, non-negative and non-increasing, with r <= B and B from 1 to K - 1.
    """
    weights = check_weights(vartheta, "vartheta")
    check_non_increasing(weights, "vartheta")
    if not 1 <= sampled <= num_labels - 1:
        raise InputError(
            "sampled labels", str(sampled), f"from 1 to {num_labels - 1} of {num_labels} labels"
        )
    if weights.size > sampled:
        raise InputError("vartheta", f"{weights.size} weights", f"at most the {sampled} sampled")
    return weights


def theta_from_vartheta(vartheta: npt.ArrayLike, sampled: int, num_labels: int) -> Vector:
    r"""Weights of the full loss whose unbiased estimate Algorithm 1 computes.

    .. math::
      \theta_j = \sum_{i=1}^B \vartheta_i \binom{j-1}{i-1} \binom{K-1-j}{B-i} / \binom{K-1}{B}

    Args:
      vartheta: [r] with r <= B, non-negative and non-increasing; ranks after r have weight 0.
      sampled: B, how many of the K - 1 negatives are sampled.
      num_labels: K.

    Returns:
      theta, float64 [K - 1], non-increasing. Against exact arithmetic its relative error is below
      1e-10 wherever theta_j is above 1e-290 (K up to 3,000,000, B up to 32,768; such a call takes
      about half a second).

    Example:
      >>> theta_from_vartheta([1.0], 2, 4)  # the harder of 2 negatives sampled from 3
      array([0.66666667, 0.33333333, 0.        ])

    References:
      Reddi et al. (2019), Lemma 2 and Appendix C, equation 4.
    """
    weights = np.trim_zeros(check_vartheta(vartheta, sampled, num_labels), "b")
    total = num_labels - 1
    theta = np.zeros(total)
    if sampled == total:
        theta[: weights.size] = weights
    elif weights.size:
        # A label of a higher rank has too few easier labels below it: its theta is 0.
        last = total - sampled + weights.size
        _fill(theta, last, weights, sampled, total)
        # Convexity needs non-increasing weights, which rounding may break.
        np.minimum.accumulate(theta, out=theta)
    return theta


def theta_norms(vartheta: npt.ArrayLike, sampled: int, num_labels: int) -> tuple[float, float]:
    """The 1-norm of theta, equal to that of vartheta, and its 2-norm.

    Args:
      vartheta: [r] with r <= B, non-negative and non-increasing.
      sampled: B.
      num_labels: K.

    Returns:
      (sum_j theta_j, sqrt(sum_j theta_j^2)); Theorem 5's bounds grow with both.

    Example:
      >>> l1, l2 = theta_norms([1.0], 2, 4)
      >>> round(l1, 12), round(l2**2, 12)  # 4/9 + 1/9
      (1.0, 0.555555555556)

    References:
      Reddi et al. (2019), Lemma 2, Theorem 5.
    """
    theta = theta_from_vartheta(vartheta, sampled, num_labels)
    return float(theta.sum()), float(np.linalg.norm(theta))


def lemma2_bound(vartheta: npt.ArrayLike, sampled: int, num_labels: int) -> float:
    r"""Upper bound of the 2-norm of theta.

    .. math:: \|\theta\|_2 \le \sqrt{B \vartheta_1 \|\vartheta\|_1 / (K - 1)}

    Args:
      vartheta: [r] with r <= B, non-negative and non-increasing.
      sampled: B.
      num_labels: K.

    Returns:
      The bound.

    Example:
      >>> round(lemma2_bound([1.0], 2, 4) ** 2, 12)  # 2/3, above the 5/9 of `theta_norms`
      0.666666666667

    References:
      Reddi et al. (2019), Lemma 2.
    """
    weights = check_vartheta(vartheta, sampled, num_labels)
    if not weights.size:
        return 0.0
    return float(np.sqrt(sampled * weights[0] * weights.sum() / (num_labels - 1)))


def _fill(theta: Vector, last: int, weights: Vector, sampled: int, total: int) -> None:
    """Fills theta for the ranks 1..last, interval by interval."""
    intervals = [(1, last)]
    while intervals:
        low, high = intervals.pop()
        if high - low < 2 * _NODES:
            ranks = np.arange(low, high + 1)
            theta[low - 1 : high] = np.exp(_log_theta(ranks, weights, sampled, total))
            continue
        # The polynomial is fitted at the even points and checked at the odd ones.
        angles = np.pi * np.arange(2 * _NODES + 1) / (2 * _NODES)
        points = np.unique(np.rint((low + high) / 2 - (high - low) / 2 * np.cos(angles)))
        exact = _log_theta(points, weights, sampled, total)
        if exact[0] < _UNDERFLOW:
            continue
        nodes = _to_unit_interval(points[::2], low, high)
        fit = np.linalg.solve(chebyshev.chebvander(nodes, nodes.size - 1), exact[::2])
        checks = _to_unit_interval(points[1::2], low, high)
        error = np.abs(chebyshev.chebval(checks, fit) - exact[1::2]).max()
        if error > _TOLERANCE:
            middle = (low + high) // 2
            intervals += [(low, middle), (middle + 1, high)]
            continue
        all_ranks = _to_unit_interval(np.arange(low, high + 1), low, high)
        theta[low - 1 : high] = np.exp(chebyshev.chebval(all_ranks, fit))


def _to_unit_interval(ranks: npt.NDArray[np.generic], low: int, high: int) -> Vector:
    """Maps low..high to [-1, 1]."""
    return (2.0 * np.asarray(ranks, np.float64) - (low + high)) / (high - low)


def _log_theta(ranks: npt.NDArray[np.generic], weights: Vector, sampled: int, total: int) -> Vector:
    """log(theta_j) at the given ranks j, float64 [n]: each a sum over a window of probabilities."""
    harder = np.asarray(ranks, np.float64) - 1
    draws, others = sampled - 1.0, total - 1.0
    mean = harder * draws / others
    variance = mean * (1 - draws / others) * (others - harder) / max(others - 1, 1)
    # A hypergeometric count is a sum of independent indicators (Vatutin and Mikhailov, 1982), so
    # Bernstein's inequality gives the width of a window outside of which all terms are negligible,
    # even with the largest weights.
    nats = _NEGLIGIBLE + np.log(weights[0]) - np.log(weights[-1]) + np.log(sampled + 1.0)
    width = np.ceil(nats / 3 + np.sqrt(nats * nats / 9 + 2 * variance * nats))
    mode = np.floor((draws + 1) * (harder + 1) / (others + 2))
    least = np.maximum(0, harder + draws - others)
    most = np.minimum(np.minimum(harder, draws), weights.size - 1)
    anchor = np.clip(mode, least, most)
    down = np.minimum(anchor - least, width).astype(np.int64)
    up = np.minimum(most - anchor, width).astype(np.int64)
    sums = np.empty(harder.size)
    step = max(1, _BLOCK_SIZE // int(max(down.max(), up.max()) + 1))
    for start in range(0, harder.size, step):
        part = slice(start, start + step)
        center, marked = anchor[part, None], harder[part, None]
        # Products of ratios of neighbouring probabilities, up and down from the anchor.
        above = center + np.arange(up[part].max())
        ratio = (marked - above) * (draws - above)
        ratio /= (above + 1) * (others - marked - draws + above + 1)
        ratio[above >= most[part, None]] = 0
        below = center - np.arange(down[part].max())
        inverse = below * (others - marked - draws + below)
        inverse /= (marked - below + 1) * (draws - below + 1)
        inverse[below <= least[part, None]] = 0
        sums[part] = (
            weights[anchor[part].astype(np.int64)]
            + _weighted_sum(np.cumprod(ratio, axis=1), above + 1, weights)
            + _weighted_sum(np.cumprod(inverse, axis=1), below - 1, weights)
        )
    at_anchor = _log_hypergeometric(anchor, others, harder, draws)
    return np.log(sampled / total) + at_anchor + np.log(sums)


def _weighted_sum(probability: Vector, index: Vector, weights: Vector) -> Vector:
    """Sum over each row of probability * weights[index]; an index out of range is clipped."""
    clipped = np.clip(index, 0, weights.size - 1).astype(np.int64)
    return np.einsum("ij,ij->i", probability, weights[clipped])


def _log_hypergeometric(x: Vector, total: float, marked: Vector, draws: float) -> Vector:
    """Log P(X = x) of a hypergeometric X: `marked` of `total` items, of which `draws` are drawn.

    Computed from three binomial probabilities in saddle-point form, with 14 correct digits.
    Differences of log-factorials of millions would leave 8 (Loader, 2000).
    """
    if draws == 0:
        return np.zeros_like(x)
    share = draws / total
    return (
        _log_binomial(x, marked, share)
        + _log_binomial(draws - x, total - marked, share)
        - _log_binomial(np.array(draws), np.array(total), share)
    )


def _log_binomial(x: Vector, n: Vector, p: float) -> Vector:
    """Log of C(n, x) p^x (1 - p)^(n - x), with 0 <= x <= n and 0 < p < 1."""
    x, n = np.broadcast_arrays(x, n)
    rest = n - x
    at_zero, at_n = x == 0, rest == 0
    inside = ~(at_zero | at_n)
    a, b, m = np.where(inside, x, 1.0), np.where(inside, rest, 1.0), np.where(inside, n, 2.0)
    value = (
        _stirling_error(m)
        - _stirling_error(a)
        - _stirling_error(b)
        - _deviance(a, m * p)
        - _deviance(b, m * (1 - p))
        - 0.5 * np.log(2 * np.pi * a * (b / m))
    )
    return np.where(at_zero, n * np.log1p(-p), np.where(at_n, n * np.log(p), value))


def _stirling_error(n: Vector) -> Vector:
    """log(n!) minus the log of Stirling's sqrt(2 pi n) (n / e)^n, for integers n >= 1."""
    small = np.minimum(n, 20.0)
    exact = _LOG_FACTORIALS[small.astype(np.int64)] - (small + 0.5) * np.log(small) + small
    exact -= 0.5 * np.log(2 * np.pi)
    square = n * n
    series = (
        1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / 1188 / square) / square) / square) / square
    ) / n
    return np.where(n < 20, exact, series)


def _deviance(x: Vector, mean: Vector) -> Vector:
    """X log(x / mean) + mean - x, exact to rounding, also for x near the mean."""
    difference, total = x - mean, x + mean
    v = difference / total
    near = np.abs(v) < 0.1
    small = np.where(near, v, 0.0)
    square = small * small
    series = np.zeros_like(square)
    for power in range(19, 1, -2):
        series = (series + 1 / power) * square
    return np.where(
        near, difference * small + 2 * x * small * series, x * np.log(x / mean) - difference
    )

"""The full loss that a sampled one stands for: theta from vartheta, and Lemma 2's norms.

With N = K - 1 negatives in all and B of them sampled, the j-th hardest negative is sampled with
probability B / N, and then the number X_j of harder ones in the sample is hypergeometric: B - 1
draws from N - 1, of which j - 1 are harder. Hence

  theta_j = sum_i vartheta_i C(j-1, i-1) C(N-j, B-i) / C(N, B) = (B / N) E[vartheta_{X_j + 1}].

Two things make this cheap at K in the millions. The probabilities fall off so fast that a window of
a few deviations around the mode carries the whole expectation. And log(theta_j) is smooth in j, so
that it is computed at a few thousand ranks and interpolated, on intervals which are halved until
the interpolation is exact to rounding.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numpy.polynomial import chebyshev

from snm.errors import InputError

__all__ = [
    "check_non_increasing",
    "check_vartheta",
    "check_weights",
    "lemma2_bound",
    "theta_from_vartheta",
    "theta_norms",
]

Vector = npt.NDArray[np.float64]

_NODES = 20  # interpolation nodes an interval, and as many points to check it at
_TOLERANCE = 1e-11  # of log(theta), so relative to theta
_NEGLIGIBLE = 45.0  # exp(-45) is 3e-20, far below float64's rounding
_UNDERFLOW = -760.0  # exp() of this is zero
# Not scipy.special's, whose import would take a tenth of a second of each command.
_LOG_FACTORIALS = np.log([float(math.factorial(n)) for n in range(21)])
_CELLS = 1 << 20  # of a block of windows: 8 MB


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
    """Returns vartheta as float64, or raises `InputError` if it cannot weigh such a sample.

    Args:
      vartheta: [r], finite, non-negative and non-increasing, with r <= B.
      sampled: B, from 1 to K - 1.
      num_labels: K.

    Returns:
      float64 [r].
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
      vartheta: [r] with r <= B, non-negative and non-increasing; the rest weighs 0.
      sampled: B, how many of the K - 1 negatives are sampled.
      num_labels: K.

    Returns:
      theta, float64 [K - 1], non-increasing. Against exact arithmetic its relative error is below
      1e-10 wherever theta_j is above 1e-290 (K up to 3,000,000, B up to 32,768; such a call takes
      about half a second).

    Example:
      >>> theta_from_vartheta([1.0], 2, 4)  # the harder one of 2 of 3
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
        # Beyond this rank even a sample of all easier labels has too few of them.
        last = total - sampled + weights.size
        _fill(theta, 1, last, weights, sampled, total)
        # Rounding must not undo the order, which convexity rests on.
        np.minimum.accumulate(theta, out=theta)
    return theta


def theta_norms(vartheta: npt.ArrayLike, sampled: int, num_labels: int) -> tuple[float, float]:
    """The 1-norm (which is that of vartheta) and the 2-norm of theta.

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


def _fill(theta: Vector, first: int, last: int, weights: Vector, sampled: int, total: int) -> None:
    """Fills theta for the ranks first..last, counted from 1, interval by interval."""
    waiting = [(first, last)]
    while waiting:
        low, high = waiting.pop()
        if high - low < 2 * _NODES:
            ranks = np.arange(low, high + 1)
            theta[low - 1 : high] = np.exp(_log_theta(ranks, weights, sampled, total))
            continue
        # Interleaved: the even ones carry the polynomial, the odd ones check it.
        angles = np.pi * np.arange(2 * _NODES + 1) / (2 * _NODES)
        at = np.unique(np.rint((low + high) / 2 - (high - low) / 2 * np.cos(angles)))
        exact = _log_theta(at, weights, sampled, total)
        if exact[0] < _UNDERFLOW:
            continue
        nodes = _unit(at[::2], low, high)
        fit = np.linalg.solve(chebyshev.chebvander(nodes, nodes.size - 1), exact[::2])
        error = np.abs(chebyshev.chebval(_unit(at[1::2], low, high), fit) - exact[1::2]).max()
        if error > _TOLERANCE:
            middle = (low + high) // 2
            waiting += [(low, middle), (middle + 1, high)]
            continue
        everywhere = _unit(np.arange(low, high + 1), low, high)
        theta[low - 1 : high] = np.exp(chebyshev.chebval(everywhere, fit))


def _unit(ranks: npt.NDArray[np.generic], low: int, high: int) -> Vector:
    """Maps low..high to [-1, 1]."""
    return (2.0 * np.asarray(ranks, np.float64) - (low + high)) / (high - low)


def _log_theta(ranks: npt.NDArray[np.generic], weights: Vector, sampled: int, total: int) -> Vector:
    """log(theta_j) at the given ranks j, float64 [n], each from its own window of the sum."""
    harder = np.asarray(ranks, np.float64) - 1
    draws, others = sampled - 1.0, total - 1.0
    mean = harder * draws / others
    variance = mean * (1 - draws / others) * (others - harder) / max(others - 1, 1)
    # A hypergeometric count is a sum of independent indicators (Vatutin and Mikhailov, 1982), so
    # Bernstein's inequality bounds how far from the mean anything can matter, even where the
    # weights there are the largest.
    nats = _NEGLIGIBLE + np.log(weights[0]) - np.log(weights[-1]) + np.log(sampled + 1.0)
    reach = np.ceil(nats / 3 + np.sqrt(nats * nats / 9 + 2 * variance * nats))
    mode = np.floor((draws + 1) * (harder + 1) / (others + 2))
    least = np.maximum(0, harder + draws - others)
    most = np.minimum(np.minimum(harder, draws), weights.size - 1)
    anchor = np.clip(mode, least, most)
    down = np.minimum(anchor - least, reach).astype(np.int64)
    up = np.minimum(most - anchor, reach).astype(np.int64)
    sums = np.empty(harder.size)
    step = max(1, _CELLS // int(max(down.max(), up.max()) + 1))
    for start in range(0, harder.size, step):
        part = slice(start, start + step)
        center, known = anchor[part, None], harder[part, None]
        # Ratios of neighbouring probabilities, multiplied up away from the anchor.
        above = center + np.arange(up[part].max())
        ratio = (known - above) * (draws - above)
        ratio /= (above + 1) * (others - known - draws + above + 1)
        ratio[above >= most[part, None]] = 0
        below = center - np.arange(down[part].max())
        inverse = below * (others - known - draws + below)
        inverse /= (known - below + 1) * (draws - below + 1)
        inverse[below <= least[part, None]] = 0
        sums[part] = (
            weights[anchor[part].astype(np.int64)]
            + _weighed(np.cumprod(ratio, axis=1), above + 1, weights)
            + _weighed(np.cumprod(inverse, axis=1), below - 1, weights)
        )
    at_anchor = _log_hypergeometric(anchor, others, harder, draws)
    return np.log(sampled / total) + at_anchor + np.log(sums)


def _weighed(probability: Vector, index: Vector, weights: Vector) -> Vector:
    at = np.clip(index, 0, weights.size - 1).astype(np.int64)
    return np.einsum("ij,ij->i", probability, weights[at])


def _log_hypergeometric(x: Vector, total: float, marked: Vector, draws: float) -> Vector:
    """The log of P(X = x): x of the `marked` among `draws` out of `total`.

    Three binomial probabilities in saddle-point form: differences of log-factorials of millions
    would leave 8 digits, deviances leave 14 (Loader, 2000).
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
    """The log of C(n, x) p^x (1 - p)^(n - x), with 0 <= x <= n and 0 < p < 1."""
    x, n = np.broadcast_arrays(x, n)
    none, rest = x == 0, n - x
    every = rest == 0
    inner = ~(none | every)
    a, b, m = np.where(inner, x, 1.0), np.where(inner, rest, 1.0), np.where(inner, n, 2.0)
    value = (
        _stirling_error(m)
        - _stirling_error(a)
        - _stirling_error(b)
        - _deviance(a, m * p)
        - _deviance(b, m * (1 - p))
        - 0.5 * np.log(2 * np.pi * a * (b / m))
    )
    return np.where(none, n * np.log1p(-p), np.where(every, n * np.log(p), value))


def _stirling_error(n: Vector) -> Vector:
    """log(n!) less Stirling's sqrt(2 pi n) (n / e)^n, for whole n >= 1."""
    small = np.minimum(n, 20.0)
    exact = _LOG_FACTORIALS[small.astype(np.int64)] - (small + 0.5) * np.log(small) + small
    exact -= 0.5 * np.log(2 * np.pi)
    square = n * n
    series = (
        1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / 1188 / square) / square) / square) / square
    ) / n
    return np.where(n < 20, exact, series)


def _deviance(x: Vector, mean: Vector) -> Vector:
    """The value of x log(x / mean) + mean - x, exact to rounding also for x near the mean."""
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

r"""The empirical area under the ROC curve, and bounds on its deviation from the expectation.

Bounds of Agarwal, Har-Peled and Roth (2005), and the bound of Freund et al. (2003) in their form.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from snm.errors import InputError

__all__ = [
    "corollary_1",
    "empirical_auc",
    "linear_1d_bounds",
    "rank_shatter_bound",
    "shatter_linear",
    "theorem_2",
    "theorem_3",
    "theorem_5",
]


def empirical_auc(scores: npt.ArrayLike, positive: npt.ArrayLike) -> float:
    r"""The fraction of (positive, negative) pairs that are ranked correctly; a tie counts half.

    .. math::
      \hat A = \frac 1 {mn} \sum_{i: y_i = 1} \sum_{j: y_j = -1}
      \big(I(f(x_i) > f(x_j)) + \tfrac 1 2 I(f(x_i) = f(x_j))\big)

    Args:
      scores: [N], finite or infinite, not NaN.
      positive: bool [N], at least one True and one False.

    Returns:
      The AUC, computed from integer counts in O(N log N).

    Raises:
      InputError: Different shapes, a NaN, or only one class.

    Example:
      >>> empirical_auc([0.1, 0.4, 0.4, 0.8], [False, True, False, True])  # (1 + .5 + 2) / 4
      0.875

    References:
      Agarwal et al. (2005), equation 1.
    """
    values, truth = np.asarray(scores), np.asarray(positive)
    if values.ndim != 1 or truth.shape != values.shape:
        raise InputError("AUC", f"scores {values.shape}, positive {truth.shape}", "[N] each")
    if truth.dtype != bool:
        if not np.isin(truth, (0, 1)).all():
            raise InputError("positive", "values other than 0 and 1", "booleans")
        truth = truth.astype(bool)
    if np.isnan(values).any():
        raise InputError("scores", "NaN", "numbers")
    above, below = values[truth], np.sort(values[~truth])
    if not above.size or not below.size:
        found = f"{above.size} positive and {below.size} negative"
        raise InputError("AUC", found, "at least one of each")
    # Twice the count, so that half a pair for a tie is an integer.
    twice = int(np.searchsorted(below, above, "left").sum(dtype=np.int64))
    twice += int(np.searchsorted(below, above, "right").sum(dtype=np.int64))
    return twice / (2 * above.size * below.size)


def theorem_2(epsilon: float, m: int, n: int, log_shatter: float) -> float:
    r"""Bounds the probability that the AUC of some function in F deviates by epsilon or more.

    .. math:: P \le 4 \, r(F, 2m, 2n) \, e^{-mn \epsilon^2 / (8 (m + n))}

    Args:
      epsilon: The deviation.
      m: Number of positives.
      n: Number of negatives.
      log_shatter: ln r(F, 2m, 2n), from `rank_matrices` or `rank_shatter_bound`.

    Returns:
      The bound, at most 1.

    References:
      Agarwal et al. (2005), Theorem 2.
    """
    _check(m, n)
    exponent = math.log(4) + log_shatter - m * n * epsilon**2 / (8 * (m + n))
    return math.exp(min(0.0, exponent))


def corollary_1(delta: float, m: int, n: int, log_shatter: float) -> float:
    r"""The deviation that is not exceeded with probability 1 - delta.

    .. math:: \epsilon = \sqrt{8 (m + n) (\ln r(F, 2m, 2n) + \ln(4/\delta)) / (mn)}

    Args:
      delta: Between 0 and 1.
      m: Number of positives.
      n: Number of negatives.
      log_shatter: ln r(F, 2m, 2n).

    References:
      Agarwal et al. (2005), Corollary 1.
    """
    _check(m, n, delta)
    return math.sqrt(8 * (m + n) * (log_shatter + math.log(4 / delta)) / (m * n))


def theorem_3(delta: float, size: int, share: float, log_shatter: float) -> float:
    r"""Corollary 1 for random labels: M examples, of which a fraction rho is positive.

    .. math:: \epsilon = \sqrt{8 (\ln r(F, 2 \rho M, 2 (1 - \rho) M) + \ln(4/\delta))
      / (\rho (1 - \rho) M)}

    The value is that of Corollary 1 at m = rho M, but the labels need not be fixed in advance.

    Args:
      delta: Between 0 and 1.
      size: Number of examples M.
      share: rho(S_Y), strictly between 0 and 1.
      log_shatter: ln r(F, 2 rho M, 2 (1 - rho) M).

    References:
      Agarwal et al. (2005), Theorem 3.
    """
    if not 0 < share < 1:
        raise InputError("share of positives", str(share), "strictly between 0 and 1")
    _check(size, size, delta)
    return math.sqrt(8 * (log_shatter + math.log(4 / delta)) / (share * (1 - share) * size))


def rank_shatter_bound(m: int, n: int, d: int) -> float:
    r"""The logarithm of an upper bound on r(F, m, n) for linear ranking functions on R^d.

    .. math:: r \le \sum_{i=0}^d 2^i \binom{mn}{i} \le (2 e m n / d)^d

    The sum bounds the number of faces of mn hyperplanes in R^d (Theorem 4 with Lemma 2). This
    function evaluates the sum, because the closed form of Theorem 5 needs d <= 2mn. The bound is
    loose, since all the hyperplanes pass through the origin: for d = 1 it is 1 + 2mn, and the true
    value is 3.

    Args:
      m: Number of positives.
      n: Number of negatives.
      d: Dimension.

    Returns:
      The natural logarithm of the sum.

    Example:
      >>> round(math.exp(rank_shatter_bound(2, 3, 1)))
      13

    References:
      Agarwal et al. (2005), Theorem 4, Lemma 2, Theorem 5.
    """
    _check(m, n)
    if d < 1:
        raise InputError("dimension", str(d), "at least 1")
    pairs = m * n
    terms = [
        i * math.log(2) + math.lgamma(pairs + 1) - math.lgamma(i + 1) - math.lgamma(pairs - i + 1)
        for i in range(min(d, pairs) + 1)
    ]
    return float(np.logaddexp.reduce(terms))


def theorem_5(m: int, n: int, d: int) -> float:
    """The logarithm of (2 e m n / d)^d, the closed form of `rank_shatter_bound` for d <= 2mn.

    Args:
      m: Number of positives.
      n: Number of negatives.
      d: Dimension.

    Raises:
      InputError: d is above 2mn, beyond which the formula falls with d: at d = 20 and mn = 1 it
        gives e^-26, but two points have 3 rank matrices.

    References:
      Agarwal et al. (2005), Theorem 5.
    """
    _check(m, n)
    if not 1 <= d <= 2 * m * n:
        raise InputError("dimension", str(d), f"from 1 to 2mn = {2 * m * n}")
    return d * math.log(2 * math.e * m * n / d)


def _freund_bound(delta: float, m: int, n: int, log_s_2m: float, log_s_2n: float) -> float:
    r"""The deviation in the bound of Freund et al. (2003), in general form.

    .. math::
      \epsilon = 2 \sqrt{(\ln s(\check F, 2m) + \ln(12/\delta)) / m}
      + 2 \sqrt{(\ln s(\check F, 2n) + \ln(12/\delta)) / n}

    s is the shatter coefficient of the class of functions sign(f(x) - f(z)); Agarwal et al. (2005),
    Theorem 6.
    """
    _check(m, n, delta)
    tail = math.log(12 / delta)
    return 2 * math.sqrt((log_s_2m + tail) / m) + 2 * math.sqrt((log_s_2n + tail) / n)


def shatter_linear(count: int) -> int:
    """The shatter coefficient s(F, N) = 4N + 1 of x -> sign(w x + b) on the line, for N >= 2.

    For w > 0 the threshold lies at one of N points or in one of N + 1 gaps, and likewise for w < 0.
    This counts all-positive and all-negative twice, and w = b = 0 adds all-zero. For N = 1 the
    coefficient is 3.

    References:
      Agarwal et al. (2005), section 5.
    """
    if count < 1:
        raise InputError("points", str(count), "at least 1")
    return 4 * count + 1 if count > 1 else 3


def linear_1d_bounds(delta: float, m: int, n: int) -> tuple[float, float]:
    """Both deviations for linear ranking on the line, with exact coefficients (Figure 1).

    Args:
      delta: Between 0 and 1; 0.01 in the figure.
      m: Number of positives.
      n: Number of negatives.

    Returns:
      The deviation of Corollary 1 with r = 3, and that of Freund et al. with s(2m) = 8m + 1.

    Example:
      >>> [round(x, 3) for x in linear_1d_bounds(0.01, 500, 500)]
      [0.476, 0.702]

    References:
      Agarwal et al. (2005), section 5, Figure 1.
    """
    agarwal = corollary_1(delta, m, n, math.log(3))
    freund = _freund_bound(
        delta, m, n, math.log(shatter_linear(2 * m)), math.log(shatter_linear(2 * n))
    )
    return agarwal, freund


def _check(m: int, n: int, delta: float = 0.5) -> None:
    if m < 1 or n < 1 or not 0 < delta < 1:
        found = f"m {m}, n {n}, delta {delta}"
        raise InputError("AUC bound", found, "m and n of at least 1, 0 < delta < 1")

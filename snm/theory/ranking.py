r"""Does the length of document lists matter? Constants and bounds of Tewari and Chaudhuri (2015).

A list is a matrix X of m documents with d features, scored linearly: s = X w. With ||w||_2 <= W and
rows of X of length at most R (the class F_2), or ||w||_1 <= W and entries of X of at most R (F_1),
bounds need the Lipschitz constant of the loss in the *max* norm of the scores, and are then free of
m; with the constant in the 2-norm Chapelle and Wu (2010) pay sqrt(m).

Constants that are printed too large are given as they are, smallest first; see each function.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from snm.errors import InputError

__all__ = [
    "RankingBound",
    "RankingConstants",
    "chapelle_wu",
    "corollary_8",
    "entropy_integral",
    "listnet_constants",
    "ranksvm_constants",
    "smoothed_dcg_constants",
    "theorem_5",
    "theorem_6",
    "theorem_9",
    "theorem_12",
    "theorem_17",
]


@dataclass(frozen=True)
class RankingConstants:
    """Lipschitz and smoothness constants of a loss in its scores.

    Attributes:
      lipschitz: The smallest G with |l(s) - l(s')| <= G ||s - s'||_inf: the largest 1-norm of a
        gradient.
      lipschitz_l2: The same for the 2-norm.
      smoothness: The smallest H with ||l'(s) - l'(s')||_1 <= H ||s - s'||_inf; None where the loss
        has no such H, or it was not worked out.
      printed_lipschitz: What the paper states for the first.
      printed_smoothness: What it states for the third.
    """

    lipschitz: float
    lipschitz_l2: float
    smoothness: float | None
    printed_lipschitz: float
    printed_smoothness: float | None = None


def listnet_constants() -> RankingConstants:
    """ListNet (top 1, softmax), at any m > 1.

    The gradient is P(s) - P(y): its 1-norm comes up to 2 and its 2-norm up to sqrt(2), where the
    paper says that the latter is 2 too. The Hessian is that of a covariance under P(s), so that
    u^T H v <= 1 for signs u and v: the smoothness constant is 1 (attained by two equal scores),
    and the printed 2 is a bound of the sum of absolute entries.

    References:
      Tewari, Chaudhuri (2015), Proposition 1.
    """
    return RankingConstants(2.0, math.sqrt(2), 1.0, 2.0, 2.0)


def smoothed_dcg_constants(sigma: float, largest_grade: float) -> RankingConstants:
    """Smoothed DCG@1, at any m > 1, with D(1) = 1 and G(y) = 2^y - 1.

    The gradient's entries are P_j (G_j - mean G) / sigma: they add up to 0 and their absolute
    values to a mean absolute deviation, which for values in [0, G(Ymax)] is at most G(Ymax) / 2.
    So the constant is G(Ymax) / (2 sigma), a quarter of the printed 2 G(Ymax) / sigma, and in the
    2-norm it is smaller by sqrt(2) (a vector whose entries add up to 0), not the same.

    Args:
      sigma: Temperature, above 0.
      largest_grade: Ymax.

    References:
      Tewari, Chaudhuri (2015), Proposition 2.
    """
    if not (sigma > 0 and largest_grade >= 0):
        raise InputError("smoothed DCG", f"sigma {sigma}, Ymax {largest_grade}", "above 0, >= 0")
    gain = 2**largest_grade - 1
    sharp = gain / (2 * sigma)
    return RankingConstants(sharp, sharp / math.sqrt(2), None, 2 * gain / sigma)


def ranksvm_constants(m: int) -> RankingConstants:
    """RankSVM: 2 floor(m^2 / 4), which is the O(m^2) of the paper.

    The gradient's 1-norm is twice the weight of the largest cut of the pairs, at most
    floor(m/2) ceil(m/2) pairs, and half the list against the other half attains it. In the 2-norm
    the largest gradient is that of m different grades, all pairs within the margin:
    sqrt(m (m^2 - 1) / 3). The hinge has no smoothness constant.

    Args:
      m: Documents in a list.

    References:
      Tewari, Chaudhuri (2015), section 3.3 and appendix C.
    """
    _check(m=m)
    cut = 2.0 * (m * m // 4)
    return RankingConstants(cut, math.sqrt(m * (m * m - 1) / 3), None, cut)


@dataclass(frozen=True)
class RankingBound:
    """A bound on expected loss less empirical loss (or less the best loss), term by term.

    Attributes:
      complexity: The term of the class.
      confidence: The term of delta; 0 for bounds in expectation.
    """

    complexity: float
    confidence: float = 0.0

    @property
    def total(self) -> float:
        """Their sum."""
        return self.complexity + self.confidence


def theorem_5(lipschitz: float, radius: float, reach: float, n: int) -> RankingBound:
    r"""Online gradient descent, convex losses: E[L(w_OGD)] - L(w) for any ||w||_2 <= W.

    .. math:: G W R \sqrt{2/n}

    The regret that it rests on, W^2 / (2 eta) + eta G^2 n, is twice too large in its second term
    (Zinkevich's has eta G^2 n / 2), so that a step of W / (G R sqrt(n)) would give
    G W R / sqrt(n). The printed bound and its step are kept.

    Args:
      lipschitz: G, in the max norm.
      radius: W.
      reach: R, the longest row of X.
      n: Lists.

    References:
      Tewari, Chaudhuri (2015), Theorem 5.
    """
    _check(n=n)
    return RankingBound(lipschitz * radius * reach * math.sqrt(2 / n))


def theorem_6(lipschitz: float, radius: float, reach: float, n: int) -> RankingBound:
    r"""Regularised empirical risk minimisation, convex losses: E[L(w_lambda)] - L(w*).

    .. math:: 2 G R W (8/n + \sqrt{2/n})

    Args:
      lipschitz: G, in the max norm.
      radius: W.
      reach: R.
      n: Lists. For lambda see `ranking_fit.prescribed_lambda`.

    References:
      Tewari, Chaudhuri (2015), Theorems 6 and 18.
    """
    _check(n=n)
    return RankingBound(2 * lipschitz * reach * radius * (8 / n + math.sqrt(2 / n)))


def corollary_8(scale: float, largest: float, n: int, m: int) -> float:
    r"""Rademacher complexity of a Lipschitz loss over F_2, as printed.

    .. math:: 10 C \log \frac{6 B}{5 C}, \quad C = G W R \sqrt{\log_2(3mn) / n}

    Its derivation drops the brackets of ceil(a^2 / eps^2) in Proposition 7. For B from 1.1 G W R
    on, the slack of 6/5 makes up for that (a test compares it with `entropy_integral`); below it
    is not proved, and C above 6 B / 5 makes it negative. `theorem_9` takes the integral.

    Args:
      scale: a = G W R.
      largest: B, the loss lies in [0, B].
      n: Lists.
      m: Documents a list.

    References:
      Tewari, Chaudhuri (2015), Corollary 8.
    """
    _check(n=n, m=m)
    c = scale * math.sqrt(math.log2(3 * m * n) / n)
    return 10 * c * math.log(6 * largest / (5 * c))


def entropy_integral(
    log2_cover: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]],
    scale: float,
    largest: float,
    n: int,
) -> float:
    r"""The refined entropy integral, by upper sums on a fine geometric grid.

    .. math:: \inf_{\alpha > 0} 4 \alpha
      + 10 \int_\alpha^{\min(B, a)} \sqrt{\log_2 N(\epsilon) / n} \, d\epsilon

    Beyond a = G W R one function covers the class: that of w = 0.

    Args:
      log2_cover: eps float64 [r] -> log2 N(eps), non-increasing.
      scale: a.
      largest: B.
      n: Lists.

    Returns:
      An upper bound of the Rademacher complexity, at most B; 0.1% above the infimum.

    References:
      Tewari, Chaudhuri (2015), equations 5 and 6 (Mendelson, 2002; Srebro and Sridharan).
    """
    top = min(scale, largest)
    if top <= 0:
        return 0.0
    eps = top * np.exp(-np.arange(0, 14_000) / 1000.0)  # down to 1e-6 of the scale
    height = np.sqrt(log2_cover(eps) / n)
    # Upper sum of a non-increasing integrand: the value at the smaller end.
    parts = np.concatenate([[0.0], np.cumsum(height[1:] * -np.diff(eps))])
    return float(min(largest, np.min(4 * eps + 10 * parts)))


def theorem_9(
    lipschitz: float, radius: float, reach: float, largest: float, n: int, m: int, delta: float
) -> RankingBound:
    r"""Uniform convergence on F_2 for any Lipschitz loss, with every factor.

    .. math:: L(w) \le \hat L(w) + 2 \hat R_n + 3 B \sqrt{\log(2/\delta) / (2n)}

    with the Rademacher complexity by the entropy integral of Proposition 7,
    log2 N = ceil(a^2 / eps^2) log2(2mn + 1), a = G W R. The list's length enters by a logarithm.

    Args:
      lipschitz: G, in the max norm.
      radius: W.
      reach: R.
      largest: B, the loss lies in [0, B].
      n: Lists.
      m: Documents a list.
      delta: It holds with probability 1 - delta.

    References:
      Tewari, Chaudhuri (2015), Proposition 7, Theorem 9; Bartlett and Mendelson (2003).
    """
    _check(n=n, m=m, delta=delta)
    a = lipschitz * radius * reach
    bits = math.log2(2 * m * n + 1)
    average = entropy_integral(lambda e: np.ceil((a / e) ** 2) * bits, a, largest, n)
    return RankingBound(2 * average, _confidence(largest, n, delta))


def theorem_12(
    lipschitz: float,
    radius: float,
    reach: float,
    largest: float,
    n: int,
    m: int,
    num_features: int,
    delta: float,
) -> RankingBound:
    r"""Uniform convergence on F_1, almost free of the number of features.

    As `theorem_9`, with Proposition 10's
    log2 N = ceil(288 a^2 (2 + ln d) / eps^2) log2(2 ceil(8 a / eps) mn + 1). The closed form that
    Corollary 11 prints takes the logarithm of 24 mn G W R, which has the unit of the loss, so that
    its value depends on the unit; and it drops the 2 + and the ceil. The integral is evaluated.

    Args:
      lipschitz: G, in the max norm.
      radius: W, of the 1-norm.
      reach: R, the largest absolute entry of X.
      largest: B.
      n: Lists.
      m: Documents a list.
      num_features: d.
      delta: It holds with probability 1 - delta.

    References:
      Tewari, Chaudhuri (2015), Proposition 10, Corollary 11, Theorem 12.
    """
    _check(n=n, m=m, delta=delta)
    a = lipschitz * radius * reach

    def cover(e: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        balls = np.ceil(288 * a**2 * (2 + math.log(num_features)) / e**2)
        return balls * np.log2(2 * np.ceil(8 * a / e) * m * n + 1)

    average = entropy_integral(cover, a, largest, n)
    return RankingBound(2 * average, _confidence(largest, n, delta))


def theorem_17(
    smoothness: float,
    radius: float,
    reach: float,
    largest: float,
    n: int,
    m: int,
    delta: float,
    empirical: float,
) -> RankingBound:
    r"""Optimistic rate of a smooth non-negative loss on F_2, with every factor of the proof.

    .. math::
      L(w) \le \hat L(w) + 45 r^* + \sqrt{8 r^* L(w)} + \sqrt{4 r_0 L(w)} + 20 r_0, \\
      r_0 = B (\log(1/\delta) + \log\log n) / n, \quad r^* = (4 C \log(3 \sqrt B / C))^2, \quad
      C = 5 \sqrt 3 W R \sqrt{H \log_2(3mn) / n}

    solved for L(w). Where C comes near sqrt(B) the logarithm is held at 1, its value where the
    derivation's alpha is as large as the integral's end.

    Args:
      smoothness: H, in the max norm.
      radius: W.
      reach: R.
      largest: B.
      n: Lists, at least 3.
      m: Documents a list.
      delta: It holds with probability 1 - delta.
      empirical: The mean loss on the sample.

    Returns:
      The bound of L(w) less the empirical loss; `complexity` is what delta = 1 would leave.

    References:
      Tewari, Chaudhuri (2015), Corollary 16, Theorem 17, appendices L and M.
    """
    _check(n=n, m=m, delta=delta)
    if n < 3:
        raise InputError("lists", str(n), "at least 3, for log log n")
    c = 5 * math.sqrt(3) * radius * reach * math.sqrt(smoothness * math.log2(3 * m * n) / n)
    worst = (4 * c * max(1.0, math.log(3 * math.sqrt(largest) / c))) ** 2

    def excess(log_delta: float) -> float:
        r0 = largest * (log_delta + math.log(math.log(n))) / n
        # x = sqrt(L) solves x^2 = p x + q at the largest.
        p = math.sqrt(8 * worst) + math.sqrt(4 * r0)
        q = empirical + 45 * worst + 20 * r0
        return ((p + math.sqrt(p * p + 4 * q)) / 2) ** 2 - empirical

    whole, without = excess(math.log(1 / delta)), excess(0.0)
    return RankingBound(without, whole - without)


def chapelle_wu(
    lipschitz_l2: float, radius: float, reach: float, n: int, m: int, delta: float
) -> RankingBound:
    r"""The bound that pays for the list's length.

    .. math:: 3 G_2 W R \sqrt{m/n} + \sqrt{8 \log(1/\delta) / n}

    Args:
      lipschitz_l2: G in the 2-norm of the scores.
      radius: W.
      reach: R.
      n: Lists.
      m: Documents a list.
      delta: It holds with probability 1 - delta, for a loss in [0, 1].

    References:
      Chapelle and Wu (2010), Theorem 1, as in Tewari, Chaudhuri (2015), section 4.
    """
    _check(n=n, m=m, delta=delta)
    return RankingBound(
        3 * lipschitz_l2 * radius * reach * math.sqrt(m / n), math.sqrt(8 * math.log(1 / delta) / n)
    )


def _confidence(largest: float, n: int, delta: float) -> float:
    return 3 * largest * math.sqrt(math.log(2 / delta) / (2 * n))


def _check(n: int = 1, m: int = 1, delta: float = 0.5) -> None:
    if n < 1 or m < 1 or not 0 < delta < 1:
        found = f"n {n}, m {m}, delta {delta}"
        raise InputError("ranking bound", found, "n and m of at least 1, 0 < delta < 1")

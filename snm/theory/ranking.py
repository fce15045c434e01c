r"""Constants of ranking losses and generalization bounds of Tewari and Chaudhuri (2015).

The paper asks whether the length of document lists matters. A list is a matrix X of m documents
with d features, with linear scores s = X w. The class F_2 has ||w||_2 <= W and rows of X of norm at
most R; the class F_1 has ||w||_1 <= W and absolute entries of X of at most R. Bounds with the
Lipschitz constant of the loss in the *max* norm of the scores do not depend on m. The bound of
Chapelle and Wu (2010) uses the constant in the 2-norm and grows with sqrt(m).

Some printed constants are larger than necessary. The functions return the smallest constants and
the printed ones.
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
      smoothness: The smallest H with ||l'(s) - l'(s')||_1 <= H ||s - s'||_inf; None if the loss
        has no such H, or it is not derived here.
      printed_lipschitz: The paper's value of `lipschitz`.
    """

    lipschitz: float
    lipschitz_l2: float
    smoothness: float | None
    printed_lipschitz: float


def listnet_constants() -> RankingConstants:
    """Constants of ListNet (top 1, softmax) for any m > 1.

    The gradient is P(s) - P(y). Its 1-norm approaches 2 and its 2-norm sqrt(2) (the paper says 2).
    The Hessian is the covariance of a one-hot vector under P(s), so u^T H v <= 1 for sign vectors
    u and v. The smoothness constant is therefore 1, attained by two equal scores. The printed 2
    bounds the sum of the absolute entries.

    References:
      Tewari, Chaudhuri (2015), Proposition 1.
    """
    return RankingConstants(2.0, math.sqrt(2), 1.0, 2.0)


def smoothed_dcg_constants(sigma: float, largest_grade: float) -> RankingConstants:
    """Constants of smoothed DCG@1 for any m > 1, with D(1) = 1 and G(y) = 2^y - 1.

    The entries of the gradient are P_j (G_j - mean G) / sigma. They sum to 0. The sum of their
    absolute values is a mean absolute deviation over sigma, which for values in [0, G(Ymax)] is at
    most G(Ymax) / (2 sigma). This is a quarter of the printed 2 G(Ymax) / sigma. In the 2-norm the
    constant is smaller by a factor of sqrt(2), because the entries sum to 0.

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
    """Constants of RankSVM: 2 floor(m^2 / 4), which is the O(m^2) of the paper.

    The 1-norm of the gradient is at most twice the size of the largest cut of the pairs,
    floor(m/2) ceil(m/2). A list with two grades, one for each half, attains it. The largest 2-norm
    belongs to m different grades with all pairs within the margin: sqrt(m (m^2 - 1) / 3). The hinge
    has no smoothness constant.

    Args:
      m: Number of documents in a list.

    References:
      Tewari, Chaudhuri (2015), section 3.3 and appendix C.
    """
    _check(m=m)
    cut = 2.0 * (m * m // 4)
    return RankingConstants(cut, math.sqrt(m * (m * m - 1) / 3), None, cut)


@dataclass(frozen=True)
class RankingBound:
    """A bound on the expected loss minus the empirical loss (or minus the best loss).

    Attributes:
      complexity: The term of the function class.
      confidence: The term of delta; 0 for bounds in expectation.
    """

    complexity: float
    confidence: float = 0.0

    @property
    def total(self) -> float:
        """The sum of both terms."""
        return self.complexity + self.confidence


def theorem_5(lipschitz: float, radius: float, max_norm: float, n: int) -> RankingBound:
    r"""Bounds E[L(w_OGD)] - L(w) of online gradient descent on a convex loss, for ||w||_2 <= W.

    .. math:: G W R \sqrt{2/n}

    The proof uses the regret W^2 / (2 eta) + eta G^2 n, whose second term is twice that of
    Zinkevich. With eta G^2 n / 2 and the step W / (G R sqrt(n)) the bound would be G W R / sqrt(n).
    This function returns the printed bound, which belongs to the printed step.

    Args:
      lipschitz: G, in the max norm.
      radius: W.
      max_norm: R, the largest norm of a row of X.
      n: Number of lists.

    References:
      Tewari, Chaudhuri (2015), Theorem 5.
    """
    _check(n=n)
    return RankingBound(lipschitz * radius * max_norm * math.sqrt(2 / n))


def theorem_6(lipschitz: float, radius: float, max_norm: float, n: int) -> RankingBound:
    r"""Bounds E[L(w_lambda)] - L(w*) of regularized empirical risk minimization on a convex loss.

    .. math:: 2 G R W (8/n + \sqrt{2/n})

    Args:
      lipschitz: G, in the max norm.
      radius: W.
      max_norm: R.
      n: Number of lists. `ranking_fit.prescribed_lambda` gives lambda.

    References:
      Tewari, Chaudhuri (2015), Theorems 6 and 18.
    """
    _check(n=n)
    return RankingBound(2 * lipschitz * max_norm * radius * (8 / n + math.sqrt(2 / n)))


def corollary_8(scale: float, largest: float, n: int, m: int) -> float:
    r"""The printed bound on the Rademacher complexity of a Lipschitz loss over F_2.

    .. math:: 10 C \log \frac{6 B}{5 C}, \quad C = G W R \sqrt{\log_2(3mn) / n}

    The derivation drops the rounding up of ceil(a^2 / eps^2) in Proposition 7. For B >= 1.1 G W R
    the factor 6/5 compensates for it (a test compares with `entropy_integral`). For smaller B the
    bound is not proved, and it is negative for C > 6 B / 5. `theorem_9` uses the integral instead.

    Args:
      scale: a = G W R.
      largest: B, the loss lies in [0, B].
      n: Number of lists.
      m: Number of documents in a list.

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
    r"""The refined entropy integral, evaluated by upper sums on a fine geometric grid.

    .. math:: \inf_{\alpha > 0} 4 \alpha
      + 10 \int_\alpha^{\min(B, a)} \sqrt{\log_2 N(\epsilon) / n} \, d\epsilon

    For eps >= a = G W R the function of w = 0 alone covers the class.

    Args:
      log2_cover: eps float64 [r] -> log2 N(eps), non-increasing.
      scale: a.
      largest: B.
      n: Number of lists.

    Returns:
      An upper bound on the Rademacher complexity, at most B; 0.1% above the infimum.

    References:
      Tewari, Chaudhuri (2015), equations 5 and 6 (Mendelson, 2002; Srebro and Sridharan).
    """
    top = min(scale, largest)
    if top <= 0:
        return 0.0
    eps = top * np.exp(-np.arange(0, 14_000) / 1000.0)  # down to 1e-6 of the scale
    height = np.sqrt(log2_cover(eps) / n)
    # Upper sum of a non-increasing integrand: its value at the smaller end of each interval.
    parts = np.concatenate([[0.0], np.cumsum(height[1:] * -np.diff(eps))])
    return float(min(largest, np.min(4 * eps + 10 * parts)))


def theorem_9(
    lipschitz: float, radius: float, max_norm: float, largest: float, n: int, m: int, delta: float
) -> RankingBound:
    r"""Uniform convergence on F_2 for any Lipschitz loss, with all constants.

    .. math:: L(w) \le \hat L(w) + 2 \hat R_n + 3 B \sqrt{\log(2/\delta) / (2n)}

    The Rademacher complexity is the entropy integral with the cover of Proposition 7,
    log2 N = ceil(a^2 / eps^2) log2(2mn + 1), a = G W R. It depends on the length m of the lists
    only through a logarithm.

    Args:
      lipschitz: G, in the max norm.
      radius: W.
      max_norm: R.
      largest: B, the loss lies in [0, B].
      n: Number of lists.
      m: Number of documents in a list.
      delta: The bound holds with probability 1 - delta.

    References:
      Tewari, Chaudhuri (2015), Proposition 7, Theorem 9; Bartlett and Mendelson (2003).
    """
    _check(n, m, delta, lipschitz=lipschitz, radius=radius, max_norm=max_norm, largest=largest)
    a = lipschitz * radius * max_norm
    bits = math.log2(2 * m * n + 1)
    average = entropy_integral(lambda e: np.ceil((a / e) ** 2) * bits, a, largest, n)
    return RankingBound(2 * average, _confidence(largest, n, delta))


def theorem_12(
    lipschitz: float,
    radius: float,
    max_norm: float,
    largest: float,
    n: int,
    m: int,
    num_features: int,
    delta: float,
) -> RankingBound:
    r"""Uniform convergence on F_1, with a logarithmic dependence on the number of features.

    As `theorem_9`, with the cover of Proposition 10,
    log2 N = ceil(288 a^2 (2 + ln d) / eps^2) log2(2 ceil(8 a / eps) mn + 1). The closed form of
    Corollary 11 is not used: it contains the logarithm of 24 mn G W R, whose value depends on the
    unit of the loss, and it drops the "2 +" and the ceil.

    Args:
      lipschitz: G, in the max norm.
      radius: W, the bound on the 1-norm of w.
      max_norm: R, the largest absolute entry of X.
      largest: B.
      n: Number of lists.
      m: Number of documents in a list.
      num_features: d.
      delta: The bound holds with probability 1 - delta.

    References:
      Tewari, Chaudhuri (2015), Proposition 10, Corollary 11, Theorem 12.
    """
    _check(n, m, delta, lipschitz=lipschitz, radius=radius, max_norm=max_norm, largest=largest)
    a = lipschitz * radius * max_norm

    def cover(e: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        balls = np.ceil(288 * a**2 * (2 + math.log(num_features)) / e**2)
        return balls * np.log2(2 * np.ceil(8 * a / e) * m * n + 1)

    average = entropy_integral(cover, a, largest, n)
    return RankingBound(2 * average, _confidence(largest, n, delta))


def theorem_17(
    smoothness: float,
    radius: float,
    max_norm: float,
    largest: float,
    n: int,
    m: int,
    delta: float,
    empirical: float,
) -> RankingBound:
    r"""Optimistic rate of a smooth non-negative loss on F_2, with all constants of the proof.

    .. math::
      L(w) \le \hat L(w) + 45 r^* + \sqrt{8 r^* L(w)} + \sqrt{4 r_0 L(w)} + 20 r_0, \\
      r_0 = B (\log(1/\delta) + \log\log n) / n, \quad r^* = (4 C \log(3 \sqrt B / C))^2, \quad
      C = 5 \sqrt 3 W R \sqrt{H \log_2(3mn) / n}

    The function solves this for L(w). The logarithm in r* is at least 1, its value where alpha in
    the derivation reaches the upper limit of the integral (C near sqrt(B)).

    Corollary 16 drops the rounding up in Proposition 15, as `corollary_8` does in Proposition 7.
    Its 3 in place of e compensates for it where computed for B <= 12 H (W R)^2, but not for large
    B, where the bound is not proved: with H = W R = r = 1, n = 10^6 and m = 10 the entropy integral
    is 0.711 and the corollary 0.732 at B = 1, 0.993 and 0.991 at B = 20, 1.114 and 1.070 at B = 50.

    Args:
      smoothness: H, in the max norm.
      radius: W.
      max_norm: R.
      largest: B.
      n: Number of lists, at least 3.
      m: Number of documents in a list.
      delta: The bound holds with probability 1 - delta.
      empirical: The mean loss on the sample.

    Returns:
      The bound on L(w) minus the empirical loss; `complexity` is its value at delta = 1.

    References:
      Tewari, Chaudhuri (2015), Corollary 16, Theorem 17, appendices L and M.
    """
    _check(n, m, delta, smoothness=smoothness, radius=radius, max_norm=max_norm, largest=largest)
    if n < 3:
        raise InputError("lists", str(n), "at least 3, for log log n")
    c = 5 * math.sqrt(3) * radius * max_norm * math.sqrt(smoothness * math.log2(3 * m * n) / n)
    r_star = (4 * c * max(1.0, math.log(3 * math.sqrt(largest) / c))) ** 2

    def excess(log_delta: float) -> float:
        r0 = largest * (log_delta + math.log(math.log(n))) / n
        # The largest x = sqrt(L) that the inequality allows solves x^2 = p x + q.
        p = math.sqrt(8 * r_star) + math.sqrt(4 * r0)
        q = empirical + 45 * r_star + 20 * r0
        return ((p + math.sqrt(p * p + 4 * q)) / 2) ** 2 - empirical

    whole, without = excess(math.log(1 / delta)), excess(0.0)
    return RankingBound(without, whole - without)


def chapelle_wu(
    lipschitz_l2: float, radius: float, max_norm: float, n: int, m: int, delta: float
) -> RankingBound:
    r"""The bound of Chapelle and Wu (2010), which grows with the length of the lists.

    .. math:: 3 G_2 W R \sqrt{m/n} + \sqrt{8 \log(1/\delta) / n}

    Args:
      lipschitz_l2: G_2, in the 2-norm of the scores.
      radius: W.
      max_norm: R.
      n: Number of lists.
      m: Number of documents in a list.
      delta: The bound holds with probability 1 - delta, for a loss in [0, 1].

    References:
      Chapelle and Wu (2010), Theorem 1, as in Tewari, Chaudhuri (2015), section 4.
    """
    _check(n, m, delta, lipschitz_l2=lipschitz_l2, radius=radius, max_norm=max_norm)
    return RankingBound(
        3 * lipschitz_l2 * radius * max_norm * math.sqrt(m / n),
        math.sqrt(8 * math.log(1 / delta) / n),
    )


def _confidence(largest: float, n: int, delta: float) -> float:
    return 3 * largest * math.sqrt(math.log(2 / delta) / (2 * n))


def _check(n: int = 1, m: int = 1, delta: float = 0.5, **constants: float) -> None:
    for name, value in constants.items():
        if not (math.isfinite(value) and value > 0):
            raise InputError(name, str(value), "a finite number above 0")
    if n < 1 or m < 1 or not 0 < delta < 1:
        found = f"n {n}, m {m}, delta {delta}"
        raise InputError("ranking bound", found, "n and m of at least 1, 0 < delta < 1")

r"""Generalization bounds of listwise ranking algorithms (Lan et al., 2009).

Scores are linear, |f(x)| = |w . x| <= BM, and pass through a transformation psi. With probability
1 - delta the bound of an algorithm A is (Theorems 1 and 2)

  sup_f R(f) - R^(f) <= 2 C_A(psi) N(psi) R(F) + sqrt(2 ln(2/delta) / n).

Two statements of the paper are inexact. A test checks each of these corrections:

- **N of the sigmoid.** N(psi) is the largest slope on [-BM, BM], which is a / 4 (at 0). Table 1 has
  a e^{aBM} / (1 + e^{-aBM})^2, the largest numerator over the smallest denominator. This upper
  bound is larger by the factor 4 e^{aBM} / (1 + e^{-aBM})^2. Tables 2 and 3 depend on it:
  see `snm.theory.listwise_tables`.
- **R(F)** <= 2BM / sqrt(n) belongs to another normalization. With Definition 1 (1/n, one supremum
  without absolute value) R(F) is at most BM / sqrt(n).
"""

from __future__ import annotations

import math
from typing import Literal, get_args

from snm.errors import InputError
from snm.losses.transformations import Transformation
from snm.system.numbers import exp_or_inf

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "Slope",
    "factor",
    "listwise_bound",
    "log_factor",
    "log_normalizer",
    "log_product",
    "rademacher_linear",
    "slope",
]

Algorithm = Literal["listmle", "listnet", "rankcosine"]
Slope = Literal["exact", "printed"]
ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)


def slope(psi: Transformation, max_score: float, kind: Slope = "exact") -> float:
    """N(psi), the largest slope on [-BM, BM].

    Args:
      psi: linear, exponential or sigmoid.
      max_score: BM, above 0.
      kind: "printed" uses the bound of Table 1 for the sigmoid; the others have exact slopes there.

    Returns:
      a, a e^{aBM} or a / 4 (printed: a e^{aBM} / (1 + e^{-aBM})^2); infinite on overflow.

    Example:
      >>> from snm.losses.transformations import sigmoid
      >>> round(slope(sigmoid(2.0), 1.0), 12)
      0.5

    References:
      Lan et al. (2009), Theorem 2, Table 1.
    """
    _check(psi, max_score)
    return exp_or_inf(_log_slope(psi, max_score, kind))


def log_normalizer(algorithm: Algorithm, psi: Transformation, max_score: float, m: int) -> float:
    r"""The log of Z_A, the normalizer that scales the loss to [0, 1].

    .. math:: Z_{ListMLE} = Z_{ListNet} = m \big(\log m + \log \frac{\psi(BM)}{\psi(-BM)}\big),
      \quad Z_{RankCosine} = 1

    Args:
      algorithm: One of `ALGORITHMS`.
      psi: The transformation.
      max_score: BM.
      m: Number of documents in a list.

    Returns:
      log Z. Z is an upper bound of the losses in `snm.losses.listwise`; RankCosine never exceeds
      1/2.

    References:
      Lan et al. (2009), section 3.2.2.
    """
    _check(psi, max_score, m, algorithm)
    if algorithm == "rankcosine":
        return 0.0
    return math.log(m) + math.log(math.log(m) + _log_ratio(psi, max_score))


def log_factor(algorithm: Algorithm, psi: Transformation, max_score: float, m: int) -> float:
    r"""The log of C_A(psi). The factor m! of ListNet overflows float64 beyond m = 170.

    .. math::
      C_{ListMLE} = \frac 2 {\psi(-BM) (\log m + \log(\psi(BM) / \psi(-BM)))}, \quad
      C_{ListNet} = m! \, C_{ListMLE}, \quad C_{RankCosine} = \frac{\sqrt m}{2 \psi(-BM)}

    Args:
      algorithm: One of `ALGORITHMS`.
      psi: The transformation.
      max_score: BM.
      m: Number of documents in a list.

    Returns:
      log C_A.

    References:
      Lan et al. (2009), Theorem 2.
    """
    _check(psi, max_score, m, algorithm)
    log_min = psi.log_of_float(-max_score)
    if algorithm == "rankcosine":
        return math.log(m) / 2 - math.log(2) - log_min
    mle = math.log(2) - log_min - math.log(math.log(m) + _log_ratio(psi, max_score))
    return mle + (math.lgamma(m + 1) if algorithm == "listnet" else 0.0)


def factor(
    algorithm: Algorithm, psi: Transformation, max_score: float, m: int, kind: Slope = "exact"
) -> float:
    """C_A(psi) N(psi), the factor of the complexity of the linear class.

    Args:
      algorithm: One of `ALGORITHMS`.
      psi: The transformation.
      max_score: BM.
      m: Number of documents in a list.
      kind: See `slope`.

    Returns:
      The product; infinite if it overflows float64.

    Example:
      >>> from snm.losses.transformations import exponential
      >>> round(factor("rankcosine", exponential(1.0), 1.0, 4), 4)  # e^2
      7.3891
    """
    return exp_or_inf(log_product(algorithm, psi, max_score, m, kind))


def rademacher_linear(max_score: float, n: int) -> float:
    """Bounds the Rademacher average of {x -> w . x: ||w|| <= B}, ||x|| <= M, by BM / sqrt(n).

    Args:
      max_score: BM.
      n: Number of queries.

    References:
      Lan et al. (2009), Definition 1 and the end of section 3.2.2.
    """
    return max_score / math.sqrt(n)


def listwise_bound(
    algorithm: Algorithm,
    psi: Transformation,
    max_score: float,
    m: int,
    n: int,
    delta: float = 0.05,
) -> tuple[float, float]:
    """Combines Theorems 1 and 2, for the normalized loss in [0, 1].

    Args:
      algorithm: One of `ALGORITHMS`.
      psi: The transformation.
      max_score: BM.
      m: Number of documents in a list.
      n: Number of queries.
      delta: The bound holds with probability 1 - delta.

    Returns:
      2 C N R(F), and sqrt(2 ln(2/delta) / n).

    References:
      Lan et al. (2009), Theorem 1, Theorem 2, section 3.3.
    """
    if n < 1 or not 0 < delta < 1:
        raise InputError("listwise bound", f"n {n}, delta {delta}", "n >= 1, 0 < delta < 1")
    complexity = 2 * factor(algorithm, psi, max_score, m) * rademacher_linear(max_score, n)
    return complexity, math.sqrt(2 * math.log(2 / delta) / n)


# Name of psi -> log N of Table 1 at a = 1, a function of BM, where it is not the exact largest
# slope.
_PRINTED_LOG_SLOPES = {"sigmoid": lambda u: u - 2 * math.log1p(math.exp(-u))}


def log_product(
    algorithm: Algorithm, psi: Transformation, max_score: float, m: int, kind: Slope
) -> float:
    """The log of `factor`, which does not overflow."""
    return log_factor(algorithm, psi, max_score, m) + _log_slope(psi, max_score, kind)


def _log_slope(psi: Transformation, max_score: float, kind: Slope) -> float:
    """The log of N(psi)."""
    log_slope = psi.family.log_max_slope
    if kind == "printed":
        log_slope = _PRINTED_LOG_SLOPES.get(psi.name, log_slope)
    return math.log(psi.a) + log_slope(psi.a * max_score)


def _log_ratio(psi: Transformation, max_score: float) -> float:
    return psi.log_of_float(max_score) - psi.log_of_float(-max_score)


def _check(psi: Transformation, max_score: float, m: int = 1, algorithm: str = "listmle") -> None:
    if algorithm not in ALGORITHMS:
        raise InputError("algorithm", repr(algorithm), f"one of {', '.join(ALGORITHMS)}")
    if not max_score > 0 or m < 1:
        raise InputError("listwise factor", f"BM {max_score}, m {m}", "BM above 0, m of at least 1")
    if not psi.positive_within(max_score):
        where = f"b of the {psi.name} transformation"
        raise InputError(where, str(psi.b), f"above {psi.a * max_score}")

r"""Generalization bounds of listwise ranking algorithms, with Tables 1-3 of Lan et al. (2009).

Scores are linear, |f(x)| = |w . x| <= BM, and pass through a transformation psi. With probability
1 - delta the bound of an algorithm A is (Theorems 1 and 2)

  sup_f R(f) - R^(f) <= 2 C_A(psi) N(psi) R(F) + sqrt(2 ln(2/delta) / n).

Four statements of the paper are inexact. A test checks each of these corrections:

- **N of the sigmoid.** N(psi) is the largest slope on [-BM, BM], which is a / 4 (at 0). Table 1 has
  a e^{aBM} / (1 + e^{-aBM})^2, the largest numerator over the smallest denominator. This upper
  bound is larger by the factor 4 e^{aBM} / (1 + e^{-aBM})^2. Tables 2 and 3 depend on it. With
  a / 4 the sigmoid always has a smaller factor than the exponential, for all three algorithms, so
  the rows of Table 3 that put the exponential before the sigmoid never apply. For RankCosine the
  linear transformation has a smaller factor than the sigmoid if b - aBM > 4 / (1 + e^{aBM}), which
  is stricter than the condition of Table 2.
- **The relation in section 3.3.2.** By Table 1, C N of the exponential is 1 + e^{-aBM} times that
  of the sigmoid for RankCosine. The text prints 1 + e^{aBM}. The conclusion does not change.
- **The example of section 3.3.2**, with a = 1, M = 1, B = 10, b = 11 and "as long as m >= 1". By
  Table 3 the sigmoid has a smaller factor than the exponential only if
  log m > aBM (e^{aBM} - 1) = 220,254. With a / 4 the order of the example (linear, sigmoid,
  exponential) holds at every m.
- **R(F)** <= 2BM / sqrt(n) belongs to another normalisation. With Definition 1 (1/n, one supremum
  without absolute value) R(F) is at most BM / sqrt(n).

The claim for m >= 6 is correct: ListMLE's factor is below RankCosine's for every psi, and for m < 6
it is under the printed conditions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from snm.errors import InputError
from snm.losses.transformations import Transformation, exponential, linear, sigmoid
from snm.theory.constants import exp_or_inf

__all__ = [
    "ALGORITHMS",
    "Claim",
    "factor",
    "listmle_beats_rankcosine",
    "listwise_bound",
    "log_factor",
    "log_normaliser",
    "rademacher_linear",
    "slope",
    "table_1",
    "table_2",
    "table_3",
]

Algorithm = Literal["listmle", "listnet", "rankcosine"]
Slope = Literal["exact", "printed"]
ALGORITHMS: tuple[Algorithm, ...] = ("listmle", "listnet", "rankcosine")
Forms = dict[str, Transformation]


def slope(psi: Transformation, max_score: float, kind: Slope = "exact") -> float:
    """N(psi), the largest slope on [-BM, BM].

    Args:
      psi: linear, exponential or sigmoid.
      max_score: BM, above 0.
      kind: "printed" uses the bound of Table 1 for the sigmoid; the others have exact slopes there.

    Returns:
      a, a e^{aBM} or a / 4 (printed: a e^{aBM} / (1 + e^{-aBM})^2); infinite on overflow.

    Example:
      >>> round(slope(sigmoid(2.0), 1.0), 12)
      0.5

    References:
      Lan et al. (2009), Theorem 2, Table 1.
    """
    _check(psi, max_score)
    return exp_or_inf(_log_slope(psi, max_score, kind))


def log_normaliser(algorithm: Algorithm, psi: Transformation, max_score: float, m: int) -> float:
    r"""The log of Z_A, the normaliser that scales the loss to [0, 1].

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
      >>> round(factor("rankcosine", exponential(1.0), 1.0, 4), 4)  # e^2
      7.3891
    """
    return exp_or_inf(_log_product(algorithm, psi, max_score, m, kind))


def rademacher_linear(max_score: float, n: int, *, printed: bool = False) -> float:
    """Bounds the Rademacher average of {x -> w . x: ||w|| <= B}, ||x|| <= M, by BM / sqrt(n).

    Args:
      max_score: BM.
      n: Number of queries.
      printed: Whether to return twice that, as the paper prints.

    References:
      Lan et al. (2009), Definition 1 and the end of section 3.2.2.
    """
    return (2 if printed else 1) * max_score / math.sqrt(n)


def listwise_bound(
    algorithm: Algorithm,
    psi: Transformation,
    max_score: float,
    m: int,
    n: int,
    delta: float = 0.05,
    *,
    printed: bool = False,
) -> tuple[float, float]:
    """Combines Theorems 1 and 2, for the normalised loss in [0, 1].

    Args:
      algorithm: One of `ALGORITHMS`.
      psi: The transformation.
      max_score: BM.
      m: Number of documents in a list.
      n: Number of queries.
      delta: The bound holds with probability 1 - delta.
      printed: Whether to use the paper's N of the sigmoid and 2BM / sqrt(n).

    Returns:
      2 C N R(F), and sqrt(2 ln(2/delta) / n).

    References:
      Lan et al. (2009), Theorem 1, Theorem 2, section 3.3.
    """
    if n < 1 or not 0 < delta < 1:
        raise InputError("listwise bound", f"n {n}, delta {delta}", "n >= 1, 0 < delta < 1")
    product = factor(algorithm, psi, max_score, m, "printed" if printed else "exact")
    complexity = 2 * product * rademacher_linear(max_score, n, printed=printed)
    return complexity, math.sqrt(2 * math.log(2 / delta) / n)


def listmle_beats_rankcosine(psi: Transformation, max_score: float, m: int) -> tuple[bool, bool]:
    r"""Whether ListMLE has a smaller factor than RankCosine, as computed and as claimed.

    The conditions of the paper: always for m >= 6. For m < 6, with the linear psi if
    b / aBM < (e^{4/sqrt m} + m) / (e^{4/sqrt m} - m), with the exponential if
    aBM > (4/sqrt m - log m) / 2, with the sigmoid if aBM > 4/sqrt m - log m.

    Args:
      psi: The transformation.
      max_score: BM.
      m: Number of documents in a list, at least 3 in the paper.

    Returns:
      The computed and the claimed truth value.

    Raises:
      InputError: m is below 6 and the paper has no condition for psi.

    References:
      Lan et al. (2009), section 3.3.1.
    """
    computed = log_factor("listmle", psi, max_score, m) < log_factor(
        "rankcosine", psi, max_score, m
    )
    if m < 6 and psi.name not in _SHORT_LIST_CONDITIONS:
        raise InputError("transformation", psi.name, f"one of {', '.join(_SHORT_LIST_CONDITIONS)}")
    bound = 4 / math.sqrt(m) - math.log(m)
    return computed, m >= 6 or _SHORT_LIST_CONDITIONS[psi.name](psi.a * max_score, psi.b, bound)


def table_1(a: float, b: float, max_score: float, m: int) -> dict[str, dict[str, float]]:
    """Evaluates Table 1: N, printed N, and C_A for each transformation.

    Args:
      a: Slope of the transformations.
      b: Offset of the linear transformation, above aBM.
      max_score: BM.
      m: Number of documents in a list.

    Returns:
      For each transformation: "N", "N printed", "C ..." of each algorithm; infinite on overflow.

    References:
      Lan et al. (2009), Table 1.
    """
    return {
        name: {
            "N": slope(psi, max_score),
            "N printed": slope(psi, max_score, "printed"),
            **{f"C {name}": exp_or_inf(log_factor(name, psi, max_score, m)) for name in ALGORITHMS},
        }
        for name, psi in _forms(a, b).items()
    }


@dataclass(frozen=True)
class Claim:
    """One entry of Table 2 or 3 for given parameters.

    Attributes:
      text: The statement, such as "linear before sigmoid" (the first has the smaller factor).
      claimed: Whether the table's condition for it is met.
      printed: Whether it is true with the paper's N of the sigmoid.
      exact: Whether it is true with the exact largest slope.
    """

    text: str
    claimed: bool
    printed: bool
    exact: bool

    @property
    def agrees(self) -> bool:
        """Whether the claim is correct with exact slopes."""
        return self.claimed == self.exact


def table_2(a: float, b: float, max_score: float) -> list[Claim]:
    """Table 2: which transformation has the smaller factor for RankCosine, pair by pair.

    The number of documents cancels. With K = e^{-aBM} the order is linear, sigmoid, exponential if
    b - aBM > K^2 (1 + K); sigmoid, linear, exponential if it is between that and K^2; sigmoid,
    exponential, linear if it is below K^2.

    Args:
      a: Slope of the transformations.
      b: Offset of the linear transformation, above aBM.
      max_score: BM.

    Returns:
      linear before exponential, linear before sigmoid, sigmoid before exponential.

    References:
      Lan et al. (2009), Table 2.
    """
    u = a * max_score
    margin, k = b - u, math.exp(-u)
    claimed = (margin > k * k, margin > k * k * (1 + k), True)
    return _claims("rankcosine", _forms(a, b), max_score, 3, claimed)


def table_3(a: float, b: float, max_score: float, m: int) -> list[Claim]:
    """Table 3: which transformation has the smaller factor for ListMLE and ListNet, pair by pair.

    The table assumes b > K^2 (1 + K) + aBM. With K = e^{-aBM} and N = log((b + aBM) / (b - aBM)):

      linear before exponential   log m > (2 aBM K^2 - (b - aBM) N) / (b - aBM - K^2)
      linear before sigmoid       log m > (aBM K^2 (1 + K) - (b - aBM) N) / (b - aBM - K^2 (1 + K))
      sigmoid before exponential  log m > aBM (e^{aBM} - 1)

    Args:
      a: Slope of the transformations.
      b: Offset of the linear transformation.
      max_score: BM.
      m: Number of documents in a list.

    Returns:
      The three claims, computed for ListMLE (the factor m! of ListNet cancels).

    Raises:
      InputError: b at most K^2 (1 + K) + aBM.

    References:
      Lan et al. (2009), Table 3.
    """
    u = a * max_score
    margin, k = b - u, math.exp(-u)
    if not margin > k * k * (1 + k):
        raise InputError("b of Table 3", str(b), f"more than {k * k * (1 + k) + u:.6g}")
    n = math.log((b + u) / margin)
    log_m = math.log(m)
    claimed = (
        log_m > (2 * u * k * k - margin * n) / (margin - k * k),
        log_m > (u * k * k * (1 + k) - margin * n) / (margin - k * k * (1 + k)),
        log_m > u * (exp_or_inf(u) - 1),
    )
    return _claims("listmle", _forms(a, b), max_score, m, claimed)


# Name of psi -> the condition of section 3.3.1 for m < 6, a function of aBM, b and
# 4 / sqrt(m) - log(m). Note that tanh(x / 2) = (e^x - 1) / (e^x + 1).
_SHORT_LIST_CONDITIONS: dict[str, Callable[[float, float, float], bool]] = {
    "linear": lambda u, b, bound: b * math.tanh(bound / 2) < u,
    "exponential": lambda u, _, bound: 2 * u > bound,
    "sigmoid": lambda u, _, bound: u > bound,
}
# Name of psi -> log N of Table 1 at a = 1, a function of BM, where it is not the exact largest
# slope.
_PRINTED_LOG_SLOPES = {"sigmoid": lambda u: u - 2 * math.log1p(math.exp(-u))}
_SLOPES: tuple[Slope, ...] = ("printed", "exact")
_PAIRS = (("linear", "exponential"), ("linear", "sigmoid"), ("sigmoid", "exponential"))


def _claims(
    algorithm: Algorithm, forms: Forms, max_score: float, m: int, claimed: tuple[bool, bool, bool]
) -> list[Claim]:
    """Compares the factors of the pairs of transformations with the table's claims."""
    claims = []
    for (first, second), stated in zip(_PAIRS, claimed, strict=True):
        printed, exact = (
            _log_product(algorithm, forms[first], max_score, m, kind)
            < _log_product(algorithm, forms[second], max_score, m, kind)
            for kind in _SLOPES
        )
        claims.append(Claim(f"{first} before {second}", stated, printed, exact))
    return claims


def _log_product(
    algorithm: Algorithm, psi: Transformation, max_score: float, m: int, kind: Slope
) -> float:
    """The log of C_A(psi) N(psi)."""
    return log_factor(algorithm, psi, max_score, m) + _log_slope(psi, max_score, kind)


def _log_slope(psi: Transformation, max_score: float, kind: Slope) -> float:
    """The log of N(psi)."""
    log_slope = psi.family.log_max_slope
    if kind == "printed":
        log_slope = _PRINTED_LOG_SLOPES.get(psi.name, log_slope)
    return math.log(psi.a) + log_slope(psi.a * max_score)


def _forms(a: float, b: float) -> Forms:
    return {"linear": linear(a, b), "exponential": exponential(a), "sigmoid": sigmoid(a)}


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

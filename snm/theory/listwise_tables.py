r"""Tables 1-3 of Lan et al. (2009): which transformation, and which loss, has the smaller factor.

Three statements of the paper are inexact. A test checks each of these corrections:

- **Tables 2 and 3** use the N of the sigmoid of Table 1, which is not its largest slope a / 4 (see
  `snm.theory.listwise`). With a / 4 the sigmoid always has a smaller factor than the exponential,
  for all three algorithms, so the rows of Table 3 that put the exponential before the sigmoid never
  apply. For RankCosine the linear transformation has a smaller factor than the sigmoid if
  b - aBM > 4 / (1 + e^{aBM}), which is stricter than the condition of Table 2.
- **The relation in section 3.3.2.** By Table 1, C N of the exponential is 1 + e^{-aBM} times that
  of the sigmoid for RankCosine. The text prints 1 + e^{aBM}. The conclusion does not change.
- **The example of section 3.3.2**, with a = 1, M = 1, B = 10, b = 11 and "as long as m >= 1". By
  Table 3 the sigmoid has a smaller factor than the exponential only if
  log m > aBM (e^{aBM} - 1) = 220,254. With a / 4 the order of the example (linear, sigmoid,
  exponential) holds at every m.

The claim for m >= 6 is correct: ListMLE's factor is below RankCosine's for every psi, and for m < 6
it is under the printed conditions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from snm.errors import InputError
from snm.losses.transformations import Transformation, exponential, linear, sigmoid
from snm.system.numbers import exp_or_inf
from snm.theory.listwise import ALGORITHMS, Algorithm, Slope, log_factor, log_product, slope

__all__ = ["Claim", "listmle_beats_rankcosine", "table_1", "table_2", "table_3"]

# Name of psi -> the condition of section 3.3.1 for m < 6, a function of aBM, b and
# 4 / sqrt(m) - log(m). Note that tanh(x / 2) = (e^x - 1) / (e^x + 1).
_SHORT_LIST_CONDITIONS: dict[str, Callable[[float, float, float], bool]] = {
    "linear": lambda u, b, bound: b * math.tanh(bound / 2) < u,
    "exponential": lambda u, _, bound: 2 * u > bound,
    "sigmoid": lambda u, _, bound: u > bound,
}
_SLOPES: tuple[Slope, ...] = ("printed", "exact")
_PAIRS = (("linear", "exponential"), ("linear", "sigmoid"), ("sigmoid", "exponential"))


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


def _claims(
    algorithm: Algorithm,
    forms: dict[str, Transformation],
    max_score: float,
    m: int,
    claimed: tuple[bool, bool, bool],
) -> list[Claim]:
    """Compares the factors of the pairs of transformations with the table's claims."""
    claims = []
    for (first, second), stated in zip(_PAIRS, claimed, strict=True):
        printed, exact = (
            log_product(algorithm, forms[first], max_score, m, kind)
            < log_product(algorithm, forms[second], max_score, m, kind)
            for kind in _SLOPES
        )
        claims.append(Claim(f"{first} before {second}", stated, printed, exact))
    return claims


def _forms(a: float, b: float) -> dict[str, Transformation]:
    return {"linear": linear(a, b), "exponential": exponential(a), "sigmoid": sigmoid(a)}

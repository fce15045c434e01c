r"""Generalization of listwise algorithms: factors, bounds and Tables 1-3 of Lan et al. (2009).

Scores are linear, |f(x)| = |w . x| <= BM, and pass a transformation psi. The bound of an
algorithm A is, with probability 1 - delta (Theorems 1 and 2),

  sup_f R(f) - R^(f) <= 2 C_A(psi) N(psi) R(F) + sqrt(2 ln(2/delta) / n).

Where the paper and arithmetic part ways (each has a test):

* **N of the sigmoid.** N(psi) is the largest slope on [-BM, BM], so a / 4 (at 0). Table 1 has
  a e^{aBM} / (1 + e^{-aBM})^2, the largest numerator over the smallest denominator: an upper bound,
  larger by the factor 4 e^{aBM} / (1 + e^{-aBM})^2. Tables 2 and 3 follow from that one: with a / 4
  the sigmoid beats the exponential always, for all three algorithms, so that the rows of Table 3
  that put the exponential before the sigmoid are empty; and for RankCosine the linear one beats the
  sigmoid where b - aBM > 4 / (1 + e^{aBM}), a stronger demand than Table 2's.
* **The relation in section 3.3.2.** From Table 1, C N of the exponential is 1 + e^{-aBM} times that
  of the sigmoid for RankCosine; the text prints 1 + e^{aBM}. The conclusion stands.
* **The example of section 3.3.2**, a = 1, M = 1, B = 10, b = 11 and "as long as m >= 1": by Table 3
  itself the sigmoid beats the exponential only where log m > aBM (e^{aBM} - 1), here 220,254. With
  a / 4 the example's order (linear, sigmoid, exponential) holds at every m.
* **R(F)** <= 2BM / sqrt(n) is that of another normalisation: with Definition 1 (1/n, one supremum
  without absolute value) it is at most BM / sqrt(n).

The claim for m >= 6 is right: ListMLE's factor is below RankCosine's there for every psi, and for
m < 6 under the conditions printed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from snm.errors import InputError
from snm.losses.listwise import Transformation, exponential, linear, sigmoid

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


def slope(psi: Transformation, reach: float, kind: Slope = "exact") -> float:
    """N(psi), the largest slope on [-BM, BM].

    Args:
      psi: linear, exponential or sigmoid.
      reach: BM, above 0.
      kind: "printed" takes Table 1's bound for the sigmoid; the others are the same.

    Returns:
      a, a e^{aBM} or a / 4 (printed: a e^{aBM} / (1 + e^{-aBM})^2).

    Example:
      >>> slope(sigmoid(2.0), 1.0)
      0.5

    References:
      Lan et al. (2009), Theorem 2, Table 1.
    """
    _check(psi, reach)
    if psi.name == "linear":
        return psi.a
    top = psi.a * math.exp(psi.a * reach)
    if psi.name == "exponential":
        return top
    return psi.a / 4 if kind == "exact" else top / (1 + math.exp(-psi.a * reach)) ** 2


def log_normaliser(algorithm: Algorithm, psi: Transformation, reach: float, m: int) -> float:
    r"""The log of Z_A, by which the loss is divided so that it lies in [0, 1].

    .. math:: Z_{ListMLE} = Z_{ListNet} = m \big(\log m + \log \frac{\psi(BM)}{\psi(-BM)}\big),
      \quad Z_{RankCosine} = 1

    Args:
      algorithm: One of `ALGORITHMS`.
      psi: The transformation.
      reach: BM.
      m: Documents a list.

    Returns:
      log Z; its exponential bounds the losses of `snm.losses.listwise` (RankCosine's bound is 1/2).

    References:
      Lan et al. (2009), section 3.2.2.
    """
    _check(psi, reach, m)
    if algorithm == "rankcosine":
        return 0.0
    return math.log(m) + math.log(math.log(m) + _log_ratio(psi, reach))


def log_factor(algorithm: Algorithm, psi: Transformation, reach: float, m: int) -> float:
    r"""The log of C_A(psi); m! of ListNet leaves the range of numbers beyond m = 170.

    .. math::
      C_{ListMLE} = \frac 2 {\psi(-BM) (\log m + \log(\psi(BM) / \psi(-BM)))}, \quad
      C_{ListNet} = m! \, C_{ListMLE}, \quad C_{RankCosine} = \frac{\sqrt m}{2 \psi(-BM)}

    Args:
      algorithm: One of `ALGORITHMS`.
      psi: The transformation.
      reach: BM.
      m: Documents a list.

    Returns:
      log C_A.

    References:
      Lan et al. (2009), Theorem 2.
    """
    _check(psi, reach, m)
    least = _log_value(psi, -reach)
    if algorithm == "rankcosine":
        return math.log(m) / 2 - math.log(2) - least
    if algorithm not in ALGORITHMS:
        raise InputError("algorithm", repr(algorithm), f"one of {', '.join(ALGORITHMS)}")
    mle = math.log(2) - least - math.log(math.log(m) + _log_ratio(psi, reach))
    return mle + (math.lgamma(m + 1) if algorithm == "listnet" else 0.0)


def factor(
    algorithm: Algorithm, psi: Transformation, reach: float, m: int, kind: Slope = "exact"
) -> float:
    """C_A(psi) N(psi), what the complexity of the linear class is multiplied with.

    Args:
      algorithm: One of `ALGORITHMS`.
      psi: The transformation.
      reach: BM.
      m: Documents a list.
      kind: Of `slope`.

    Returns:
      The product; infinite where it leaves the range of numbers.

    Example:
      >>> round(factor("rankcosine", exponential(1.0), 1.0, 4), 4)  # e^2
      7.3891
    """
    log = log_factor(algorithm, psi, reach, m) + math.log(slope(psi, reach, kind))
    return math.exp(log) if log < 709 else math.inf


def rademacher_linear(reach: float, n: int, *, printed: bool = False) -> float:
    """Rademacher average of {x -> w . x: ||w|| <= B}, ||x|| <= M: at most BM / sqrt(n).

    Args:
      reach: BM.
      n: Queries.
      printed: Twice that, as the paper has it.

    References:
      Lan et al. (2009), Definition 1 and the end of section 3.2.2.
    """
    return (2 if printed else 1) * reach / math.sqrt(n)


def listwise_bound(
    algorithm: Algorithm,
    psi: Transformation,
    reach: float,
    m: int,
    n: int,
    delta: float = 0.05,
    *,
    printed: bool = False,
) -> tuple[float, float]:
    """Theorems 1 and 2 together, for the normalised loss in [0, 1].

    Args:
      algorithm: One of `ALGORITHMS`.
      psi: The transformation.
      reach: BM.
      m: Documents a list.
      n: Queries.
      delta: It holds with probability 1 - delta.
      printed: The paper's N of the sigmoid and 2BM / sqrt(n).

    Returns:
      2 C N R(F), and sqrt(2 ln(2/delta) / n).

    References:
      Lan et al. (2009), Theorem 1, Theorem 2, section 3.3.
    """
    if n < 1 or not 0 < delta < 1:
        raise InputError("listwise bound", f"n {n}, delta {delta}", "n >= 1, 0 < delta < 1")
    product = factor(algorithm, psi, reach, m, "printed" if printed else "exact")
    complexity = 2 * product * rademacher_linear(reach, n, printed=printed)
    return complexity, math.sqrt(2 * math.log(2 / delta) / n)


def listmle_beats_rankcosine(psi: Transformation, reach: float, m: int) -> tuple[bool, bool]:
    r"""Whether ListMLE has the smaller factor: as computed, and by the paper's conditions.

    The paper: always for m >= 6; below, for the linear psi if
    b / aBM < (e^{4/sqrt m} + m) / (e^{4/sqrt m} - m), for the exponential if
    aBM > (4/sqrt m - log m) / 2, for the sigmoid if aBM > 4/sqrt m - log m.

    Args:
      psi: The transformation.
      reach: BM.
      m: Documents a list, at least 3 in the paper.

    Returns:
      Computed, claimed.

    References:
      Lan et al. (2009), section 3.3.1.
    """
    computed = log_factor("listmle", psi, reach, m) < log_factor("rankcosine", psi, reach, m)
    need = 4 / math.sqrt(m) - math.log(m)
    if m >= 6:
        return computed, True
    if psi.name == "linear":
        high = math.exp(4 / math.sqrt(m))
        return computed, high <= m or psi.b / (psi.a * reach) < (high + m) / (high - m)
    return computed, psi.a * reach * (2 if psi.name == "exponential" else 1) > need


def table_1(a: float, b: float, reach: float, m: int) -> dict[str, dict[str, float]]:
    """Table 1 in numbers: N, printed N, and C_A for each transformation.

    Args:
      a: Slope.
      b: Offset of the linear one, above aBM.
      reach: BM.
      m: Documents a list, at most 170.

    Returns:
      For linear, exponential and sigmoid: N, N printed, and each algorithm's C.

    References:
      Lan et al. (2009), Table 1.
    """
    return {
        name: {
            "N": slope(psi, reach),
            "N printed": slope(psi, reach, "printed"),
            **{f"C {each}": math.exp(log_factor(each, psi, reach, m)) for each in ALGORITHMS},
        }
        for name, psi in _forms(a, b).items()
    }


@dataclass(frozen=True)
class Claim:
    """One entry of Table 2 or 3 at given numbers.

    Attributes:
      text: What is said, such as "linear before sigmoid".
      claimed: Whether the table says so here.
      printed: Whether it is so with the table's N of the sigmoid.
      exact: Whether it is so with the largest slope.
    """

    text: str
    claimed: bool
    printed: bool
    exact: bool

    @property
    def agrees(self) -> bool:
        """Whether the claim is what exact slopes give."""
        return self.claimed == self.exact


def table_2(a: float, b: float, reach: float) -> list[Claim]:
    """Table 2: which transformation is tighter for RankCosine, pair by pair (m cancels).

    With K = e^{-aBM}: linear, sigmoid, exponential if b - aBM > K^2 (1 + K); sigmoid, linear,
    exponential between that and K^2; sigmoid, exponential, linear below.

    Args:
      a: Slope.
      b: Offset of the linear one, above aBM.
      reach: BM.

    Returns:
      linear before exponential, linear before sigmoid, sigmoid before exponential.

    References:
      Lan et al. (2009), Table 2.
    """
    u = a * reach
    room, k = b - u, math.exp(-u)
    claimed = (room > k * k, room > k * k * (1 + k), True)
    return _claims("rankcosine", _forms(a, b), reach, 3, claimed)


def table_3(a: float, b: float, reach: float, m: int) -> list[Claim]:
    """Table 3: which transformation is tighter for ListMLE and for ListNet, pair by pair.

    It is stated for b > K^2 (1 + K) + aBM, with K = e^{-aBM} and N = log((b + aBM) / (b - aBM)):

      linear before exponential   log m > (2 aBM K^2 - (b - aBM) N) / (b - aBM - K^2)
      linear before sigmoid       log m > (aBM K^2 (1 + K) - (b - aBM) N) / (b - aBM - K^2 (1 + K))
      sigmoid before exponential  log m > aBM (e^{aBM} - 1)

    Args:
      a: Slope.
      b: Offset of the linear one.
      reach: BM.
      m: Documents a list.

    Returns:
      The three claims, computed for ListMLE (ListNet's factor m! cancels).

    Raises:
      InputError: b at most K^2 (1 + K) + aBM.

    References:
      Lan et al. (2009), Table 3.
    """
    u = a * reach
    room, k = b - u, math.exp(-u)
    if not room > k * k * (1 + k):
        raise InputError("b of Table 3", str(b), f"more than {k * k * (1 + k) + u:.6g}")
    n = math.log((b + u) / room)
    log_m = math.log(m)
    claimed = (
        log_m > (2 * u * k * k - room * n) / (room - k * k),
        log_m > (u * k * k * (1 + k) - room * n) / (room - k * k * (1 + k)),
        log_m > u * (math.exp(u) - 1),
    )
    return _claims("listmle", _forms(a, b), reach, m, claimed)


_PAIRS = (("linear", "exponential"), ("linear", "sigmoid"), ("sigmoid", "exponential"))


def _claims(
    algorithm: Algorithm, forms: Forms, reach: float, m: int, claimed: tuple[bool, bool, bool]
) -> list[Claim]:
    out = []
    for (first, second), said in zip(_PAIRS, claimed, strict=True):
        printed, exact = (
            _log(algorithm, forms[first], reach, m, kind)
            < _log(algorithm, forms[second], reach, m, kind)
            for kind in ("printed", "exact")
        )
        out.append(Claim(f"{first} before {second}", said, printed, exact))
    return out


def _log(algorithm: Algorithm, psi: Transformation, reach: float, m: int, kind: str) -> float:
    found = slope(psi, reach, "exact" if kind == "exact" else "printed")
    return log_factor(algorithm, psi, reach, m) + math.log(found)


def _forms(a: float, b: float) -> Forms:
    return {"linear": linear(a, b), "exponential": exponential(a), "sigmoid": sigmoid(a)}


def _log_value(psi: Transformation, x: float) -> float:
    if psi.name == "linear":
        return math.log(psi.a * x + psi.b)
    if psi.name == "exponential":
        return psi.a * x
    u = psi.a * x
    return -math.log1p(math.exp(-u)) if u > -30 else u - math.log1p(math.exp(u))


def _log_ratio(psi: Transformation, reach: float) -> float:
    return _log_value(psi, reach) - _log_value(psi, -reach)


def _check(psi: Transformation, reach: float, m: int = 1) -> None:
    if not reach > 0 or m < 1:
        raise InputError("listwise factor", f"BM {reach}, m {m}", "BM above 0, m of at least 1")
    if psi.name == "linear" and not psi.b > psi.a * reach:
        raise InputError("b of the linear transformation", str(psi.b), f"above {psi.a * reach}")

r"""Evaluates Theorems 5 and 6 of Reddi et al. (2019), term by term.

The theorems hide constants and logarithms in O~. Known about these:

- **The Gaussian branch** holds with the factor 2 sqrt(pi) and without a logarithm. With probability
  1 - delta the generalization error is at most 2 R_S(l o H) + 3 Phi' sqrt(ln(2/delta) / (2n)), by
  symmetrization, with Phi' the range of the loss. Further, R_S <= sqrt(pi/2) G_S. The squared
  increments of the process sum_i g_i l(h(x_i), y_i) are at most
  2 l2^2 sum_i ||h(x_i) - h'(x_i)||^2 + 2 own^2 sum_i |h_{y_i}(x_i) - h'_{y_i}(x_i)|^2, which are
  those of sqrt(2) (l2 sum_{i,y} g_{iy} h_y(x_i) + own sum_i g_i h_{y_i}(x_i)) with independent g.
  The Sudakov-Fernique inequality then compares the suprema. The product of the factors is
  2 sqrt(pi/2) sqrt(2).
- **The Rademacher branch** uses the L-infinity contraction of Lei et al. (2015), whose factor is
  polylogarithmic in n and K with a constant that the paper does not give. It is reported with the
  factor 1, and is not part of the proved bound.

So each bound has two values. `unit_factors` has 1 for every hidden factor: it shows how the terms
compare, but proves nothing. `proved` is the Gaussian branch with 2 sqrt(pi).

Two constants differ from the printed ones:

- The range of a BOWL is (||theta||_1 + 1) Phi. Theorem 5 prints ||theta||_1 Phi, which leaves out
  the term of the positive; see `lemma_7`.
- The Rademacher term of Theorem 6 is (2 / rho) sqrt(K) R, that of Theorem 5 for L = 1 / rho and
  ||theta||_1 = 1. Theorem 6 prints 1 / rho; O~ hides the factor 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy.typing as npt

from snm.errors import InputError
from snm.theory.constants import LossConstants
from snm.theory.retrieval import margin_risk

__all__ = [
    "GAUSSIAN_FACTOR",
    "Bound",
    "Complexity",
    "MarginBound",
    "examples_needed",
    "theorem_5",
    "theorem_6",
]

GAUSSIAN_FACTOR = 2 * math.sqrt(math.pi)


@dataclass(frozen=True)
class Complexity:
    """Complexities of a hypothesis class on a sample S of n examples.

    Attributes:
      gaussian: The Gaussian complexity G_S(H).
      gaussian_completion: The Gaussian complexity on the completion of S: all pairs (x, y) with x
        in S and y any of the K labels.
      rademacher_completion: The worst-case Rademacher complexity over multi-subsets of the
        completion.
    """

    gaussian: float
    gaussian_completion: float
    rademacher_completion: float


@dataclass(frozen=True)
class Bound:
    """A bound on the generalization error: the supremum over h of E[l] minus the mean of l on S.

    Attributes:
      gaussian: l2 K G(completion) + own G_S, without a factor.
      rademacher: linf sqrt(K) R(completion), without a factor.
      confidence: 3 Phi' sqrt(ln(2/delta) / (2n)), with Phi' the range of the loss.
    """

    gaussian: float
    rademacher: float
    confidence: float

    @property
    def unit_factors(self) -> float:
        """The smaller branch, with hidden factors of 1, plus `confidence`; not a proved bound."""
        return min(self.gaussian, self.rademacher) + self.confidence

    @property
    def proved(self) -> float:
        """The Gaussian branch with its factor 2 sqrt(pi): a bound without hidden factors."""
        return GAUSSIAN_FACTOR * self.gaussian + self.confidence


def theorem_5(
    constants: LossConstants, complexity: Complexity, n: int, num_labels: int, delta: float = 0.05
) -> Bound:
    r"""Bounds the generalization error of an ordered weighted loss.

    .. math::
      \tilde O\big(\min\{L_1 K G_{\bar S}(H) + L_2 G_S(H), L_3 \sqrt K R_{\bar S}(H)\}\big)
      + 3 \Phi' \sqrt{\ln(2/\delta) / (2 n)}

    with (L_1, L_2, L_3, Phi') of `lemma_7`: for a POWL (L ||theta||_2, L ||theta||_1,
    2 L ||theta||_1, ||theta||_1 Phi), for a BOWL (L ||theta||_2, L, L (||theta||_1 + 1),
    (||theta||_1 + 1) Phi). The last differs from the printed ||theta||_1 Phi: see `lemma_7`.

    Args:
      constants: The constants of the loss, from `lemma_7`.
      complexity: Complexities of the class on the sample.
      n: Number of examples.
      num_labels: K.
      delta: The bound holds with probability 1 - delta over the sample.

    Returns:
      The terms of the bound.

    References:
      Reddi et al. (2019), Theorem 5 and its proof in Appendix F.
    """
    _check(n, delta)
    return Bound(
        gaussian=constants.l2 * num_labels * complexity.gaussian_completion
        + constants.own * complexity.gaussian,
        rademacher=constants.linf * math.sqrt(num_labels) * complexity.rademacher_completion,
        confidence=3 * constants.largest * math.sqrt(math.log(2 / delta) / (2 * n)),
    )


@dataclass(frozen=True)
class MarginBound:
    """Theorem 6 at one margin.

    Attributes:
      rho: The margin.
      empirical: The empirical margin risk: the fraction of the sample with a margin of at most rho.
      bound: The other terms of the right side.
    """

    rho: float
    empirical: float
    bound: Bound

    @property
    def unit_factors(self) -> float:
        """The right side with hidden factors of 1; not a proved bound."""
        return self.empirical + self.bound.unit_factors

    @property
    def proved(self) -> float:
        """The right side without hidden factors; vacuous above 1."""
        return self.empirical + self.bound.proved


def theorem_6(
    margins: npt.ArrayLike,
    rho: float,
    complexity: Complexity,
    n: int,
    num_labels: int,
    delta: float = 0.05,
    weights: npt.ArrayLike | None = None,
) -> MarginBound:
    r"""Bounds the retrieval risk by the empirical margin risk.

    .. math::
      R(h) \le \hat R_{S,\rho}(h) + 3 \sqrt{\ln(2/\delta) / (2n)}
      + \tilde O\big(\tfrac 1 \rho \min\{K G_{\bar S}(H) + G_S(H), 2 \sqrt K R_{\bar S}(H)\}\big)

    This is Theorem 5 for the POWL with the ramp of margin rho and theta_k = 1 as the only weight.
    Its norms are 1 and its L-infinity constant is 2 / rho (the theorem prints 1 / rho, a factor
    that O~ hides). The ramp is an upper bound of the retrieval loss, so k enters only through the
    margins. The bound holds for a rho that is fixed before the sample is seen. For r margins at
    once, use delta / r instead of delta.

    Args:
      margins: [m], rho_h(x, y) of the examples, from `retrieval.margins`.
      rho: The margin, above 0.
      complexity: Complexities of the class on the sample.
      n: Number of independent examples. There may be more margins than examples (one for each label
        of a point); their weighted mean then replaces the mean over the points.
      num_labels: K.
      delta: The bound holds with probability 1 - delta.
      weights: [m], weights of the margins.

    Returns:
      The terms of the right side.

    References:
      Reddi et al. (2019), Theorem 6 and its proof in Appendix F.
    """
    if not rho > 0:
        raise InputError("rho", str(rho), "a margin above 0")
    ramp = LossConstants(l2=1 / rho, own=1 / rho, linf=2 / rho, largest=1.0)
    bound = theorem_5(ramp, complexity, n, num_labels, delta)
    return MarginBound(rho, float(margin_risk(margins, rho, weights)), bound)


def examples_needed(empirical: float, rest: float, n: int, target: float = 1.0) -> float:
    """The number of examples at which a bound reaches `target`, all else being equal.

    For the classes in `complexity`, every term but the empirical one decreases like 1 / sqrt(n).

    Args:
      empirical: The term that does not depend on n.
      rest: The sum of the other terms at n examples.
      n: Current number of examples.
      target: Value to reach; a bound on a risk is vacuous above 1.

    Returns:
      The number of examples, not rounded; infinite if `empirical` is not below `target`.

    Example:
      >>> examples_needed(0.5, 2.0, 100)
      1600.0
    """
    remaining = target - empirical
    return n * (rest / remaining) ** 2 if remaining > 0 else math.inf


def _check(n: int, delta: float) -> None:
    if n < 1:
        raise InputError("examples", str(n), "at least 1")
    if not 0 < delta < 1:
        raise InputError("delta", str(delta), "a probability between 0 and 1")

"""Checks when an ordered weighted loss is calibrated, and gives weights theta that make it so.

Theorem 4 requires condition (3) for every m > k, with D sorted in decreasing order:

    D_[k] > sum_{l=k+1}^m D_[l] / (k sum_{j=k+1}^m theta_j).                                     (3)

Two boundary cases need the proof.

**m = K.** The printed sum includes theta_K, but theta has only K - 1 entries. With theta_K = 0 the
paper's remark that theta_j = 1/k always satisfies (3) would be false: for K = 6, k = 2 and
D = (0.175, 0.170, 0.165, 0.165, 0.1625, 0.1625) the right side is 0.655 / 3 = 0.218. The proof
(Appendix E, Lemmas 5 and 6) moves v_k up by delta, and the q scores that tie with it down by
beta delta. It needs beta >= 1 / (k sum_{j=k+1}^{k+q} theta_j) for the labels *below* the tie (term
T4). For q = K - k there are no such labels, so only term T3 remains, which needs
beta >= 1 / (k sum_{j=k}^{k+q-1} theta_j). Hence the condition at m = K is

    D_[k] > sum_{l=k+1}^K D_[l] / (k sum_{j=k}^{K-1} theta_j),

and theta_j = 1/k always satisfies it: the right side is the mean of D_[k+1], ..., D_[K].

**D_[k+1] = 0.** Every term of the proof with a label outside the first k then has the factor 0, so
the only requirement is D_[k] > 0. Weights theta_j = 1/k for j <= k and 0 beyond suffice, although
(3) reads 0 / 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from snm.errors import InputError
from snm.losses.theta import Vector, check_weights
from snm.theory.retrieval import check_k, check_one_distribution

__all__ = [
    "Condition3",
    "condition_3",
    "pad_theta",
    "recommended_theta",
    "relevant_labels",
    "smallest_m",
]


@dataclass(frozen=True)
class Condition3:
    """Result of `condition_3`.

    Attributes:
      holds: Whether (3) holds at every m.
      first_failure: The smallest m at which it fails, from k + 1 to K; None if it holds.
      left: The left side, D_[k].
      right: The right side at the first failure, or its maximum over m if (3) holds; infinite if
        the sum of theta is 0.
      theta_fits: Whether theta_j = 1/k for j <= k and theta_j <= 1/k beyond, which Theorem 4 also
        requires; relative tolerance 1e-9.
    """

    holds: bool
    first_failure: int | None
    left: float
    right: float
    theta_fits: bool

    @property
    def calibrated(self) -> bool:
        """Whether Theorem 4 applies to a POWL at this input; a BOWL also needs all theta_j > 0."""
        return self.holds and self.theta_fits


def condition_3(
    distribution: npt.ArrayLike,
    theta: npt.ArrayLike,
    k: int,
    *,
    last: Literal["proof", "printed"] = "proof",
) -> Condition3:
    """Checks condition (3) of Theorem 4 for one label distribution.

    Args:
      distribution: [K], in any order.
      theta: [r] with r <= K - 1, non-negative; ranks after r have weight 0.
      k: From 1 to K - 1.
      last: The sum of theta at m = K: "proof" runs from k to K - 1, as the module docstring
        derives; "printed" from k + 1 to K with theta_K = 0.

    Returns:
      Whether (3) holds, and the first m at which it fails. To avoid cancellation at
      theta_j = 1/k, the function sums the slack k theta_j D_[k] - D_[j]. Three million labels take
      less than a second.

    Example:
      >>> d = [0.175, 0.170, 0.165, 0.165, 0.1625, 0.1625]
      >>> condition_3(d, [0.5] * 5, 2).holds, condition_3(d, [0.5] * 5, 2, last="printed").holds
      (True, False)
      >>> condition_3([0.3, 0.175, 0.175, 0.175, 0.175], [1.0], 1).first_failure  # top-1 loss
      2

    References:
      Reddi et al. (2019), Theorem 4, equation 3; Appendix E, Lemmas 5 and 6.
    """
    values = check_one_distribution(distribution)
    check_k(k, values.size)
    weights = pad_theta(theta, values.size)
    ranked = -np.sort(-values)
    kth = ranked[k - 1]
    fits = bool(
        np.allclose(k * weights[:k], 1, rtol=1e-9, atol=0) and (k * weights[k:] <= 1 + 1e-9).all()
    )
    if ranked[k] == 0:
        return Condition3(bool(kth > 0), None if kth > 0 else k + 1, float(kth), 0.0, fits)
    # One entry for each m from k + 1 to K.
    mass = np.cumsum(ranked[k:])
    scale = np.append(k * weights[k:], k * weights[k - 1] if last == "proof" else 0.0)
    slack = np.cumsum(scale * kth - ranked[k:])
    # The inequality is strict: it fails if both sides are equal up to the rounding of theta.
    failed = np.flatnonzero(~(slack > 1e-12 * mass))
    sums = np.cumsum(scale)
    right = np.divide(mass, sums, out=np.full(mass.shape, np.inf), where=sums > 0)
    index = int(failed[0]) if failed.size else int(np.argmax(right))
    return Condition3(
        holds=not failed.size,
        first_failure=k + 1 + index if failed.size else None,
        left=float(kth),
        right=float(right[index]),
        theta_fits=fits,
    )


def recommended_theta(num_labels: int, k: int, most_relevant: int) -> Vector:
    """Weights for inputs with at most M relevant labels: 1/k up to rank M, then 0.

    If D_[M+1] = 0, condition (3) holds: for m <= M the right side is the mean of D_[k+1..m], and
    beyond M neither sum changes. If M <= k, the first k weights are still 1/k, as Theorem 4
    requires.

    Args:
      num_labels: K.
      k: From 1 to K - 1.
      most_relevant: M, at least 1; values above K - 1 act like K - 1.

    Returns:
      theta, float64 [K - 1].

    Example:
      >>> recommended_theta(5, 2, 3)
      array([0.5, 0.5, 0.5, 0. ])

    References:
      Reddi et al. (2019), the text after Theorem 4.
    """
    check_k(k, num_labels)
    if most_relevant < 1:
        raise InputError("relevant labels", str(most_relevant), "at least 1")
    return np.where(np.arange(num_labels - 1) < max(k, most_relevant), 1 / k, 0.0)


def relevant_labels(distribution: npt.ArrayLike, epsilon: float = 0.0) -> int:
    """The smallest M such that only the M most probable labels count as relevant.

    That is D_[M+1] = 0, or, with epsilon > 0, a total probability below epsilon beyond rank M. The
    paper's sum for the latter ends at K - 1; here it ends at K. With epsilon > 0 the paper
    recommends the weights of `recommended_theta` "for milder domain knowledge" without a proof:
    check them with `condition_3`, or use `smallest_m`.

    Args:
      distribution: [K].
      epsilon: At least 0.

    Returns:
      M, from 1 to K.

    Example:
      >>> relevant_labels([0.5, 0.3, 0.2, 0.0]), relevant_labels([0.5, 0.3, 0.15, 0.05], 0.1)
      (3, 3)

    References:
      Reddi et al. (2019), the text after Theorem 4.
    """
    if not epsilon >= 0:
        raise InputError("epsilon", str(epsilon), "at least 0")
    ranked = -np.sort(-check_one_distribution(distribution))
    if epsilon == 0:
        return int(np.count_nonzero(ranked))
    beyond = np.append(np.cumsum(ranked[::-1])[::-1], 0.0)  # the mass from rank M + 1 on
    return max(1, int(np.argmax(beyond < epsilon)))


def smallest_m(distribution: npt.ArrayLike, k: int) -> int | None:
    r"""The smallest M for which the weights of `recommended_theta` satisfy condition (3).

    For m <= M, (3) follows from D_[k] > D_[k+1]. For m > M the sum of theta is constant,
    (M - k) / k, so the strictest conditions are those at m = K - 1 and m = K:

    .. math::
      M - k > \sum_{l=k+1}^{K-1} D_{[l]} / D_{[k]}, \quad
      M - k + 1 > \sum_{l=k+1}^{K} D_{[l]} / D_{[k]}

    Args:
      distribution: [K].
      k: From 1 to K - 1.

    Returns:
      M from k to K - 1; None if D_[k] = D_[k+1], where no theta satisfies (3).

    Example:
      >>> smallest_m([0.3, 0.175, 0.175, 0.175, 0.175], 1)
      3

    References:
      Reddi et al. (2019), Theorem 4; this bound is derived here.
    """
    values = check_one_distribution(distribution)
    check_k(k, values.size)
    ranked = -np.sort(-values)
    if not ranked[k - 1] > ranked[k]:
        return None
    if ranked[k] == 0:
        return k
    # M = K - 1 is the largest: theta_j = 1/k at all ranks always satisfies (3).
    # Rounding must not move a quotient that is an integer to just below it.
    without_last, total = (
        float(np.sum(mass) / ranked[k - 1]) * (1 + 1e-12) for mass in (ranked[k:-1], ranked[k:])
    )
    additional = max(math.floor(without_last) + 1, math.floor(total))
    return min(k + additional, values.size - 1)


def pad_theta(theta: npt.ArrayLike, num_labels: int) -> Vector:
    """Checks weights [r] and pads them with zeros to float64 [K - 1]."""
    weights = check_weights(theta, "theta")
    if weights.size > num_labels - 1:
        raise InputError("theta", f"{weights.size} weights", f"at most {num_labels - 1}")
    return np.pad(weights, (0, num_labels - 1 - weights.size))

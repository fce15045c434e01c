"""Lipschitz constants and ranges of the losses, and the norms of theta in the bounds.

Reddi et al. (2019), Lemma 7 and the text after Theorem 5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from snm.errors import InputError
from snm.losses.sampled.options import LossOptions
from snm.losses.surrogates import SURROGATES, PhiConstants

__all__ = [
    "Kind",
    "L1Norms",
    "LossConstants",
    "lemma_7",
    "phi_largest",
    "phi_lipschitz",
    "sampling_l1_norms",
]

Kind = Literal["powl", "bowl"]


def phi_lipschitz(phi: str, lowest: float | None = None, **options: Any) -> float:
    """The Lipschitz constant of a surrogate.

    On the whole line it is 1 for the hinge, 1 / ln 2 for the logistic loss (in base 2), and 1 / rho
    for the ramp. The squared hinge and the exponential loss need a lower limit of the argument: on
    [lowest, inf) their constants are 2 max(1 - lowest, 0) and exp(-lowest).

    Args:
      phi: A key of `SURROGATES` that has constants.
      lowest: The smallest argument; -2s for a POWL and -s for a BOWL of scores in [-s, s]. None
        means the whole line.
      options: Parameters of phi, fields of `LossOptions`: `ramp_rho`, the margin of the ramp.

    Returns:
      The smallest L with |phi(u) - phi(v)| <= L |u - v|; infinite if it overflows float64.

    Raises:
      InputError: An unknown name, an option out of range, or no `lowest` where one is needed.

    Example:
      >>> phi_lipschitz("squared_hinge", -1.0), round(phi_lipschitz("logistic"), 4)
      (4.0, 1.4427)

    References:
      Reddi et al. (2019), section 3 and Lemma 7.
    """
    constants, values = _constants(phi, lowest, options)
    if lowest is not None:
        return constants.slope(lowest, **values)
    if constants.slope_anywhere is None:
        expected = "its smallest argument (its slope is unbounded)"
        raise InputError(f"range of phi {phi}", "none", expected)
    return constants.slope_anywhere(**values)


def phi_largest(phi: str, lowest: float, **options: Any) -> float:
    """The largest value of a surrogate on [lowest, inf): Phi in Theorem 5.

    Args:
      phi: A key of `SURROGATES` that has constants.
      lowest: The smallest argument, as in `phi_lipschitz`.
      options: Parameters of phi, fields of `LossOptions`: `ramp_rho`, the margin of the ramp.

    Returns:
      phi(lowest), since phi does not increase; infinite if it overflows float64.

    Raises:
      InputError: An unknown name, or an option out of range.

    Example:
      >>> phi_largest("hinge", -1.0), phi_largest("squared_hinge", -2.0)
      (2.0, 9.0)
    """
    constants, values = _constants(phi, lowest, options)
    return constants.largest(lowest, **values)


@dataclass(frozen=True)
class LossConstants:
    """Constants of an ordered weighted loss that the bounds use.

    Attributes:
      l2: Factor of ||v - u||_2 in |l(v, y) - l(u, y)| <= l2 ||v - u||_2 + own |v_y - u_y|.
      own: Factor of |v_y - u_y| in the same condition.
      linf: Factor of ||v - u||_inf in |l(v, y) - l(u, y)| <= linf ||v - u||_inf.
      largest: Largest value; the loss lies in [0, largest].
    """

    l2: float
    own: float
    linf: float
    largest: float


def lemma_7(
    kind: Kind, l1: float, l2: float, lipschitz: float, largest_phi: float
) -> LossConstants:
    r"""Constants of a (phi, theta)-POWL or BOWL for an L-Lipschitz phi with values up to Phi.

    ======  ====================  =======================  ============================
    kind    l2, own               L-infinity               range
    ======  ====================  =======================  ============================
    POWL    L ||th||_2, L||th||_1  2 L ||theta||_1         ||theta||_1 Phi
    BOWL    L ||th||_2, L          L (||theta||_1 + 1)     (||theta||_1 + 1) Phi
    ======  ====================  =======================  ============================

    Theorem 5 prints the range ||theta||_1 Phi for both kinds, which omits the term phi(v_y) of the
    BOWL: with the hinge, v_y = -1, v_j = 1 for all other labels and theta = (1), the loss is
    2 + 2 = 4, but ||theta||_1 Phi is 2. This function returns the range in the table above.

    Args:
      kind: "powl" or "bowl".
      l1: ||theta||_1.
      l2: ||theta||_2.
      lipschitz: L, from `phi_lipschitz`.
      largest_phi: Phi, from `phi_largest`.

    Returns:
      The constants.

    Example:
      >>> lemma_7("bowl", 1.0, 1.0, 1.0, 2.0)
      LossConstants(l2=1.0, own=1.0, linf=2.0, largest=4.0)

    References:
      Reddi et al. (2019), Lemma 7, Appendix F; Lemma 8 for the sorted scores.
    """
    if not (l1 >= l2 * (1 - 1e-9) >= 0 and lipschitz >= 0 and largest_phi >= 0):
        found = f"||theta||_1 {l1}, ||theta||_2 {l2}, L {lipschitz}, Phi {largest_phi}"
        raise InputError("constants of a loss", found, "||theta||_1 >= ||theta||_2 >= 0, all >= 0")
    if kind == "powl":
        return LossConstants(lipschitz * l2, lipschitz * l1, 2 * lipschitz * l1, l1 * largest_phi)
    if kind == "bowl":
        total = l1 + 1
        return LossConstants(lipschitz * l2, lipschitz, lipschitz * total, total * largest_phi)
    raise InputError("kind of loss", repr(kind), "'powl' or 'bowl'")


@dataclass(frozen=True)
class L1Norms:
    """||theta||_1 of two surrogates of the retrieval loss at k that use B sampled labels.

    Attributes:
      mining: That of top-k Stochastic Negative Mining, (K - 1) / B.
      negative_sampling: That of negative sampling, (K - 1) / k.
    """

    mining: npt.NDArray[np.float64]
    negative_sampling: npt.NDArray[np.float64]

    @property
    def ratio(self) -> npt.NDArray[np.float64]:
        """The norm of negative sampling divided by that of mining: B / k."""
        return self.negative_sampling / self.mining


def sampling_l1_norms(
    sampled: npt.ArrayLike, k: npt.ArrayLike, num_labels: npt.ArrayLike
) -> L1Norms:
    """Compares Stochastic Negative Mining with negative sampling by ||theta||_1 = ||vartheta||_1.

    Both give each label that enters the loss the weight (K - 1) / (k B): k labels with mining, all
    B without. The bounds of Theorem 5 grow with this norm. As the paper notes, this compares upper
    bounds only. It also compares losses of different scale: both bound the same retrieval loss, but
    the range of each loss grows with its norm, too. Relative to the range, the bound of negative
    sampling is no larger (`experiments.theory.complexity`).

    Args:
      sampled: B, int [...], from k to K - 1.
      k: The k of the retrieval loss, int [...].
      num_labels: K, int [...].

    Returns:
      float64 [...] each.

    Example:
      >>> norms = sampling_l1_norms(1024, 5, 13_331)
      >>> float(norms.mining.round(3)), float(norms.negative_sampling), float(norms.ratio)
      (13.018, 2666.0, 204.8)

    References:
      Reddi et al. (2019), Lemma 2 and the text after Theorem 5.
    """
    b, kth, total = (np.asarray(x, np.float64) for x in (sampled, k, num_labels))
    if not ((kth >= 1) & (b >= kth) & (b <= total - 1)).all():
        raise InputError("sampled labels", f"B {b}, k {kth}, K {total}", "1 <= k <= B < K")
    mining, sampling = np.broadcast_arrays((total - 1) / b, (total - 1) / kth)
    return L1Norms(mining, sampling)


def _constants(
    phi: str, lowest: float | None, options: dict[str, Any]
) -> tuple[PhiConstants, dict[str, Any]]:
    """The constants of phi, and its options with their defaults."""
    known = {name: each.constants for name, each in SURROGATES.items() if each.constants}
    if phi not in known:
        raise InputError("phi", repr(phi), f"one of {', '.join(known)}")
    if lowest is not None and not math.isfinite(lowest):
        raise InputError("smallest argument of phi", str(lowest), "a finite number")
    return known[phi], SURROGATES[phi].options_in(LossOptions(phi=phi, **options))

r"""Bounds on the variance of the sampled loss and of its gradient, over the draw of B labels.

Reddi et al. (2019) remark that sampling fewer labels increases the variance (section 3.1), but give
no bound. The bounds here are derived below. N = K - 1, and r is the number of weights above 0 (k'
for top-k').

**Loss.** L is a function of a uniform B-subset of N labels. Poincare's inequality on subsets (the
graph whose neighbours differ by one label has spectral gap N) gives
Var L <= 1/(2N) E sum_{a in, b out} (L(swapped) - L)^2. A swap changes L only if the label that
leaves is one of the r mined ones before, or the label that enters is one of them after. Each case
covers r (N - B) pairs on average. A swap changes L by at most vartheta_1 times the spread of phi
over the labels, because the sorted values change by at most the spread in total. Hence

  Var L <= r (1 - B / N) (vartheta_1 spread)^2.

This is 0 if all labels are sampled. For vartheta_1 = 1/k' it decreases like 1/k'. The Bhatia-Davis
inequality also gives Var L <= (||vartheta||_1 Phi - l) l with l = E L, which is smaller if the loss
is small.

**Gradient** (trace of its covariance). The entries of the negatives have
E||.||^2 <= L^2 ||vartheta||_2^2. The entry of the positive lies in [-L ||vartheta||_1, 0] for a
POWL and is constant for a BOWL. If phi is linear on all margins (the hinge with scores in [-1, 1],
as a BOWL), the trace is exactly ||vartheta||_2^2 - ||theta||_2^2.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from snm.errors import InputError
from snm.losses.theta import check_vartheta, theta_norms
from snm.theory.constants import Kind

__all__ = ["gradient_variance_bound", "linear_gradient_variance", "value_variance_bound"]


def value_variance_bound(
    vartheta: npt.ArrayLike,
    sampled: int,
    num_labels: int,
    spread: float,
    *,
    mean: float | None = None,
    largest: float | None = None,
) -> float:
    """Upper bound of the variance of the sampled loss of one example.

    Args:
      vartheta: [r], non-negative and non-increasing.
      sampled: B.
      num_labels: K.
      spread: The largest phi of a negative's margin minus the smallest.
      mean: The full loss of the negatives, sum_j theta_j phi(.). If `largest` is given too, the
        result is the minimum with the Bhatia-Davis bound.
      largest: The largest phi of a negative's margin.

    Returns:
      The bound.

    Example:
      >>> value_variance_bound([0.5, 0.5], 10, 21, 1.0)  # 2 * (1 - 10 / 20) / 4
      0.25
    """
    weights = np.trim_zeros(check_vartheta(vartheta, sampled, num_labels), "b")
    if not spread >= 0:
        raise InputError("spread of phi", str(spread), "a number >= 0")
    if not weights.size:
        return 0.0
    unsampled = 1 - sampled / (num_labels - 1)
    bound = float(weights.size * unsampled * (weights[0] * spread) ** 2)
    if mean is not None and largest is not None:
        bound = min(bound, max(0.0, (float(weights.sum()) * largest - mean) * mean))
    return bound


def gradient_variance_bound(
    vartheta: npt.ArrayLike, sampled: int, num_labels: int, lipschitz: float, kind: Kind
) -> float:
    """Upper bound of the trace of the covariance of the gradient in the scores.

    Args:
      vartheta: [r], non-negative and non-increasing.
      sampled: B.
      num_labels: K.
      lipschitz: L of phi, from `constants.phi_lipschitz`.
      kind: "powl", where the entry of the positive varies too, or "bowl".

    Returns:
      L^2 ||vartheta||_2^2, plus L^2 ||vartheta||_1^2 / 4 for a POWL (Popoviciu's inequality).

    Example:
      >>> gradient_variance_bound([0.5, 0.5], 10, 21, 1.0, "powl")
      0.75
    """
    weights = check_vartheta(vartheta, sampled, num_labels)
    own = float(weights.sum()) ** 2 / 4 if kind == "powl" else 0.0
    return lipschitz**2 * (float(weights @ weights) + own)


def linear_gradient_variance(vartheta: npt.ArrayLike, sampled: int, num_labels: int) -> float:
    """Trace of the gradient's covariance if phi has slope -1 at every margin.

    Args:
      vartheta: [r], non-negative and non-increasing.
      sampled: B.
      num_labels: K.

    Returns:
      ||vartheta||_2^2 - ||theta||_2^2. This is exact: the squared norm of every gradient is the
      first term, and the entries of the mean gradient are theta.

    Example:
      >>> round(linear_gradient_variance([1.0], 2, 4), 12)  # 1 - 5/9
      0.444444444444

    References:
      Reddi et al. (2019), Lemma 2 for theta.
    """
    weights = check_vartheta(vartheta, sampled, num_labels)
    _, l2 = theta_norms(weights, sampled, num_labels)
    return max(0.0, float(weights @ weights) - l2**2)

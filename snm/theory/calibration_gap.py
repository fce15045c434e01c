r"""Whether a loss is calibrated at a label distribution, by minimising it: Definition 2 itself.

With Psi(v) = sum_i alpha_i l(v, i), a loss is calibrated at alpha if the infimum over all v lies
below that over all v that are not Bayes compatible. Both are minima of a smooth convex function
over a cone, if theta is non-increasing and phi convex and differentiable:

* Sorting v like alpha never raises Psi (Appendix E, the first part of Lemmas 5 and 6, which needs
  phi to be non-increasing and no more). So the free infimum is that over v_1 >= ... >= v_K, where
  alpha_1 >= ... >= alpha_K; on this cone no rank changes, and Psi is smooth.
* Take a v that is not compatible: some i of the k most probable labels is outside Top_k(v), and
  some j inside it is not. Exchanging v_i and v_j does not raise Psi, nor does anything between
  (convexity), and somewhere between v_[k] = v_[k+1]. Sorted, that point lies in the cone with its
  k-th gap 0. So the second infimum is that over the cone with v_k = v_{k+1}.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from snm.errors import InputError
from snm.losses import ordered as losses
from snm.theory.calibration import _padded
from snm.theory.retrieval import Vector, check_distribution, check_k

__all__ = ["CalibrationGap", "calibration_gap"]

Kind = Literal["powl", "bowl"]
_SMOOTH = ("logistic", "squared_hinge", "exponential")
_FARTHEST = 60.0  # of a gap between neighbouring scores: exp(-60) is below any rounding


@dataclass(frozen=True)
class CalibrationGap:
    """The two infima of Definition 2.

    Attributes:
      free: Of the loss over all score vectors.
      tied: Over those that are not Bayes compatible.
      scores: A minimiser of the former, [K], in the order of the labels.
    """

    free: float
    tied: float
    scores: Vector

    @property
    def gap(self) -> float:
        """By how much a wrong answer costs more; 0 where the loss is not calibrated."""
        return self.tied - self.free

    @property
    def calibrated(self) -> bool:
        """Whether the gap is above what rounding in the minimisation could make of 0."""
        return self.gap > 1e-9 * max(1.0, abs(self.free))


def calibration_gap(
    distribution: npt.ArrayLike,
    theta: npt.ArrayLike,
    k: int,
    *,
    phi: str = "logistic",
    kind: Kind = "powl",
) -> CalibrationGap:
    """Minimises an ordered weighted loss at one label distribution, freely and with v_k = v_{k+1}.

    The loss is that of the trainer, `snm.losses.ordered.powl` or `bowl`, in float64.

    Args:
      distribution: [K], in any order; K up to a few hundred.
      theta: [r] with r <= K - 1, non-negative and non-increasing.
      k: From 1 to K - 1.
      phi: logistic, squared_hinge or exponential: convex and differentiable.
      kind: "powl" or "bowl".

    Returns:
      Both minima.

    Raises:
      InputError: another phi, or weights that increase: the minimum would not be found this way.

    Example:
      >>> calibration_gap([0.5, 0.3, 0.2], [1.0, 1.0], 1).calibrated
      True

    References:
      Reddi et al. (2019), Definition 2, Theorem 4.
    """
    if phi not in _SMOOTH:
        raise InputError("phi", repr(phi), f"one of {', '.join(_SMOOTH)}")
    values = check_distribution(distribution)
    check_k(k, values.size)
    weights = _padded(theta, values.size)
    if (np.diff(weights) > 0).any():
        raise InputError("theta", "a weight above the one before it", "non-increasing weights")
    order = np.argsort(-values, kind="stable")
    ranked = values[order]
    with jax.enable_x64(True):
        function = _risk(kind, phi)

        def evaluate(point: Vector) -> tuple[float, Vector]:
            value, slope = function(point, ranked, weights)
            return float(value), np.asarray(slope, np.float64)

        free, at = _least(evaluate, values.size, None)
        tied, _ = _least(evaluate, values.size, k)
    scores = np.empty(values.size)
    scores[order] = at[0] - np.concatenate([[0.0], np.cumsum(at[1:])])
    # The tied minimum is also a value of the free problem.
    return CalibrationGap(min(free, tied), tied, scores)


@functools.cache
def _risk(kind: Kind, phi: str) -> Callable[..., tuple[jax.Array, jax.Array]]:
    """(highest score and gaps, alpha, theta) -> Psi and its gradient; at ties along the cone."""
    loss = {"powl": losses.powl, "bowl": losses.bowl}[kind]

    def risk(point: jax.Array, alpha: jax.Array, theta: jax.Array) -> jax.Array:
        scores = point[0] - jnp.concatenate([jnp.zeros(1), jnp.cumsum(point[1:])])
        count = scores.size
        every = loss(
            jnp.broadcast_to(scores, (count, count)),
            jnp.arange(count),
            theta=theta,
            phi=losses.SURROGATES[phi],
            reduce_fn=None,
        )
        return jnp.sum(alpha * every)

    return jax.jit(jax.value_and_grad(risk))


def _least(
    evaluate: Callable[[Vector], tuple[float, Vector]], size: int, tie: int | None
) -> tuple[float, Vector]:
    """The minimum over the cone, with the gap after rank `tie` held at 0."""
    bounds = [(-_FARTHEST, _FARTHEST)] + [(0.0, _FARTHEST)] * (size - 1)
    start = np.full(size, 0.1)
    if tie is not None:
        bounds[tie] = (0.0, 0.0)
        start[tie] = 0.0
    options = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-16, "gtol": 1e-11, "maxcor": 50}
    found = minimize(evaluate, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return float(found.fun), np.asarray(found.x, np.float64)

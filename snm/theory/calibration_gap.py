r"""Tests whether a loss is calibrated at a label distribution by minimizing it (Definition 2).

With Psi(v) = sum_i alpha_i l(v, i), a loss is calibrated at alpha if the infimum of Psi over all v
is below that over all v that are not Bayes compatible. If theta is non-increasing and phi is convex
and differentiable, both are minima of a smooth convex function over a cone:

- Sorting v in the order of alpha never increases Psi (Appendix E, first part of Lemmas 5 and 6,
  which only needs a non-increasing phi). So with alpha_1 >= ... >= alpha_K the first infimum is
  that over the cone v_1 >= ... >= v_K. No rank changes on this cone, so Psi is smooth there.
- Take a v that is not Bayes compatible: some i of the k most probable labels is outside Top_k(v),
  and some j that is not one of them is inside. Exchanging v_i and v_j does not increase Psi, and by
  convexity neither does any point in between. At one of these points v_[k] = v_[k+1]. Sorted, it
  lies in the cone with v_k = v_{k+1}. So the second infimum is that over this part of the cone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from snm.errors import InputError
from snm.losses import ordered as losses
from snm.losses.surrogates import SURROGATES, Surrogate
from snm.losses.theta import Vector, check_non_increasing
from snm.theory.calibration import pad_theta
from snm.theory.constants import Kind
from snm.theory.retrieval import check_k, check_one_distribution

__all__ = ["CalibrationGap", "calibration_gap"]

_LARGEST_GAP = 60.0  # between neighbouring scores: exp(-60) is far below float64 rounding
_CHECK_MARGINS = np.linspace(-30, 30, 1201)  # where the slopes of phi are checked


@dataclass(frozen=True)
class CalibrationGap:
    """The two infima of Definition 2.

    Attributes:
      free: Infimum of the loss over all score vectors.
      tied: Infimum over the score vectors that are not Bayes compatible.
      scores: A minimizer of the first, [K], in the order of the labels.
    """

    free: float
    tied: float
    scores: Vector

    @property
    def gap(self) -> float:
        """Extra loss of a wrong answer; 0 if the loss is not calibrated."""
        return self.tied - self.free

    @property
    def calibrated(self) -> bool:
        """Whether the gap exceeds the rounding error of the minimization."""
        return self.gap > 1e-9 * max(1.0, abs(self.free))


def calibration_gap(
    distribution: npt.ArrayLike,
    theta: npt.ArrayLike,
    k: int,
    *,
    phi: str | Surrogate = "logistic",
    kind: Kind = "powl",
) -> CalibrationGap:
    """Minimizes an ordered weighted loss at one label distribution, with and without v_k = v_{k+1}.

    The loss is the trainer's, `snm.losses.ordered.powl` or `bowl`, in float64.

    Args:
      distribution: [K], in any order; K up to a few hundred.
      theta: [r] with r <= K - 1, non-negative and non-increasing.
      k: From 1 to K - 1.
      phi: a name of `SURROGATES`, or a function that is non-increasing, convex and differentiable.
        Its slopes on [-30, 30] are checked.
      kind: "powl" or "bowl".

    Returns:
      Both minima.

    Raises:
      InputError: phi is unknown or fails the check, or the weights increase: this minimization is
        not valid for them.

    Example:
      >>> calibration_gap([0.5, 0.3, 0.2], [1.0, 1.0], 1).calibrated
      True

    References:
      Reddi et al. (2019), Definition 2, Theorem 4.
    """
    if isinstance(phi, str) and phi not in SURROGATES:
        raise InputError("phi", repr(phi), f"one of {', '.join(SURROGATES)}, or a function")
    surrogate = SURROGATES[phi].function if isinstance(phi, str) else phi
    values = check_one_distribution(distribution)
    check_k(k, values.size)
    weights = pad_theta(theta, values.size)
    check_non_increasing(weights, "theta")
    order = np.argsort(-values, kind="stable")
    ranked = values[order]
    with jax.enable_x64(True):
        if (problem := _check_phi(surrogate)) is not None:
            where = f"phi {phi}" if isinstance(phi, str) else "phi"
            raise InputError(where, problem, "a function that does not increase, convex and smooth")
        function = _risk(kind, surrogate)

        def evaluate(point: Vector) -> tuple[float, Vector]:
            value, slope = function(point, ranked, weights)
            return float(value), np.asarray(slope, np.float64)

        free, minimizer = _minimize(evaluate, values.size, None)
        tied, _ = _minimize(evaluate, values.size, k)
    scores = np.empty(values.size)
    scores[order] = minimizer[0] - np.concatenate([[0.0], np.cumsum(minimizer[1:])])
    # A tied score vector is feasible for the free problem, too.
    return CalibrationGap(min(free, tied), tied, scores)


@functools.lru_cache(maxsize=16)
def _check_phi(phi: Surrogate) -> str | None:
    """Why the minimization over a cone is not valid for phi; None if it is. Needs float64."""

    def slopes(margins: Vector) -> Vector:
        u = jnp.asarray(margins, jnp.float64)
        return np.asarray(jax.jvp(phi, (u,), (jnp.ones_like(u),))[1])

    values = slopes(_CHECK_MARGINS)
    if not np.isfinite(values).all():
        return "a slope that is not finite"
    if values.max() > 0:
        return "a slope above 0"
    if (np.diff(values) < -1e-9 * (1 - values[:-1])).any():
        return "a slope that falls"
    # Bisect each interval towards the larger change of the slope. The change becomes small, unless
    # there is a kink.
    low, high = _CHECK_MARGINS[:-1], _CHECK_MARGINS[1:]
    for _ in range(30):
        middle = (low + high) / 2
        at_middle = slopes(middle)
        left = at_middle - slopes(low) > slopes(high) - at_middle
        low, high = np.where(left, low, middle), np.where(left, middle, high)
    before, after = slopes(low), slopes(high)
    return "a kink" if (after - before > 1e-6 * (1 - before)).any() else None


@functools.lru_cache(maxsize=16)
def _risk(kind: Kind, phi: Surrogate) -> Callable[..., tuple[jax.Array, jax.Array]]:
    """Compiles (point, alpha, theta) -> Psi and its gradient.

    A point [K] is the highest score and the K - 1 gaps between neighbouring scores. At ties the
    gradient is the one-sided one inside the cone.
    """
    loss = {"powl": losses.powl, "bowl": losses.bowl}[kind]

    def risk(point: jax.Array, alpha: jax.Array, theta: jax.Array) -> jax.Array:
        scores = point[0] - jnp.concatenate([jnp.zeros(1), jnp.cumsum(point[1:])])
        count = scores.size
        losses_by_label = loss(
            jnp.broadcast_to(scores, (count, count)),
            jnp.arange(count),
            theta=theta,
            phi=phi,
            reduce_fn=None,
        )
        return jnp.sum(alpha * losses_by_label)

    return jax.jit(jax.value_and_grad(risk))


def _minimize(
    evaluate: Callable[[Vector], tuple[float, Vector]], size: int, tie: int | None
) -> tuple[float, Vector]:
    """Minimum and minimizer over the cone; the gap after rank `tie` is fixed at 0."""
    bounds = [(-_LARGEST_GAP, _LARGEST_GAP)] + [(0.0, _LARGEST_GAP)] * (size - 1)
    start = np.full(size, 0.1)
    if tie is not None:
        bounds[tie] = (0.0, 0.0)
        start[tie] = 0.0
    options = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-16, "gtol": 1e-11, "maxcor": 50}
    solution = minimize(
        evaluate, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )
    return float(solution.fun), np.asarray(solution.x, np.float64)

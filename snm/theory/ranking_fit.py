"""Fits linear rankers with the algorithms that Tewari and Chaudhuri (2015) analyse.

- Online gradient descent with the step of Theorem 5 or equation 7.
- Regularized empirical risk minimization with the lambda of Theorem 6.

Both work over the 2-ball (F_2) or the 1-ball (F_1). The module also has the projection of Theorem 3
on permutation-equivariant linear scorers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from snm.errors import InputError
from snm.losses.theta import Vector

__all__ = [
    "Fit",
    "invariant_part",
    "invariant_scorer",
    "online_gradient_descent",
    "prescribed_lambda",
    "prescribed_step",
    "regularized_erm",
    "smooth_bound",
    "smooth_step",
]

Ball = Literal["l2", "l1"]
Loss = Callable[..., jax.Array]  # (scores, labels) -> mean loss, as in snm.losses.listwise


def prescribed_step(lipschitz: float, radius: float, max_norm: float, n: int) -> float:
    """The step of Theorem 5, W / (G R sqrt(2n)), which minimizes W^2 / (2 eta) + eta (G R)^2 n.

    Args:
      lipschitz: G, in the max norm of the scores.
      radius: W.
      max_norm: R.
      n: Number of lists.

    References:
      Tewari, Chaudhuri (2015), section 5.
    """
    return radius / (lipschitz * max_norm * math.sqrt(2 * n))


def smooth_step(
    smoothness: float, radius: float, max_norm: float, n: int, best_loss: float
) -> float:
    r"""The step of equation 7 for a smooth loss; it depends on the best loss L*.

    .. math:: \eta = W / \big(4 h W + 2 \sqrt{4 h^2 W^2 + 2 h L^* n}\big), \quad h = R^2 H

    Args:
      smoothness: H, in the max norm of the scores.
      radius: W.
      max_norm: R.
      n: Number of lists.
      best_loss: L*, the smallest expected loss over ||w||_2 <= W.

    References:
      Tewari, Chaudhuri (2015), equation 7, appendix I for h.
    """
    h = max_norm**2 * smoothness
    return radius / (4 * h * radius + 2 * math.sqrt(4 * (h * radius) ** 2 + 2 * h * best_loss * n))


def smooth_bound(
    smoothness: float, radius: float, max_norm: float, n: int, best_loss: float
) -> float:
    """Equation 8: the bound 2 sqrt(2 h W^2 L* / n) + 8 h W^2 / n on E[L(w_OGD)] - L*, h = R^2 H.

    References:
      Tewari, Chaudhuri (2015), equation 8.
    """
    x = max_norm**2 * smoothness * radius**2 / n
    return 2 * math.sqrt(2 * x * best_loss) + 8 * x


def prescribed_lambda(lipschitz: float, radius: float, max_norm: float, n: int) -> float:
    """The lambda of Theorem 6, sqrt((4 g^2 / n) / (W^2 / 2 + 4 W^2 / n)) with g = G R.

    References:
      Tewari, Chaudhuri (2015), Theorem 18.
    """
    g = lipschitz * max_norm
    return math.sqrt(4 * g**2 / n / (radius**2 / 2 + 4 * radius**2 / n))


def online_gradient_descent(
    features: npt.ArrayLike,
    labels: npt.ArrayLike,
    loss: Loss,
    *,
    step: float,
    radius: float | None = None,
    ball: Ball = "l2",
) -> Vector:
    """Makes one pass over the lists from w = 0 and returns the mean of the iterates.

    Theorem 5 needs no projection: its regret bound holds against every w in the ball. With
    `radius` each iterate is projected onto the ball. On the 2-ball this keeps the guarantee; on the
    1-ball it gives an algorithm for F_1, for which the paper has no online bound.

    Args:
      features: X, [n, m, d].
      labels: y, [n, m].
      loss: (scores [m], labels [m]) -> scalar, convex in the scores.
      step: eta.
      radius: Radius of the ball to project onto; None for no projection.
      ball: "l2" or "l1".

    Returns:
      float64 [d], the mean of w_1, ..., w_n.

    References:
      Tewari, Chaudhuri (2015), section 5.
    """
    x, y = _check_lists(features, labels)
    with jax.enable_x64(True):
        run = _descent(loss, ball, radius is not None)
        return np.asarray(run(x, y, step, 0.0 if radius is None else radius))


@functools.lru_cache(maxsize=16)
def _descent(loss: Loss, ball: Ball, projected: bool) -> Callable[..., jax.Array]:
    """Compiles (X, y, step, radius) -> mean of the iterates, once per loss."""
    project = _projection(ball)

    def run(x: jax.Array, y: jax.Array, step: jax.Array, radius: jax.Array) -> jax.Array:
        def one_step(
            w: jax.Array, example: tuple[jax.Array, jax.Array]
        ) -> tuple[jax.Array, jax.Array]:
            inputs, grades = example
            new = w - step * jax.grad(lambda v: loss(inputs @ v, grades))(w)
            return (project(new, radius) if projected else new), w

        _, iterates = jax.lax.scan(one_step, jnp.zeros(x.shape[-1]), (x, y))
        return iterates.mean(axis=0)

    return jax.jit(run)


@dataclass(frozen=True)
class Fit:
    """Result of `regularized_erm`.

    Attributes:
      weights: w, float64 [d].
      objective: lambda/2 ||w||^2 + mean loss at w.
      gap: Upper bound on the objective minus its minimum over the ball.
    """

    weights: Vector
    objective: float
    gap: float


def regularized_erm(
    features: npt.ArrayLike,
    labels: npt.ArrayLike,
    loss: Loss,
    *,
    radius: float,
    penalty: float = 0.0,
    ball: Ball = "l2",
    smooth: bool = True,
    steps: int = 500,
    tolerance: float = 1e-8,
) -> Fit:
    r"""Minimizes the regularized mean loss over a ball, with a bound on the optimality gap.

    .. math:: \min_{\|w\| \le W} \tfrac \lambda 2 \|w\|_2^2 + \tfrac 1 n \sum_i l(X_i w, y_i)

    Smooth losses use accelerated projected gradients with backtracking (Beck and Teboulle, 2009)
    and a restart whenever the objective increases. Other losses use projected subgradients and keep
    the best iterate. By convexity <g, w> + W ||g||* bounds the gap. For a non-differentiable loss
    this bound does not converge to 0.

    Args:
      features: X, [n, m, d].
      labels: y, [n, m].
      loss: (scores [n, m], labels [n, m]) -> mean over lists, convex in the scores.
      radius: W.
      penalty: lambda; `prescribed_lambda` for Theorem 6, 0 for minimization over the ball
        (Theorems 9, 12 and 17).
      ball: "l2" for F_2, "l1" for F_1.
      smooth: Whether the loss is differentiable everywhere.
      steps: Largest number of steps.
      tolerance: The search stops at a gap below this.

    Returns:
      The minimizer, up to the gap.

    References:
      Tewari, Chaudhuri (2015), equation 3.
    """
    x, y = _check_lists(features, labels)
    with jax.enable_x64(True):
        objective, projection = _problem(loss, ball)
        lists = jax.device_put((x, y))

        def evaluate(w: Vector) -> Point:
            value, slope = objective(w, *lists, penalty)
            value, slope = float(value), np.asarray(slope)
            dual = np.linalg.norm(slope) if ball == "l2" else np.abs(slope).max()
            return Point(w, value, slope, gap=float(slope @ w + radius * dual))

        def project(w: Vector) -> Vector:
            return np.asarray(projection(w, radius))

        start = evaluate(np.zeros(x.shape[-1]))
        if smooth:
            return _accelerated(evaluate, project, start, penalty, steps, tolerance)
        return _subgradients(evaluate, project, start, radius, penalty, steps, tolerance)


@functools.lru_cache(maxsize=16)
def _problem(loss: Loss, ball: Ball) -> tuple[Callable[..., Any], Callable[..., jax.Array]]:
    """Compiles (w, X, y, lambda) -> objective and gradient, and the projection, once per loss."""

    def objective(w: jax.Array, x: jax.Array, y: jax.Array, penalty: jax.Array) -> jax.Array:
        return penalty / 2 * (w @ w) + loss(x @ w, y)

    return jax.jit(jax.value_and_grad(objective)), jax.jit(_projection(ball))


def invariant_part(weights: npt.ArrayLike) -> tuple[Vector, Vector]:
    """Projects a linear scorer of lists onto the permutation-equivariant ones.

    A linear map of a list to scores, f_i(X) = <X, W_i>, has m^2 d parameters. Those with
    f(pi X) = pi f(X) for all permutations pi are X -> X w + (1^T X v) 1. They have dimension 2d (d
    for m = 1, where v adds nothing). The projection is w = u - u', v = u', where u is the mean of
    the rows W_i[i], and u' that of the rows W_i[j] with j != i. The second part adds the same value
    to all scores and does not change the ranking, so one w for all documents suffices.

    Args:
      weights: W, [m, m, d]; W_i is in the first axis.

    Returns:
      w and v, float64 [d] each: the orthogonal projection, which is the mean over all m!
      permutations.

    References:
      Tewari, Chaudhuri (2015), Theorem 3 and appendix D.
    """
    full = np.asarray(weights, np.float64)
    if full.ndim != 3 or full.shape[0] != full.shape[1]:
        raise InputError("linear scorer", f"shape {full.shape}", "[m, m, d]")
    m = len(full)
    diagonal = np.einsum("iid->d", full) / m
    if m == 1:
        return diagonal, np.zeros_like(diagonal)
    off_diagonal = (full.sum(axis=(0, 1)) - m * diagonal) / (m * (m - 1))
    return diagonal - off_diagonal, off_diagonal


def invariant_scorer(w: npt.ArrayLike, v: npt.ArrayLike, m: int) -> Vector:
    """The parameters W, float64 [m, m, d], of X -> X w + (1^T X v) 1 (equation 2)."""
    a, b = np.asarray(w, np.float64), np.asarray(v, np.float64)
    return np.eye(m)[:, :, None] * a + b


def _check_lists(features: npt.ArrayLike, labels: npt.ArrayLike) -> tuple[Vector, Vector]:
    x, y = np.asarray(features, np.float64), np.asarray(labels, np.float64)
    if x.ndim != 3 or y.shape != x.shape[:2] or not x.size:
        raise InputError("lists", f"features {x.shape}, labels {y.shape}", "[n, m, d] and [n, m]")
    return x, y


def _projection(ball: Ball) -> Callable[[jax.Array, jax.Array], jax.Array]:
    """(w, radius) -> the Euclidean projection of w onto the ball."""
    if ball == "l2":
        return lambda w, r: w * jnp.minimum(1.0, r / jnp.maximum(jnp.linalg.norm(w), 1e-300))
    if ball != "l1":
        raise InputError("ball", repr(ball), "'l2' or 'l1'")

    def project(w: jax.Array, r: jax.Array) -> jax.Array:
        # Soft thresholding such that the absolute values sum to r (Duchi et al., 2008).
        magnitudes = -jnp.sort(-jnp.abs(w))
        thresholds = (jnp.cumsum(magnitudes) - r) / jnp.arange(1, w.size + 1)
        last = jnp.maximum(jnp.sum(magnitudes > thresholds) - 1, 0)  # at least 0 despite rounding
        shrunk = jnp.sign(w) * jnp.maximum(jnp.abs(w) - thresholds[last], 0)
        return jnp.where(jnp.sum(jnp.abs(w)) <= r, w, shrunk)

    return project


@dataclass(frozen=True)
class Point:
    """The regularized mean loss at w.

    Attributes:
      w: float64 [d].
      value: The objective.
      slope: Its gradient g, float64 [d].
      gap: <g, w> + W ||g||*, an upper bound on the value minus the minimum over the ball.
    """

    w: Vector
    value: float
    slope: Vector
    gap: float


Evaluate = Callable[[Vector], Point]
Project = Callable[[Vector], Vector]


def _accelerated(
    evaluate: Evaluate,
    project: Project,
    best: Point,
    penalty: float,
    steps: int,
    tolerance: float,
) -> Fit:
    """Accelerated projected gradients, for differentiable losses."""
    ahead, curvature, momentum = best.w, max(penalty, 1e-3), 1.0
    for _ in range(steps):
        if best.gap <= tolerance:
            break
        at = evaluate(ahead)
        while True:
            new = evaluate(project(ahead - at.slope / curvature))
            move = new.w - ahead
            limit = at.value + at.slope @ move + curvature / 2 * (move @ move)
            if new.value <= limit + 1e-15 * abs(limit) or curvature > 1e15:
                break
            curvature *= 2
        if new.value > best.value and not np.array_equal(ahead, best.w):
            ahead, momentum = best.w, 1.0
            continue
        next_momentum = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
        ahead = new.w + (momentum - 1) / next_momentum * (new.w - best.w)
        best, momentum = new, next_momentum
        curvature /= 1.2
    return Fit(best.w, best.value, best.gap)


def _subgradients(
    evaluate: Evaluate,
    project: Project,
    best: Point,
    radius: float,
    penalty: float,
    steps: int,
    tolerance: float,
) -> Fit:
    """Projected subgradients, for losses that are not differentiable; keeps the best iterate."""
    at, lower_bound = best, -math.inf
    for number in range(1, steps + 1):
        lower_bound = max(lower_bound, at.value - at.gap)
        if at.value < best.value:
            best = at
        length = float(np.linalg.norm(at.slope))
        if best.value - lower_bound <= tolerance or length == 0:
            break
        eta = radius / (length * math.sqrt(number))
        if penalty:
            eta = min(eta, 2 / (penalty * (number + 1)))
        at = evaluate(project(at.w - eta * at.slope))
    return Fit(best.w, best.value, max(best.value - lower_bound, 0.0))

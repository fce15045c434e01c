"""Linear ranking, as Tewari and Chaudhuri (2015) analyse it: algorithms that run.

Online gradient descent with the step that Theorem 5 or equation 7 prescribes, regularised empirical
risk minimisation with the lambda of Theorem 6, both over the 2-ball (F_2) or the 1-ball (F_1), and
Theorem 3's projection: what a linear scorer of whole lists must be if it is to treat documents
alike.
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

__all__ = [
    "Fit",
    "invariant_part",
    "invariant_scorer",
    "online_gradient_descent",
    "prescribed_lambda",
    "prescribed_step",
    "regularised_erm",
    "smooth_bound",
    "smooth_step",
]

Ball = Literal["l2", "l1"]
Vector = npt.NDArray[np.float64]
Loss = Callable[..., jax.Array]  # (scores, labels) -> mean, such as those of snm.losses.listwise


def prescribed_step(lipschitz: float, radius: float, reach: float, n: int) -> float:
    """Theorem 5's step, the minimiser of W^2 / (2 eta) + eta (G R)^2 n: W / (G R sqrt(2n)).

    Args:
      lipschitz: G, in the max norm of the scores.
      radius: W.
      reach: R.
      n: Lists.

    References:
      Tewari, Chaudhuri (2015), section 5.
    """
    return radius / (lipschitz * reach * math.sqrt(2 * n))


def smooth_step(smoothness: float, radius: float, reach: float, n: int, least: float) -> float:
    r"""Equation 7's step for a smooth loss, which needs the best loss L* to be known.

    .. math:: \eta = W / \big(4 h W + 2 \sqrt{4 h^2 W^2 + 2 h L^* n}\big), \quad h = R^2 H

    Args:
      smoothness: H, in the max norm of the scores.
      radius: W.
      reach: R.
      n: Lists.
      least: L*, the expected loss of the best ||w||_2 <= W.

    References:
      Tewari, Chaudhuri (2015), equation 7, appendix I for h.
    """
    h = reach**2 * smoothness
    return radius / (4 * h * radius + 2 * math.sqrt(4 * (h * radius) ** 2 + 2 * h * least * n))


def smooth_bound(smoothness: float, radius: float, reach: float, n: int, least: float) -> float:
    """Equation 8: E[L(w_OGD)] - L* is at most 2 sqrt(2 h W^2 L* / n) + 8 h W^2 / n, h = R^2 H.

    References:
      Tewari, Chaudhuri (2015), equation 8.
    """
    x = reach**2 * smoothness * radius**2 / n
    return 2 * math.sqrt(2 * x * least) + 8 * x


def prescribed_lambda(lipschitz: float, radius: float, reach: float, n: int) -> float:
    """Theorem 6's lambda: sqrt((4 g^2 / n) / (W^2 / 2 + 4 W^2 / n)) with g = G R.

    References:
      Tewari, Chaudhuri (2015), Theorem 18.
    """
    g = lipschitz * reach
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
    """One pass over the lists from w = 0; returns the mean of the iterates.

    Theorem 5 takes no projection: its regret holds against every w of the ball all the same. With
    `radius` each iterate is projected on the ball, which keeps the guarantee on the 2-ball and
    gives the algorithm on F_1 (for which the paper has no online bound).

    Args:
      features: X, [n, m, d].
      labels: y, [n, m].
      loss: (scores [m], labels [m]) -> scalar, convex in the scores.
      step: eta.
      radius: Of the ball to project on; None for no projection.
      ball: "l2" or "l1".

    Returns:
      float64 [d], the mean of w_1 .. w_n.

    References:
      Tewari, Chaudhuri (2015), section 5.
    """
    x, y = _lists(features, labels)
    with jax.enable_x64(True):
        run = _descent(loss, ball, radius is not None)
        return np.asarray(run(x, y, step, 0.0 if radius is None else radius))


@functools.lru_cache(maxsize=16)
def _descent(loss: Loss, ball: Ball, projected: bool) -> Callable[..., jax.Array]:
    """(X, y, step, radius) -> the mean of the iterates; compiled once a loss."""
    project = _projection(ball)

    def run(x: jax.Array, y: jax.Array, step: jax.Array, radius: jax.Array) -> jax.Array:
        def one(w: jax.Array, example: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            inputs, grades = example
            new = w - step * jax.grad(lambda v: loss(inputs @ v, grades))(w)
            return (project(new, radius) if projected else new), w

        _, iterates = jax.lax.scan(one, jnp.zeros(x.shape[-1]), (x, y))
        return iterates.mean(axis=0)

    return jax.jit(run)


@dataclass(frozen=True)
class Fit:
    """What `regularised_erm` found.

    Attributes:
      weights: w, float64 [d].
      objective: lambda/2 ||w||^2 + mean loss there.
      gap: The objective is at most this far from its minimum over the ball.
    """

    weights: Vector
    objective: float
    gap: float


def regularised_erm(
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
    r"""Minimises the regularised mean loss over a ball, with a certificate.

    .. math:: \min_{\|w\| \le W} \tfrac \lambda 2 \|w\|_2^2 + \tfrac 1 n \sum_i l(X_i w, y_i)

    Smooth losses by accelerated projected gradients with backtracking (Beck and Teboulle, 2009),
    restarted where the objective rises; others by projected subgradients, whose best iterate is
    kept. Either way <g, w> + W ||g||* bounds how far the minimum can be (convexity); for losses
    with kinks it does not go to 0.

    Args:
      features: X, [n, m, d].
      labels: y, [n, m].
      loss: (scores [n, m], labels [n, m]) -> mean over lists, convex in the scores.
      radius: W.
      penalty: lambda; that of Theorem 6 is `prescribed_lambda`, 0 is plain minimisation over the
        ball (Theorems 9, 12 and 17).
      ball: "l2" for F_2, "l1" for F_1.
      smooth: Whether the loss is differentiable everywhere.
      steps: At most.
      tolerance: Stops where the gap is below.

    Returns:
      The minimiser, up to the gap.

    References:
      Tewari, Chaudhuri (2015), equation 3.
    """
    x, y = _lists(features, labels)
    with jax.enable_x64(True):
        objective, project = _problem(loss, ball)
        x, y = jax.device_put(x), jax.device_put(y)
        search = _accelerated if smooth else _subgradients
        return search(
            lambda w: objective(w, x, y, penalty),
            lambda w: project(w, radius),
            x.shape[-1], radius, ball, penalty, steps, tolerance,
        )  # fmt: skip


@functools.lru_cache(maxsize=16)
def _problem(loss: Loss, ball: Ball) -> tuple[Callable[..., Any], Callable[..., jax.Array]]:
    """(w, X, y, lambda) -> objective and gradient, and the projection; compiled once a loss."""

    def objective(w: jax.Array, x: jax.Array, y: jax.Array, penalty: jax.Array) -> jax.Array:
        return penalty / 2 * (w @ w) + loss(x @ w, y)

    return jax.jit(jax.value_and_grad(objective)), jax.jit(_projection(ball))


def invariant_part(weights: npt.ArrayLike) -> tuple[Vector, Vector]:
    """The nearest linear scorer that commutes with every reordering of the documents.

    A linear map of a list to scores, f_i(X) = <X, W_i>, has m^2 d parameters. Those with
    f(pi X) = pi f(X) for all permutations are X -> X w + (1^T X v) 1, of dimension 2d (d for
    m = 1, where v adds nothing): w = u - u', v = u' with u the mean of the rows W_i[i] and u' that
    of the rows W_i[j], j != i. The second part adds the same to all scores, so that it ranks
    nothing, and the class of one w for all documents is the only sensible one.

    Args:
      weights: W, [m, m, d]: W_i in the first axis.

    Returns:
      w and v, float64 [d] each: the orthogonal projection, which is the mean over all m!
      reorderings.

    References:
      Tewari, Chaudhuri (2015), Theorem 3 and appendix D.
    """
    full = np.asarray(weights, np.float64)
    if full.ndim != 3 or full.shape[0] != full.shape[1]:
        raise InputError("linear scorer", f"shape {full.shape}", "[m, m, d]")
    m = len(full)
    own = np.einsum("iid->d", full) / m
    if m == 1:
        return own, np.zeros_like(own)
    others = (full.sum(axis=(0, 1)) - m * own) / (m * (m - 1))
    return own - others, others


def invariant_scorer(w: npt.ArrayLike, v: npt.ArrayLike, m: int) -> Vector:
    """The parameters W, float64 [m, m, d], of X -> X w + (1^T X v) 1 (equation 2)."""
    a, b = np.asarray(w, np.float64), np.asarray(v, np.float64)
    return np.eye(m)[:, :, None] * a + b


def _lists(features: npt.ArrayLike, labels: npt.ArrayLike) -> tuple[Vector, Vector]:
    x, y = np.asarray(features, np.float64), np.asarray(labels, np.float64)
    if x.ndim != 3 or y.shape != x.shape[:2] or not x.size:
        raise InputError("lists", f"features {x.shape}, labels {y.shape}", "[n, m, d] and [n, m]")
    return x, y


def _projection(ball: Ball) -> Callable[[jax.Array, jax.Array], jax.Array]:
    if ball == "l2":
        return lambda w, r: w * jnp.minimum(1.0, r / jnp.maximum(jnp.linalg.norm(w), 1e-300))
    if ball != "l1":
        raise InputError("ball", repr(ball), "'l2' or 'l1'")

    def project(w: jax.Array, r: jax.Array) -> jax.Array:
        # The threshold at which the shrunk absolute values add up to r (Duchi et al., 2008).
        size = -jnp.sort(-jnp.abs(w))
        over = (jnp.cumsum(size) - r) / jnp.arange(1, w.size + 1)
        last = jnp.sum(size > over) - 1
        shrunk = jnp.sign(w) * jnp.maximum(jnp.abs(w) - over[last], 0)
        return jnp.where(jnp.sum(jnp.abs(w)) <= r, w, shrunk)

    return project


Evaluate = Callable[[jax.Array], tuple[jax.Array, jax.Array]]


def _gap(w: Vector, slope: Vector, radius: float, ball: Ball) -> float:
    dual = np.linalg.norm(slope) if ball == "l2" else np.abs(slope).max()
    return float(slope @ w + radius * dual)


def _accelerated(
    evaluate: Evaluate,
    shrink: Callable[[jax.Array], jax.Array],
    size: int,
    radius: float,
    ball: Ball,
    penalty: float,
    steps: int,
    tolerance: float,
) -> Fit:
    w = ahead = np.zeros(size)
    value, slope = (np.asarray(part) for part in evaluate(jnp.asarray(w)))
    curvature, momentum = max(penalty, 1e-3), 1.0
    for _ in range(steps):
        if _gap(w, slope, radius, ball) <= tolerance:
            break
        there, push = (np.asarray(part) for part in evaluate(jnp.asarray(ahead)))
        while True:
            new = np.asarray(shrink(jnp.asarray(ahead - push / curvature)))
            move = new - ahead
            found, turned = (np.asarray(part) for part in evaluate(jnp.asarray(new)))
            most = there + push @ move + curvature / 2 * (move @ move)
            if found <= most + 1e-15 * abs(most) or curvature > 1e15:
                break
            curvature *= 2
        if found > value and not np.array_equal(ahead, w):
            ahead, momentum = w, 1.0
            continue
        following = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
        ahead = new + (momentum - 1) / following * (new - w)
        w, value, slope, momentum = new, found, turned, following
        curvature /= 1.2
    return Fit(w, float(value), _gap(w, slope, radius, ball))


def _subgradients(
    evaluate: Evaluate,
    shrink: Callable[[jax.Array], jax.Array],
    size: int,
    radius: float,
    ball: Ball,
    penalty: float,
    steps: int,
    tolerance: float,
) -> Fit:
    w = best = np.zeros(size)
    least, lower = math.inf, -math.inf
    for number in range(1, steps + 1):
        value, slope = (np.asarray(part) for part in evaluate(jnp.asarray(w)))
        lower = max(lower, float(value) - _gap(w, slope, radius, ball))
        if value < least:
            least, best = float(value), w
        length = float(np.linalg.norm(slope))
        if least - lower <= tolerance or length == 0:
            break
        eta = radius / (length * math.sqrt(number))
        if penalty:
            eta = min(eta, 2 / (penalty * (number + 1)))
        w = np.asarray(shrink(jnp.asarray(w - eta * slope)))
    return Fit(best, least, max(least - lower, 0.0))

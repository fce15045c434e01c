r"""Gaussian and Rademacher complexities of linear and two-layer classes on a data set.

**Linear class**: h_y(x) = <w_y, x> with every ||w_y||_2 <= Lambda, as in the trainer's embedding
table of labels. For given multipliers g the supremum over the class has a closed form, so that

  G_S = Lambda/n E sum_y ||sum_{i: y_i = y} g_i x_i||,  completion: Lambda/n E||X^T g||

- Exact: E||X^T g|| follows from the eigenvalues of X^T X by one integral (`expected_norm`).
- Estimated: G_S, by drawing g. The estimate is unbiased, and its standard error is returned.
- Bracketed: a Gaussian vector z has sqrt(2/pi) sqrt(E||z||^2) <= E||z|| <= sqrt(E||z||^2), which
  bounds every Gaussian complexity from both sides in closed form.

For the worst-case Rademacher complexity over multi-subsets T of the completion, with
R = max_i ||x_i||,

  Lambda R / sqrt(2 n) <= R(completion) <= Lambda R / sqrt(n).

The upper bound is Cauchy-Schwarz: sum_y sqrt(|T_y|) <= sqrt(K n K). For the lower bound, T repeats
the longest x equally often with every label, and E|sum of n signs| >= sqrt(n/2) (Khintchine's
inequality with the best constant).

**Two-layer class**: h_y(x) = <a_y, relu(W x)> with every ||a_y||_2 <= s and ||W||_F <= w, and any
number of hidden units. Its complexities are at most twice those of the linear class with
Lambda = s w: for each label on its own, by homogeneity the best W puts its whole norm on one unit,
and the supremum of the sum is at most the sum of these suprema; the absolute value costs a factor
of 2, and ReLU is a contraction (Ledoux and Talagrand; Sudakov and Fernique). The lower estimate
comes from gradient ascent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from snm.errors import InputError
from snm.losses.theta import Vector
from snm.theory.generalization import Complexity

__all__ = [
    "ClassComplexity",
    "expected_norm",
    "linear_closed_form",
    "linear_complexity",
    "two_layer_ascent",
    "two_layer_complexity",
]

Matrix = Any  # scipy.sparse CSR, or ndarray [n, d]
_MAX_EIGENVALUES = 1500  # size of the largest Gram matrix to decompose; takes about a second
_HIDDEN = 16  # units of the two-layer class in the ascent


@dataclass(frozen=True)
class ClassComplexity:
    """Complexities of a class on a sample, with lower and upper bounds.

    Attributes:
      below: Lower bounds (up to the standard error of estimates).
      above: Upper bounds.
      estimate: Exact or estimated values; generalization bounds use these.
      standard_error: Standard errors of `estimate.gaussian` and `estimate.gaussian_completion`; 0
        for an exact value.
    """

    below: Complexity
    above: Complexity
    estimate: Complexity
    standard_error: tuple[float, float]


def expected_norm(eigenvalues: npt.ArrayLike) -> float:
    r"""E||z|| of a Gaussian vector z with mean 0 and a covariance of the given eigenvalues.

    .. math::
      E \sqrt Q = \frac 1 {2 \sqrt\pi} \int_0^\infty (1 - E e^{-tQ}) t^{-3/2} dt, \quad
      E e^{-tQ} = \prod_i (1 + 2 t \lambda_i)^{-1/2}

    Args:
      eigenvalues: [r], non-negative.

    Returns:
      The expectation, exact to about 1e-12 relative.

    Example:
      >>> round(expected_norm([1.0]), 12) == round((2 / np.pi) ** 0.5, 12)
      True
    """
    values = np.asarray(eigenvalues, np.float64)
    total = float(values.sum())
    if (values < 0).any():
        raise InputError("eigenvalues", f"{values.min()}", "numbers >= 0")
    if total == 0:
        return 0.0
    # With t = e^u the integrand is smooth and decays like exp(-|u| / 2), so the trapezoidal rule
    # converges to rounding error.
    u = np.linspace(-80, 80, 2401)
    shares = values[values > 0] / total
    logs = np.zeros(u.size)
    for start in range(0, shares.size, 256):
        logs += np.log1p(2 * np.exp(u)[:, None] * shares[None, start : start + 256]).sum(axis=1)
    integrand = -np.expm1(-logs / 2) * np.exp(-u / 2)
    return float(math.sqrt(total) * integrand.sum() * (u[1] - u[0]) / (2 * math.sqrt(math.pi)))


def linear_complexity(
    features: Matrix,
    labels: Matrix,
    *,
    radius: float = 1.0,
    draws: int = 16,
    seed: int = 0,
) -> ClassComplexity:
    """Complexities of the linear class on a sample.

    Args:
      features: [n, d], CSR or dense.
      labels: CSR [n, K] without empty rows. If an example has several labels, each draw takes one
        of them at random, as the paper does to make multilabel data single-label.
      radius: Lambda.
      draws: Number of draws of the multipliers, for the estimates.
      seed: Seed of the draws.

    Returns:
      Bounds, estimates and standard errors. The time is that of `draws` products with the features.

    References:
      Reddi et al. (2019), section 4 for the definitions; the module docstring derives the closed
      forms.
    """
    x, y = _check_sample(features, labels)
    n, num_labels = y.shape
    rng = np.random.default_rng(seed)
    squares = _squares(x)
    max_norm = math.sqrt(float(squares.max()))

    # Expected squared norms of X^T g, in total and for the examples of each label.
    upper = float(np.sqrt(_by_label(y, squares)).sum())
    whole = math.sqrt(float(squares.sum()))
    worst = max_norm * math.sqrt(n)
    lower_factor = math.sqrt(2 / math.pi)
    exact = _exact_norm(x)
    sample_norms, completion_norms = [], []
    for _ in range(draws):
        g = rng.standard_normal(n)
        chosen = _draw_labels(y, rng)
        parts = sparse.csr_array((g, (chosen, np.arange(n))), shape=(num_labels, n)) @ x
        sample_norms.append(float(np.sqrt(_squares(parts)).sum()))
        if exact is None:
            completion_norms.append(float(np.linalg.norm(x.T @ g)))
    if exact is not None:
        mean_norm, error = exact, 0.0
    else:
        mean_norm, error = float(np.mean(completion_norms)), _error(completion_norms)
    scale = radius / n
    return ClassComplexity(
        below=Complexity(
            # With random labels only the mean square is known, which gives no lower bound.
            scale * lower_factor * upper if (np.diff(y.indptr) == 1).all() else 0.0,
            scale * lower_factor * whole,
            scale * worst / math.sqrt(2),
        ),
        above=Complexity(scale * upper, scale * whole, scale * worst),
        estimate=Complexity(scale * float(np.mean(sample_norms)), scale * mean_norm, scale * worst),
        standard_error=(scale * _error(sample_norms), scale * error),
    )


def linear_closed_form(
    squares: npt.ArrayLike,
    labels: Matrix,
    *,
    radius: float = 1.0,
    gram: npt.NDArray[np.float64] | None = None,
) -> Complexity:
    """The upper bounds of `linear_complexity`, from sums that can be streamed.

    Args:
      squares: [n], squared Euclidean norms of the examples.
      labels: CSR [n, K], as in `linear_complexity`.
      radius: Lambda.
      gram: X^T X, float64 [d, d]; makes the Gaussian complexity of the completion exact.

    Returns:
      Upper bounds; with `gram` the second value is exact.
    """
    lengths, y = np.asarray(squares, np.float64), sparse.csr_array(labels)
    n = len(lengths)
    if not n or y.shape[0] != n or (np.diff(y.indptr) == 0).any():
        expected = "as many rows of labels as lengths, each with a label"
        raise InputError("sample", f"{n} lengths, labels {y.shape}", expected)
    whole = math.sqrt(float(lengths.sum()))
    if gram is not None:
        whole = expected_norm(np.maximum(np.linalg.eigvalsh(gram), 0))
    return Complexity(
        radius / n * float(np.sqrt(_by_label(y, lengths)).sum()),
        radius / n * whole,
        radius * math.sqrt(float(lengths.max()) / n),
    )


def two_layer_complexity(
    features: Matrix,
    labels: Matrix,
    *,
    draws: int = 4,
    steps: int = 60,
) -> ClassComplexity:
    """Complexities of the two-layer class h_y(x) = <a_y, relu(W x)> with s = w = 1 on a sample.

    Those for other s and w are s w times as large. The upper bounds are twice those of the linear
    class. The lower value of G_S comes from gradient ascent over W for drawn multipliers; it finds
    a local maximum, so the true value may be higher. The other two have no lower estimate.
    `estimate` holds the upper bounds.

    Args:
      features: [n, d], CSR or dense.
      labels: CSR [n, K], as in `linear_complexity`.
      draws: Number of draws of the multipliers.
      steps: Number of steps of each ascent.

    Returns:
      Bounds; `standard_error` is that of the mean over the ascents.
    """
    linear = linear_complexity(features, labels, draws=draws)
    x, y = _check_sample(features, labels)
    n, num_labels = y.shape
    rng = np.random.default_rng(1)
    suprema = []
    for _ in range(draws):
        chosen = _draw_labels(y, rng)
        multipliers = sparse.csr_array(
            (rng.standard_normal(n), (np.arange(n), chosen)), shape=(n, num_labels)
        )
        best = two_layer_ascent(x, multipliers, hidden=_HIDDEN, steps=steps, rng=rng)
        suprema.append(best / n)
    bound = linear.above
    above = Complexity(
        2 * bound.gaussian, 2 * bound.gaussian_completion, 2 * bound.rademacher_completion
    )
    below = float(np.mean(suprema))
    return ClassComplexity(
        below=Complexity(below, 0.0, 0.0),
        above=above,
        estimate=above,
        standard_error=(_error(suprema), 0.0),
    )


def two_layer_ascent(
    features: Matrix,
    multipliers: Matrix,
    *,
    hidden: int,
    steps: int,
    rng: np.random.Generator,
) -> float:
    r"""A local maximum over ||W||_F = 1 of the supremum over the outer layer.

    .. math:: \sup_{\|a_y\| \le 1} \sum_{i,y} g_{iy} \langle a_y, relu(W x_i) \rangle
      = \sum_y \Big\| \sum_i g_{iy} relu(W x_i) \Big\|

    Args:
      features: [n, d].
      multipliers: g, [n, K], CSR or dense.
      hidden: Number of rows of W.
      steps: Number of normalized gradient steps; their length decreases linearly to 0.
      rng: Generator for the initial W.

    Returns:
      The largest value over all steps.
    """
    w = rng.standard_normal((hidden, features.shape[1]))
    w /= np.linalg.norm(w)
    best = 0.0
    for step in range(steps):
        inner = np.asarray(features @ w.T)
        units = np.maximum(inner, 0)
        sums = np.asarray(multipliers.T @ units)
        lengths = np.linalg.norm(sums, axis=1)
        best = max(best, float(lengths.sum()))
        directions = sums / np.maximum(lengths, 1e-300)[:, None]
        slope = np.asarray(features.T @ (np.asarray(multipliers @ directions) * (inner > 0))).T
        size = np.linalg.norm(slope)
        if size == 0:
            break
        w += (1 - step / steps) * slope / size
        w /= np.linalg.norm(w)
    return best


def _check_sample(features: Matrix, labels: Matrix) -> tuple[Matrix, Matrix]:
    x = features if isinstance(features, np.ndarray) else sparse.csr_array(features)
    y = sparse.csr_array(labels)
    if x.shape[0] != y.shape[0] or not x.shape[0]:
        found = f"{x.shape[0]} rows of features, {y.shape[0]} of labels"
        raise InputError("sample", found, "equal numbers of rows, at least one")
    if (np.diff(y.indptr) == 0).any():
        raise InputError("sample", "an example without a label", "at least one label each")
    return x.astype(np.float64), y


def _by_label(y: Matrix, values: Vector) -> Vector:
    """The sum over the examples of each label, float64 [K]; one with m labels has 1/m in each."""
    counts = np.diff(y.indptr)
    share = sparse.csr_array((np.repeat(1 / counts, counts), y.indices, y.indptr), y.shape)
    return np.asarray(share.T @ values)


def _squares(x: Matrix) -> Vector:
    """Squared Euclidean norms of the rows."""
    if isinstance(x, np.ndarray):
        return np.einsum("ij,ij->i", x, x)
    return np.asarray(x.multiply(x).sum(axis=1), np.float64).ravel()


def _draw_labels(y: Matrix, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """One label of each row, drawn uniformly from the row's labels."""
    counts = np.diff(y.indptr)
    return y.indices[y.indptr[:-1] + np.floor(rng.random(len(counts)) * counts).astype(np.int64)]


def _exact_norm(x: Matrix) -> float | None:
    """E||X^T g||; None if the Gram matrix is too large."""
    if min(x.shape) > _MAX_EIGENVALUES:
        return None
    gram = x.T @ x if x.shape[1] <= x.shape[0] else x @ x.T
    dense = gram if isinstance(gram, np.ndarray) else gram.toarray()
    return expected_norm(np.maximum(np.linalg.eigvalsh(dense), 0))


def _error(values: list[float]) -> float:
    """Standard error of a mean; 0 for a single value."""
    return float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0

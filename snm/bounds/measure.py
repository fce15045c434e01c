r"""Measures margins and embeddings of a trained run, and evaluates generalization bounds on them.

The function class is that of the model's head with a fixed encoder: h_y(x) = <w_y, z(x)>, where z
is the scaled embedding that the run has learned and ||w_y|| is at most the length of the longest
class row. The encoder, that length and the margins of the default grid come from the trained model,
and are treated as if they had been fixed before its training points were seen. The class of all
encoders is larger, so a bound that is vacuous here is vacuous for the whole model as well.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from snm.data.csr import rows_of_entries
from snm.data.dataset import Points
from snm.errors import InputError
from snm.head.spec import HeadSpec
from snm.losses.sampled.ordered import Bowl
from snm.losses.sampled.ranks import RankWeights
from snm.losses.surrogates import SURROGATES
from snm.losses.theta import Vector, theta_norms
from snm.prediction.fitted_model import make_blocks
from snm.prediction.predictor import Predictor
from snm.prediction.programs import jitted_queries, jitted_top
from snm.sampling.samplers import SAMPLERS
from snm.tables.rounding import as_float
from snm.theory.complexity import linear_closed_form
from snm.theory.constants import lemma_7
from snm.theory.generalization import (
    GAUSSIAN_FACTOR,
    Bound,
    Complexity,
    examples_needed,
    theorem_5,
    theorem_6,
)
from snm.theory.retrieval import margin_risk

__all__ = ["bounds_of_run", "measure_margins", "sampled_vartheta"]

_MARGINS = 8  # margins in the default grid: the largest possible margin, halved 1 to 8 times
_MAX_GRAM_SIZE = 1500  # columns; the eigenvalues of such a matrix take about a second
_QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


@dataclasses.dataclass(frozen=True, eq=False)
class Sample:
    """Margins and moments of n points that have labels.

    Attributes:
      margins: float64 [pairs], one for each label of each point.
      weights: float64 [pairs], 1 / number of labels of the point, which is the expectation over a
        label drawn at random.
      labels: CSR [n, K].
      squares: float64 [n], the squared lengths of the scaled embeddings.
      sums: float64 [dim], the sum of the embeddings.
      gram: float64 [dim, dim], the sum of the outer products of the embeddings.
    """

    margins: Vector
    weights: Vector
    labels: csr_matrix
    squares: Vector
    sums: Vector
    gram: npt.NDArray[np.float64]


def measure_margins(
    predictor: Predictor,
    points: Points,
    k: int,
    *,
    max_points: int | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Sample:
    """Computes the margins of points over all labels, exactly, and moments of their embeddings.

    Args:
      predictor: the model.
      points: features and labels; points without labels are ignored, filters are not applied.
      k: the k of the retrieval loss, from 1 to K - 1.
      max_points: if more points have labels, so many are drawn at random (seed 0); None for all.
      on_progress: called with the number of points done.

    Returns:
      Margins and moments.

    Raises:
      InputError: k is out of range, no point has a label, or another number of features.
    """
    model, state = predictor.model, predictor.state
    num_labels = model.spec.num_labels
    if not 1 <= k < num_labels:
        raise InputError("--k", str(k), f"1 to {num_labels - 1} of {num_labels} labels")
    kept = np.flatnonzero(np.diff(points.labels.indptr))
    if not len(kept):
        raise InputError("points", "none with a label", "at least one")
    if max_points is not None and max_points < len(kept):
        kept = np.sort(np.random.default_rng(0).choice(kept, max_points, replace=False))
    features = predictor.as_rows(csr_matrix(points.features[kept]))
    labels = csr_matrix(points.labels[kept])
    table = np.asarray(as_float(state.head.table.rows))
    bias = None if state.head.bias is None else np.asarray(state.head.bias, np.float64)
    embed, search = jitted_queries(model, None), jitted_top(model, k + 1, None)
    width = table.shape[1]
    gram, sums, squares = np.zeros((width, width)), np.zeros(width), np.empty(len(kept))
    margins, first = [], 0
    for count, block in make_blocks(predictor, None).split(features):
        rows = slice(first, first + count)
        queries = embed(state, block)
        best = search(state, block, queries)
        z = np.asarray(queries, np.float64)[:count]
        gram += z.T @ z
        sums += z.sum(axis=0)
        squares[rows] = np.einsum("ij,ij->i", z, z)
        row_labels = labels[rows]
        owner = rows_of_entries(row_labels.indptr)
        own = _scores(z, table, bias, owner, row_labels.indices)
        ids, scores = np.asarray(best.slots)[:count], np.asarray(best.scores)[:count]
        margins.append(_margins(ids, scores.astype(np.float64), owner, row_labels.indices, own, k))
        first += count
        if on_progress:
            on_progress(first)
    counts = np.diff(labels.indptr)
    return Sample(
        np.concatenate(margins), np.repeat(1 / counts, counts), labels, squares, sums, gram
    )


def _scores(z: Vector, table: Any, bias: Any, owner: Any, label: Any) -> Vector:
    """The score of each (point, label) pair, in pieces that fit in the CPU cache."""
    out = np.empty(len(owner))
    for start in range(0, len(owner), 8192):
        part = slice(start, start + 8192)
        out[part] = np.einsum("ij,ij->i", z[owner[part]], table[label[part]].astype(np.float64))
    return out if bias is None else out + bias[label]


def _margins(ids: Any, scores: Vector, owner: Any, label: Any, own: Vector, k: int) -> Vector:
    """The margin of each (point, label) pair, given the top k + 1 labels of each point.

    Ranks are found by comparing ids, not scores: `own` and `scores` are summed in different orders,
    so equal scores may differ by rounding.
    """
    hit = ids[owner] == label[:, None]
    rank = np.where(hit.any(axis=1), hit.argmax(axis=1), k + 1)
    own = np.where(rank <= k, scores[owner, np.minimum(rank, k)], own)
    # The k-th highest score of the other labels.
    kth = np.where(rank < k, scores[owner, k], scores[owner, k - 1])
    return np.where(rank < k, own - kth, np.minimum(own - kth, 0.0))


def sampled_vartheta(ranks: RankWeights) -> Vector:
    """The rank weights of all B sampled labels in the loss of a run, float64 [B]."""
    weights = ranks.all_weights()
    return np.maximum.accumulate(weights[::-1])[::-1]


def bounds_of_run(
    predictor: Predictor,
    train: Sample,
    test: Sample | None,
    *,
    k: int,
    delta: float,
    rhos: tuple[float, ...] = (),
    sampler: str = "uniform",
    positive_weights: str = "mean",
) -> dict[str, Any]:
    """Evaluates Theorems 6 and 5 for a run, with all their terms.

    Args:
      predictor: the model.
      train: margins and moments of its training points, or of a random part of them: the sample
        of the theorems, with n its size.
      test: the same for test points, used only for the test risk; or None.
      k: of the retrieval loss.
      delta: the failure probability for all margins together; each gets an equal part.
      rhos: the margins; by default a grid.
      sampler: how the run draws labels, a name of `SAMPLERS`; Lemma 2, and so Theorem 5, holds for
        uniform sampling.
      positive_weights: whether the loss of a point is the mean or the sum over its positives.

    Returns:
      The content of `snm bounds --json`.

    Raises:
      InputError: delta or a margin is out of range.
    """
    if not 0 < delta < 1:
        raise InputError("--delta", str(delta), "a probability between 0 and 1")
    if any(not (math.isfinite(rho) and rho > 0) for rho in rhos):
        raise InputError("--rho", str(min(rhos)), "margins above 0")
    spec, n = predictor.model.spec, len(train.squares)
    complexity, radius, longest = _complexity(predictor, train)
    max_score = radius * longest
    # A collapsed model scores all labels alike: its bounds are vacuous at any margin.
    scale = max_score or 1.0
    grid = tuple(sorted(rhos)) or tuple(2 * scale / 2**i for i in range(_MARGINS, 0, -1))
    delta_each = delta / len(grid)
    rows = []
    for rho in grid:
        bound = theorem_6(
            train.margins, rho, complexity, n, spec.num_labels, delta_each, train.weights
        )
        rows.append(
            {
                "rho": rho,
                "empirical": bound.empirical,
                **_terms(bound.bound),
                "unit_factors": bound.unit_factors,
                "proved": bound.proved,
                "points_needed": _needed(bound.empirical, bound.bound.proved, n, 1.0),
            }
        )
    return {
        "k": k,
        "delta": delta,
        "points": n,
        "num_labels": spec.num_labels,
        "class": {
            "what": "linear in the learned embedding, the encoder held fixed",
            "radius": radius,
            "longest_embedding": longest,
            "largest_score": max_score,
        },
        "complexity": dataclasses.asdict(complexity),
        "margin_quantiles": _margin_quantiles(train),
        "train_risk": float(margin_risk(train.margins, 0.0, train.weights)),
        "test_risk": None if test is None else float(margin_risk(test.margins, 0.0, test.weights)),
        "theorem_6": rows,
        "theorem_5": _theorem_5(spec, complexity, n, delta, max_score, sampler, positive_weights),
    }


def _margin_quantiles(sample: Sample) -> dict[str, float]:
    order = np.argsort(sample.margins)
    below = np.cumsum(sample.weights[order]) / sample.weights.sum()
    places = np.minimum(np.searchsorted(below, _QUANTILES), len(order) - 1)
    quantiles = sample.margins[order[places]]
    return {f"{q:g}": float(value) for q, value in zip(_QUANTILES, quantiles, strict=True)}


def _complexity(predictor: Predictor, train: Sample) -> tuple[Complexity, float, float]:
    """The complexities, and the lengths of the longest class row and embedding."""
    head = predictor.state.head
    radius = _max_norm(np.asarray(as_float(head.table.rows)))
    squares, gram = train.squares, train.gram
    longest = math.sqrt(float(squares.max()))
    if head.bias is not None and (max_bias := float(np.abs(np.asarray(head.bias)).max())):
        # Append bias / t to each row and t to each embedding, with the t that minimizes
        # (radius^2 + bias^2 / t^2)(longest^2 + t^2).
        t = math.sqrt(max_bias * max(longest, 1e-30) / max(radius, 1e-30))
        radius, longest = math.hypot(radius, max_bias / t), math.hypot(longest, t)
        squares = squares + t * t
        corner = np.array([[len(squares) * t * t]])
        gram = np.block([[gram, t * train.sums[:, None]], [t * train.sums[None, :], corner]])
    complexity = linear_closed_form(
        squares, train.labels, radius=radius, gram=gram if len(gram) <= _MAX_GRAM_SIZE else None
    )
    return complexity, radius, longest


def _max_norm(rows: npt.NDArray[np.float32]) -> float:
    """The largest norm of a row, in blocks because the table may fill most of the memory."""
    starts = range(0, len(rows), 65_536)
    blocks = (rows[start : start + 65_536].astype(np.float64) for start in starts)
    return math.sqrt(max(float(np.einsum("ij,ij->i", b, b).max()) for b in blocks))


def _terms(bound: Bound) -> dict[str, float]:
    return {
        "gaussian": bound.gaussian,
        "gaussian_proved": GAUSSIAN_FACTOR * bound.gaussian,
        "rademacher": bound.rademacher,
        "confidence": bound.confidence,
    }


def _theorem_5(
    spec: HeadSpec,
    complexity: Complexity,
    n: int,
    delta: float,
    max_score: float,
    sampler: str,
    positive_weights: str,
) -> dict[str, Any]:
    """The bound on the generalization error of the trained loss, or why it does not apply."""
    loss = spec.head_loss
    if not isinstance(loss, Bowl):  # POWL and RankSVM are subclasses of it
        return {"why_not": f"the loss is {loss.name}, and the theorem is on POWL and BOWL"}
    if not SAMPLERS[sampler].uniform:
        return {"why_not": f"labels were drawn by the {sampler} sampler, and theta is for uniform"}
    if not spec.one_positive and positive_weights == "sum":
        several = "a point's loss is a sum over its labels, and the theorem is on one label a point"
        return {"why_not": several}
    phi = spec.options.phi
    entry = SURROGATES[phi]
    if entry.constants is None:
        unknown = f"the Lipschitz constant of phi {phi} is not known"
        return {"why_not": f"{unknown}: add it to its entry of snm.losses.surrogates.SURROGATES"}
    l1, l2 = theta_norms(sampled_vartheta(loss.ranks), spec.sampled, spec.num_labels)
    kind: Any = "powl" if loss.pairwise else "bowl"
    lowest = -2 * max_score if kind == "powl" else -max_score
    options = entry.options_in(spec.options)
    slope = entry.constants.slope(lowest, **options)
    constants = lemma_7(kind, l1, l2, slope, entry.constants.largest(lowest, **options))
    bound = theorem_5(constants, complexity, n, spec.num_labels, delta)
    if not math.isfinite(constants.largest + bound.proved + bound.rademacher):
        return {"why_not": f"with scores up to {max_score:.3g}, phi {phi} is beyond float64"}
    note = (
        "the loss leaves known labels out of the negatives, but theta counts all other labels as "
        "negatives"
    )
    return {
        "loss": kind,
        "phi": phi,
        **({"note": note} if spec.excludes_known else {}),
        "theta_l1": l1,
        "theta_l2": l2,
        "lipschitz": slope,
        "range": constants.largest,
        **_terms(bound),
        "unit_factors": bound.unit_factors,
        "proved": bound.proved,
        # The generalization error never exceeds the range of the loss.
        "points_needed": _needed(0.0, bound.proved, n, constants.largest),
    }


def _needed(empirical: float, rest: float, n: int, target: float) -> float | None:
    """As `examples_needed`, but None instead of infinity, which JSON does not have."""
    points = examples_needed(empirical, rest, n, target)
    return points if math.isfinite(points) else None

"""PD-Sparse: weights and dual variables that are both sparse (Yen et al., 2016).

Faithful: the max-margin loss over pairs of a wrong and a right label, the elastic net, the dual and
its block-coordinate Frank-Wolfe steps, which keep an active set of labels for each point and step
on all of it (Algorithm 1 with the bound |x_i|^2 of the curvature). As in the released program: a
constant feature, as many labels enter at a visit as points have on average, and a held-out tenth of
the points ends the training, by the share of a point's labels among as many answers. Both matter:
the loss asks that all right labels come before all wrong ones, which many data cannot fulfil, and
its minimum ranks far worse than the first epochs. Not so: the search for the most violating labels
is exact over dense rows, where the authors sample features or hash sparse rows; the weights of the
best epoch are kept, without training on after it without the L1 norm. Training needs 4 bytes for
each pair of a feature and a label, and a visit of a point reads all labels, so this form is for
small sets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, vstack

from experiments.references.protocol import best_scores, shrunk, with_constant

__all__ = ["PDSparse", "nearest_feasible"]

_VALUES = 1 << 22  # of a block of features, shrunk at once
_POINTS = 256  # held-out points ranked at once


@dataclass
class PDSparse:
    r"""Minimizes $\frac12\|W\|^2 + \lambda\|W\|_1 + C\sum_i \max(0, 1 + z_{in} - z_{ip})$.

    z_i are the scores of point i, n its wrong label of the highest score, and p its right label of
    the lowest.

    Attributes:
      penalty: lambda, of the absolute values of the weights.
      C: weight of the losses.
      epochs: visits of each point at most, in random order.
      entering: wrong labels that become active at a visit; 0 is the labels of a point on average.
      held_out: share of the points that ends the training; 0 trains for all epochs.
      patience: epochs without a better result on these, after which training ends.
      seed: of the orders and of the held-out points.
      threads: unused; one visit needs the result of the last.
    """

    penalty: float = 0.1
    C: float = 1.0
    epochs: int = 20
    entering: int = 0
    held_out: float = 0.1
    patience: int = 3
    seed: int = 0
    threads: int = 1

    def fit(self, X: csr_matrix, Y: csr_matrix) -> Self:
        """See `Reference`."""
        rng = np.random.default_rng(self.seed)
        X, (order, held) = with_constant(X), _parts(X.shape[0], self.held_out, rng)
        aside, answers = X[held], Y[held]
        X, Y = X[order], Y[order]
        entering = self.entering or max(1, round(Y.nnz / Y.shape[0]))
        best, since = -1.0, 0
        before = np.zeros((X.shape[1], Y.shape[1]), np.float32)  # X' alpha
        curvature = np.asarray(X.multiply(X).sum(axis=1), np.float32).ravel()
        labels = np.diff(Y.indptr)
        (usable,) = np.nonzero((curvature > 0) & (labels > 0) & (labels < Y.shape[1]))
        right = {i: Y.indices[Y.indptr[i] : Y.indptr[i + 1]] for i in usable.tolist()}
        active = {i: (of, np.zeros(len(of), np.float32)) for i, of in right.items()}
        self.duals, self.right = active, right
        for _ in range(self.epochs):
            for i in rng.permutation(usable).tolist():
                entries = slice(X.indptr[i], X.indptr[i + 1])
                features, values = X.indices[entries], X.data[entries]
                scores = values @ shrunk(before[features], self.penalty)
                ids, alpha = active[i]
                count = len(right[i])
                ids, alpha = _with_most_violating(scores, ids, alpha, entering)
                slope = scores[ids]
                slope[count:] += 1
                wanted = alpha - slope / curvature[i]
                new = nearest_feasible(wanted, count, self.C)
                (moved,) = np.nonzero(new != alpha)
                before[np.ix_(features, ids[moved])] += np.outer(values, (new - alpha)[moved])
                keep = new != 0
                keep[:count] = True
                active[i] = ids[keep], new[keep]
            if len(held):
                w = _weights(before, self.penalty)
                share = _right_share(aside, w, answers)
                since += 1
                if share > best:
                    best, since, self.w = share, 0, w
                if since == self.patience:
                    break
        if not len(held):
            self.w = _weights(before, self.penalty)
        return self

    def predict(self, X: csr_matrix, k: int) -> NDArray[np.int64]:
        """See `Reference`."""
        points, labels = with_constant(X), self.w.shape[1]
        return best_scores(points, k, labels, lambda block: (block @ self.w).toarray())

    def dual(self) -> float:
        """The negative of the dual objective, which training lowers; a bound of the primal one."""
        wrong = sum(
            float(alpha[len(self.right[i]) :].sum()) for i, (_, alpha) in self.duals.items()
        )
        return 0.5 * float(np.sum(np.square(self.w.data, dtype=np.float64))) + wrong


def _parts(
    points: int, held_out: float, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The points to train on, and those that are held out; both in the order of the data."""
    chosen = rng.permutation(points) < round(held_out * points)
    return np.flatnonzero(~chosen), np.flatnonzero(chosen)


def _right_share(X: csr_matrix, w: csr_matrix, Y: csr_matrix) -> float:
    """The mean share of right ones among as many best labels as a point has; of points with any."""
    shares = []
    for first in range(0, X.shape[0], _POINTS):
        some = slice(first, first + _POINTS)
        scores, answers = (X[some] @ w).toarray(), Y[some].toarray() > 0
        places = np.argsort(np.argsort(-scores, axis=1, kind="stable"), axis=1)
        counts = answers.sum(axis=1)
        right = ((places < counts[:, None]) & answers).sum(axis=1)
        shares.append(right[counts > 0] / counts[counts > 0])
    return float(np.mean(np.concatenate(shares)))


def _with_most_violating(
    scores: NDArray[np.float32], ids: NDArray[np.int32], alpha: NDArray[np.float32], entering: int
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Adds labels that are not active, those of the highest scores. `scores` keeps its values."""
    active = scores[ids]
    scores[ids] = -np.inf
    added = min(entering, len(scores) - len(ids))
    best = np.argpartition(-scores, added - 1)[:added].astype(ids.dtype)
    scores[ids] = active
    return np.append(ids, best), np.append(alpha, np.zeros(added, np.float32))


def nearest_feasible(wanted: NDArray[np.float32], count: int, C: float) -> NDArray[np.float32]:
    """The nearest dual variables of a point: float32 [a].

    Args:
      wanted: float32 [a]; the first `count` of right labels, the others of wrong ones.
      count: at least 1, less than a.
      C: most that the first may add up to. They are at least 0; the others are at most 0 and add
        up to the negative of that.
    """
    right, wrong = wanted[:count], -wanted[count:]
    # Both are cut at a level, a - t and b + t, of which the sums are equal; or at C each.
    level = _crossing(right, wrong)
    if np.maximum(right - level, 0).sum() > C:
        found = _on_simplex(right, C), _on_simplex(wrong, C)
    else:
        found = np.maximum(right - level, 0), np.maximum(wrong + level, 0)
    return np.concatenate([found[0], -found[1]]).astype(np.float32)


def _crossing(right: NDArray[np.float32], wrong: NDArray[np.float32]) -> float:
    """The t at which the sums of (right - t)+ and (wrong + t)+ are equal."""
    ends = np.sort(np.concatenate([right, -wrong]))
    over = np.maximum(right - ends[:, None], 0).sum(axis=1)
    under = np.maximum(wrong + ends[:, None], 0).sum(axis=1)
    difference = over - under
    last = int(np.searchsorted(-difference, 0, side="right")) - 1  # the last that is at least 0
    if difference[last] == 0 or last + 1 == len(ends):
        return ends[last]
    share = difference[last] / (difference[last] - difference[last + 1])
    return ends[last] + share * (ends[last + 1] - ends[last])


def _on_simplex(values: NDArray[np.float32], total: float) -> NDArray[np.float32]:
    """The nearest values that are at least 0 and add up to `total` (Duchi et al., 2008)."""
    falling = np.sort(values)[::-1]
    levels = (np.cumsum(falling) - total) / np.arange(1, len(values) + 1)
    return np.maximum(values - levels[np.flatnonzero(falling > levels)[-1]], 0)


def _weights(before: NDArray[np.float32], penalty: float) -> csr_matrix:
    """The shrunk values that are not 0, CSR [d + 1, K]."""
    rows = max(1, _VALUES // before.shape[1])
    blocks = [
        csr_matrix(shrunk(before[first : first + rows], penalty))
        for first in range(0, before.shape[0], rows)
    ]
    return vstack(blocks, format="csr")

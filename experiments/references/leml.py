"""LEML: low-rank least squares by alternating solves (Yu, Jain, Kar and Dhillon, 2014).

Faithful: the objective with the squared loss on all labels, and its two alternating solves: the
class rows in closed form, the features' rows by conjugate gradients. Not so: the paper also has
other losses and unknown labels, which these data do not need. The conjugate gradients run on the
eigenvectors of the rows' Gram matrix, which splits the solve into one for each dimension.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_matrix

from experiments.references.protocol import best_scores

__all__ = ["Leml", "class_rows", "feature_rows"]


@dataclass
class Leml:
    """Scores are x W H'.

    Attributes:
      rank: columns of W and H, at most d.
      penalty: lambda, of the squares of both, halved.
      rounds: times that both are solved for.
      cg_steps: conjugate gradients of each solve for W, which starts at the last W.
      seed: of the random W at the start.
      threads: unused; the products take what BLAS takes.
    """

    rank: int = 200
    penalty: float = 1.0
    rounds: int = 10
    cg_steps: int = 20
    seed: int = 0
    threads: int = 1

    def fit(self, X: csr_matrix, Y: csr_matrix) -> Self:
        """See `Reference`."""
        rank = min(self.rank, X.shape[1])
        rng = np.random.default_rng(self.seed)
        w = rng.standard_normal((X.shape[1], rank), np.float32) / np.float32(np.sqrt(rank))
        transposed, by_label = X.T.tocsr(), Y.T.tocsr()
        for _ in range(self.rounds):
            h = class_rows(X @ w, by_label, self.penalty)
            w = feature_rows(X, transposed, Y @ h, h.T @ h, self.penalty, w, self.cg_steps)
        self.w, self.h = w, class_rows(X @ w, by_label, self.penalty)
        return self

    def predict(self, X: csr_matrix, k: int) -> NDArray[np.int64]:
        """See `Reference`."""
        return best_scores(X, k, len(self.h), lambda block: (block @ self.w) @ self.h.T)

    def objective(self, X: csr_matrix, Y: csr_matrix) -> float:
        r"""$\frac12\|Y - XWH^\top\|^2 + \frac\lambda2(\|W\|^2 + \|H\|^2)$, without forming XWH'."""
        a = (X @ self.w).astype(np.float64)
        inner = np.sum((Y @ self.h) * a)
        squares = Y.nnz - 2 * inner + np.sum((a.T @ a) * (self.h.T @ self.h))
        penalties = np.sum(np.square(self.w)) + np.sum(np.square(self.h))
        return float(0.5 * squares + 0.5 * self.penalty * penalties)


def class_rows(a: NDArray[np.float32], by_label: csr_matrix, penalty: float) -> NDArray[np.float32]:
    """The best H [K, r] for A = X W [n, r] and the transposed labels, CSR [K, n]."""
    gram = a.T @ a + np.float32(penalty) * np.eye(a.shape[1], dtype=np.float32)
    return cho_solve(cho_factor(gram), (by_label @ a).T).T


def feature_rows(
    X: csr_matrix,
    transposed: csr_matrix,
    y_h: NDArray[np.float32],
    gram: NDArray[np.float32],
    penalty: float,
    start: NDArray[np.float32],
    steps: int,
) -> NDArray[np.float32]:
    """The best W [d, r] for given H: solves X'X W H'H + lambda W = X'Y H.

    Args:
      X: CSR [n, d].
      transposed: CSR [d, n], of X.
      y_h: Y H, float32 [n, r].
      gram: H'H, float32 [r, r].
      penalty: lambda.
      start: W to begin with, float32 [d, r].
      steps: conjugate gradients.
    """
    sizes, vectors = np.linalg.eigh(gram)  # columns of W times these do not mix
    sizes = np.maximum(sizes, 0)

    def product(v: NDArray[np.float32]) -> NDArray[np.float32]:
        return sizes * (transposed @ (X @ v)) + np.float32(penalty) * v

    found = start @ vectors
    residual = transposed @ (y_h @ vectors) - product(found)
    direction, squares = residual.copy(), np.sum(residual * residual, axis=0)
    for _ in range(steps):
        applied = product(direction)
        curved = np.sum(direction * applied, axis=0)
        rate = np.divide(squares, curved, out=np.zeros_like(squares), where=curved > 0)
        found += rate * direction
        residual -= rate * applied
        before, squares = squares, np.sum(residual * residual, axis=0)
        ratio = np.divide(squares, before, out=np.zeros_like(squares), where=before > 0)
        direction = residual + ratio * direction
    return found @ vectors.T

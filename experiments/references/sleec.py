"""SLEEC: nearest neighbours in local embeddings of the labels (Bhatia et al., 2015).

Faithful: k-means clusters of points; in each, embeddings of low rank that keep the inner products
of near points' label vectors (singular value projection), regressors from features to embeddings
with a penalty of their squares and of the embeddings' absolute values (ADMM), and the labels of the
nearest regressed points; the mean over learners with other clusters. The settings are the defaults
of the released program (15 preserved neighbours, 10 that answer, dimension 50, cost 0.1, which is a
penalty of 5), with clusters of about 6000 points. Not so: 5 learners instead of 10; a projection is
two steps of a subspace iteration that starts at the last one, not an SVD to convergence, and their
number is fixed; the released program also thresholds embeddings and regressors; clusters are
scikit-learn's k-means.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_matrix
from sklearn.cluster import KMeans

from experiments.references.protocol import best_entries, shrunk

__all__ = ["Sleec", "embeddings", "near_labels", "nearest_rows", "regressors"]

_ROWS = 512  # of inner products computed at once
_SUBSPACE_STEPS = 2


@dataclass
class Sleec:
    """An ensemble of local embeddings.

    Attributes:
      dim: dimension of the embeddings.
      learners: clusterings of different seeds.
      points_a_cluster: the number of clusters is n over this, rounded down, at least 1.
      preserved: points whose inner products with a point are kept.
      neighbors: points whose labels are the answer.
      projections: steps of the singular value projection.
      penalty: lambda, of the squares of the regressors.
      sparsity: mu, of the absolute values of the regressed embeddings.
      rho: weight of the split in ADMM.
      admm_steps: steps of ADMM.
      seed: of the clusters and of the starts.
      threads: unused; the products take what BLAS takes.
    """

    dim: int = 50
    learners: int = 5
    points_a_cluster: int = 6000
    preserved: int = 15
    neighbors: int = 10
    projections: int = 100
    penalty: float = 5.0
    sparsity: float = 0.1
    rho: float = 1.0
    admm_steps: int = 10
    seed: int = 0
    threads: int = 1

    def fit(self, X: csr_matrix, Y: csr_matrix) -> Self:
        """See `Reference`."""
        self.parts: list[tuple[KMeans, list[_Part]]] = []
        for learner in range(self.learners):
            seed = self.learners * self.seed + learner
            clusters = KMeans(
                max(1, X.shape[0] // self.points_a_cluster), n_init=1, random_state=seed
            ).fit(X)
            rng = np.random.default_rng(seed)
            of = clusters.labels_
            parts = [
                self._part(X[of == one], Y[of == one], rng) for one in range(clusters.n_clusters)
            ]
            self.parts.append((clusters, parts))
        return self

    def _part(self, X: csr_matrix, Y: csr_matrix, rng: np.random.Generator) -> _Part:
        dim = min(self.dim, X.shape[0])
        near = near_labels(Y, self.preserved)
        z = embeddings(near, dim, self.projections, rng)
        v = regressors(X, z, self.penalty, self.sparsity, self.rho, self.admm_steps)
        return _Part(v, X @ v, Y)

    def predict(self, X: csr_matrix, k: int) -> NDArray[np.int64]:
        """See `Reference`. Only labels of the neighbours are answers."""
        votes = csr_matrix((X.shape[0], self.parts[0][1][0].labels.shape[1]), dtype=np.float32)
        for clusters, parts in self.parts:
            of = clusters.predict(X)
            for one, part in enumerate(parts):
                (rows,) = np.nonzero(of == one)
                count = min(self.neighbors, len(part.points))
                found = nearest_rows(X[rows] @ part.regressors, part.points, count)
                shares = np.full(found.size, 1 / count, np.float32)
                places = np.repeat(rows, count), found.ravel()
                shape = X.shape[0], len(part.points)
                votes += csr_matrix((shares, places), shape=shape) @ part.labels
        return best_entries(votes.tocsr(), k)


class _Part(NamedTuple):
    """One cluster of one learner.

    Attributes:
      regressors: float32 [d, r].
      points: regressed embeddings of its training points, float32 [n, r].
      labels: their labels, CSR [n, K].
    """

    regressors: NDArray[np.float32]
    points: NDArray[np.float32]
    labels: csr_matrix


def near_labels(Y: csr_matrix, count: int) -> csr_matrix:
    """Inner products of label vectors of each point with those of the nearest ones.

    Args:
      Y: labels, CSR [n, K] of ones.
      count: nearest ones of each point, which may be itself.

    Returns:
      float32 CSR [n, n]: symmetric, so a row can have more; a stored 0 is an inner product too.
    """
    count = min(count, Y.shape[0])
    transposed, ids, values = Y.T.tocsr(), [], []
    for first in range(0, Y.shape[0], _ROWS):
        products = (Y[first : first + _ROWS] @ transposed).toarray()
        best = np.argpartition(-products, count - 1, axis=1)[:, :count]
        ids.append(best.ravel())
        values.append(np.take_along_axis(products, best, axis=1).ravel())
    rows, columns = np.repeat(np.arange(Y.shape[0]), count), np.concatenate(ids)
    both = np.concatenate([rows, columns]), np.concatenate([columns, rows])
    pairs, where = np.unique(np.stack(both), axis=1, return_index=True)
    found = np.tile(np.concatenate(values), 2)[where].astype(np.float32)
    return csr_matrix((found, (pairs[0], pairs[1])), shape=(Y.shape[0],) * 2)


def embeddings(
    near: csr_matrix, dim: int, projections: int, rng: np.random.Generator
) -> NDArray[np.float32]:
    """Embeddings Z whose inner products are near to the given ones: float32 [n, dim].

    M = Z Z' takes steps against the gradient of half the squared differences, of length 1, and is
    projected on the positive semi-definite matrices of this rank.

    Args:
      near: inner products to keep, symmetric float32 CSR [n, n]; other pairs are free.
      dim: rank.
      projections: steps.
      rng: draws the subspace at the start.
    """
    rows = np.repeat(np.arange(near.shape[0]), np.diff(near.indptr))
    missing = near.copy()
    basis = np.linalg.qr(rng.standard_normal((near.shape[0], dim), np.float32))[0]
    z = np.zeros_like(basis)
    for _ in range(projections):
        kept = np.concatenate(
            [
                np.einsum("ij,ij->i", z[rows[some]], z[near.indices[some]])
                for some in np.array_split(np.arange(near.nnz), near.nnz // (1 << 18) + 1)
            ]
        )
        missing.data = near.data - kept

        def stepped(u: NDArray[np.float32], z: NDArray[np.float32] = z) -> NDArray[np.float32]:
            return z @ (z.T @ u) + missing @ u

        for _ in range(_SUBSPACE_STEPS):
            basis = np.linalg.qr(stepped(basis))[0]
        sizes, vectors = np.linalg.eigh(basis.T @ stepped(basis))
        z = basis @ (vectors * np.sqrt(np.maximum(sizes, 0)))
    return z


def regressors(
    X: csr_matrix, z: NDArray[np.float32], penalty: float, sparsity: float, rho: float, steps: int
) -> NDArray[np.float32]:
    r"""Minimizes $\|Z - XV\|^2 + \lambda\|V\|^2 + \mu\|XV\|_1$ by ADMM: float32 [d, r].

    Args:
      X: CSR [n, d].
      z: embeddings, float32 [n, r].
      penalty: lambda.
      sparsity: mu.
      rho: weight of the split of XV.
      steps: of ADMM.
    """
    solved = _ridge(X, penalty / (1 + rho))
    split, dual = np.zeros_like(z), np.zeros_like(z)
    for _ in range(steps):
        v = solved((z + rho * (split - dual)) / (1 + rho))
        regressed = X @ v
        moved = regressed + dual
        split = shrunk(moved, sparsity / (2 * rho))
        dual = moved - split
    return v


def _ridge(X: csr_matrix, penalty: float) -> Callable[[NDArray[np.float32]], NDArray[np.float32]]:
    """Solves for the V [d, r] that minimizes |T - XV|^2 + penalty |V|^2, given T [n, r]."""
    by_feature = X.shape[1] <= X.shape[0]  # else in the space of the points
    gram = ((X.T @ X) if by_feature else (X @ X.T)).toarray()
    gram[np.diag_indices_from(gram)] += np.float32(penalty)
    factor, transposed = cho_factor(gram, overwrite_a=True), X.T.tocsr()
    if by_feature:
        return lambda target: cho_solve(factor, transposed @ target)
    return lambda target: transposed @ cho_solve(factor, target)


def nearest_rows(
    queries: NDArray[np.float32], points: NDArray[np.float32], count: int
) -> NDArray[np.int64]:
    """The `count` points [n, r] of the smallest distance to each query [m, r]: int64 [m, count]."""
    halves = 0.5 * np.einsum("ij,ij->i", points, points)
    found = np.empty((len(queries), count), np.int64)
    for first in range(0, len(queries), _ROWS):
        closeness = queries[first : first + _ROWS] @ points.T - halves
        found[first : first + _ROWS] = np.argpartition(-closeness, count - 1, axis=1)[:, :count]
    return found

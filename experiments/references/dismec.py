"""DiSMEC: one linear SVM for each label, with pruned weights (Babbar and Schölkopf, 2017).

Faithful: the objective, with the squared hinge, C = 1 and a constant feature as in the authors'
example (`-s 2 -B 1`); the solver, liblinear's trust region, with its default tolerance; the pruning
of weights below 0.01. Not so: threads take the place of many machines, and the features are snm's
TF-IDF. Each label copies the features into liblinear, which the authors' program does once.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, vstack
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from experiments.references.protocol import NEVER, best_scores, of_all_labels, with_constant

__all__ = ["Dismec"]


@dataclass
class Dismec:
    """One-vs-rest L2-regularized L2-loss SVMs.

    Attributes:
      C: weight of the losses against half the squared length of the weights.
      pruned: weights of a smaller absolute value become 0 (Delta of the paper).
      tolerance: of liblinear.
      threads: labels solved at once.
      seed: unused; nothing is random.
    """

    C: float = 1.0
    pruned: float = 0.01
    tolerance: float = 0.01
    threads: int = 1
    seed: int = 0

    def fit(self, X: csr_matrix, Y: csr_matrix) -> Self:
        """See `Reference`."""
        x, by_label = X.astype(np.float64), Y.tocsc()
        points = np.diff(by_label.indptr)
        known = np.flatnonzero((points > 0) & (points < Y.shape[0]))

        def solved(label: int) -> csr_matrix:
            has = np.zeros(Y.shape[0])
            has[by_label.indices[by_label.indptr[label] : by_label.indptr[label + 1]]] = 1
            svm = LinearSVC(dual=False, C=self.C, tol=self.tolerance).fit(x, has)
            weights = np.append(svm.coef_, svm.intercept_)
            return csr_matrix(np.where(np.abs(weights) < self.pruned, 0, weights), dtype=np.float32)

        # Threads of the BLAS under liblinear would wait for each other at each short vector.
        with threadpool_limits(1), ThreadPoolExecutor(self.threads) as pool:
            rows = list(pool.map(solved, known))
        empty = csr_matrix((0, X.shape[1] + 1), dtype=np.float32)
        self.weights = vstack([empty, *rows]).T.tocsr()  # [d + 1, known labels]
        self.known, self.always, self.num_labels = known, points == Y.shape[0], Y.shape[1]
        return self

    def predict(self, X: csr_matrix, k: int) -> NDArray[np.int64]:
        """See `Reference`. Labels of all training points come first, those of none last."""

        def scores_of(block: csr_matrix) -> NDArray[np.float32]:
            found = (block @ self.weights).toarray()
            scores = of_all_labels(found, self.known, self.num_labels)
            scores[:, self.always] = -NEVER
            return scores

        return best_scores(with_constant(X), k, self.num_labels, scores_of)

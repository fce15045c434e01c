"""PPD-Sparse: an elastic-net SVM for each label, by its dual's active set (Yen et al., 2017).

Faithful: the objective of a label, with the squared hinge and a constant feature that the L1 norm
leaves out, as in the authors' program; its dual, solved by randomized coordinate descent on an
active set of points: all of the label's own and as many others, then up to as many again of those
that violate the margin most, until none does by 0.1; points whose dual variable is 0 leave. Not so:
the labels of a block are solved side by side, and visit the points in one order, where the authors
have a process for each label; 10 visits between two searches instead of 20.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, vstack

from experiments.references.protocol import best_scores, of_all_labels, shrunk, with_constant

__all__ = ["PPDSparse"]

_WEIGHTS = 1 << 28  # of a block of labels, in float32
_SEARCHED = 256  # labels searched at once


@dataclass
class PPDSparse:
    r"""Minimizes $\frac12|w|^2 + \lambda|w|_1 + C\sum_i \max(0, 1 - y_i w x_i)^2$ for each label.

    Attributes:
      penalty: lambda, of the absolute values of the weights, but for that of the constant.
      C: weight of the losses.
      visits: of each active point between two searches.
      searches: at most.
      tolerance: a point that falls short of its margin by less is not added.
      seed: of the orders and of the points at the start.
      threads: unused.
    """

    penalty: float = 0.01
    C: float = 1.0
    visits: int = 10
    searches: int = 30
    tolerance: float = 0.1
    seed: int = 0
    threads: int = 1

    def fit(self, X: csr_matrix, Y: csr_matrix) -> Self:
        """See `Reference`."""
        rng = np.random.default_rng(self.seed)
        x = with_constant(X)
        by_label = Y.T.tocsr()
        self.known, self.num_labels = np.flatnonzero(np.diff(by_label.indptr)), Y.shape[1]
        block = max(1, _WEIGHTS // x.shape[1])
        rows = [
            self._block(x, by_label[self.known[first : first + block]], rng)
            for first in range(0, len(self.known), block)
        ]
        self.weights = vstack([csr_matrix((0, x.shape[1]), dtype=np.float32), *rows]).T.tocsr()
        return self

    def _block(self, x: csr_matrix, own: csr_matrix, rng: np.random.Generator) -> csr_matrix:
        """The weights of some labels, CSR [b, d + 1], whose points are `own`, CSR [b, n]."""
        v = np.zeros((x.shape[1], own.shape[0]), np.float32)  # sums of y alpha x
        left = np.arange(own.shape[0])  # labels that are not done
        pairs = _at_the_start(own, rng)
        for _ in range(self.searches):
            for _ in range(self.visits):
                self._visit(x, v, pairs, rng)
            pairs = pairs.select((pairs.alpha > 0) | pairs.right)
            added, violated = self._searched(x, v, pairs, left)
            left = left[violated]
            if not len(left):
                break
            pairs = _Pairs.joined(pairs.select(np.isin(pairs.label, left)), added)
        return csr_matrix(self._shrunk(v).T)

    def _visit(
        self, x: csr_matrix, v: NDArray[np.float32], pairs: _Pairs, rng: np.random.Generator
    ) -> None:
        """A step on each dual variable: the minimizer of a bound of the dual objective."""
        signs = np.where(pairs.right, np.float32(1), np.float32(-1))
        ends = np.searchsorted(pairs.point, np.arange(x.shape[0] + 1))
        slack = np.float32(0.5 / self.C)
        for i in rng.permutation(np.unique(pairs.point)).tolist():
            here = slice(ends[i], ends[i + 1])
            entries = slice(x.indptr[i], x.indptr[i + 1])
            values, y, alpha = x.data[entries], signs[here], pairs.alpha[here]
            at = x.indices[entries][:, None], pairs.label[here]
            sums = v[at]
            slopes = y * (values @ self._shrunk(sums)) - 1 + slack * alpha
            new = np.maximum(alpha - slopes / (values @ values + slack), 0)
            v[at] = sums + np.outer(values, y * (new - alpha))
            pairs.alpha[here] = new

    def _searched(
        self, x: csr_matrix, v: NDArray[np.float32], pairs: _Pairs, left: NDArray[np.int64]
    ) -> tuple[_Pairs, NDArray[np.bool_]]:
        """New active points of the labels `left`, and which of these have some."""
        order = np.argsort(pairs.label, kind="stable")
        ends = np.searchsorted(pairs.label[order], np.arange(v.shape[1] + 1))
        points, labels = [], []
        for first in range(0, len(left), _SEARCHED):
            some = left[first : first + _SEARCHED]
            short = (x @ csr_matrix(self._shrunk(v[:, some]))).toarray().T + 1
            for label, by in zip(some.tolist(), short, strict=True):
                active = pairs.point[order[ends[label] : ends[label + 1]]]
                by[active] = -np.inf
                (violating,) = np.nonzero(by > self.tolerance)
                most = min(len(active), max(1, x.shape[0] // 10))
                if len(violating) > most:
                    violating = violating[np.argpartition(-by[violating], most)[:most]]
                points.append(violating)
                labels.append(np.full(len(violating), label))
        found = np.array([len(each) > 0 for each in points], bool)
        added = np.concatenate(points)
        nothing = np.zeros(len(added), np.float32)
        return _Pairs(added, np.concatenate(labels), nothing > 0, nothing), found

    def _shrunk(self, v: NDArray[np.float32]) -> NDArray[np.float32]:
        """The weights of sums: nearer to 0 by the penalty, but for the constant in the last row."""
        found = shrunk(v, self.penalty)
        found[-1] = v[-1]
        return found

    def predict(self, X: csr_matrix, k: int) -> NDArray[np.int64]:
        """See `Reference`. Labels without points come last."""

        def scores_of(block: csr_matrix) -> NDArray[np.float32]:
            found = (block @ self.weights).toarray()
            return of_all_labels(found, self.known, self.num_labels)

        return best_scores(with_constant(X), k, self.num_labels, scores_of)


class _Pairs(NamedTuple):
    """Active pairs of a point and a label, by point; each array [pairs].

    Attributes:
      point: of the pair.
      label: of the pair, within the block.
      right: whether the point has the label.
      alpha: dual variable, 0 or more.
    """

    point: NDArray[np.int64]
    label: NDArray[np.int64]
    right: NDArray[np.bool_]
    alpha: NDArray[np.float32]

    def select(self, chosen: NDArray[np.bool_]) -> _Pairs:
        return _Pairs(*(each[chosen] for each in self))

    @staticmethod
    def joined(*parts: _Pairs) -> _Pairs:
        """All pairs of the parts, by point."""
        every = [np.concatenate(each) for each in zip(*parts, strict=True)]
        order = np.argsort(every[0], kind="stable")
        return _Pairs(*(each[order] for each in every))


def _at_the_start(own: csr_matrix, rng: np.random.Generator) -> _Pairs:
    """The points of each label, and as many random ones of the others."""
    parts = []
    for label in range(own.shape[0]):
        has = own.indices[own.indptr[label] : own.indptr[label + 1]].astype(np.int64)
        others = np.setdiff1d(rng.integers(own.shape[1], size=len(has)), has)
        points = np.concatenate([has, others])
        right = np.arange(len(points)) < len(has)
        parts.append(
            _Pairs(points, np.full(len(points), label), right, np.zeros(len(points), np.float32))
        )
    return _Pairs.joined(*parts)

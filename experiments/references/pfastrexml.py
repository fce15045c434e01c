"""PfastreXML: trees whose nodes rank labels, re-ranked for rare labels (Jain et al., 2016).

FastXML (Prabhu and Varma, 2014) is the same without propensities and without re-ranking.

Faithful: a node alternates between the best ranking of the labels on each of its two sides and the
side that ranks the labels of a point better, from random sides until nothing changes: by nDCG of
all labels in FastXML, by propensity-weighted DCG in PfastreXML, which no point's own ideal divides;
then an L1-regularized logistic separator by liblinear with tolerance 0.01, in which both sides
weigh the same whatever their numbers of points; it sends the points on; a node of at most 10
points, or one that does not split, is a leaf with the 100 labels of the highest means; 50 trees;
a classifier for each label by the distance of a point from the mean of the label's points, which
alpha 0.8 weighs against the trees. These are the defaults of the released program. So is gamma 30
here: that program takes gamma times the square of the distance, of features with a constant of 1
that are scaled to length 1 together, which halves the squares. Not so: a separator takes up to 100
Newton steps, not 10; the features are snm's TF-IDF, also in the classifiers of labels; `table.py`
has a smaller gamma, chosen on held-out points; the propensities are those of snm's PSP@k.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, diags, vstack
from sklearn.svm._liblinear import set_verbosity_wrap, train_wrap

from experiments.references.protocol import best_entries
from snm.evaluation.metrics import propensities

__all__ = ["PfastreXML", "dcg_sides", "l1_separator", "normalized"]

_ROWS = 512  # points predicted at once
_ROUNDS = 100  # of rankings and sides; they change nothing after about ten
_L1_LOGISTIC = 6  # liblinear's number of the L1-regularized logistic regression
_TOLERANCE = 0.01
_NEWTON_STEPS = 100  # at most


@dataclass
class PfastreXML:
    """An ensemble of trees, and a classifier for each label.

    Attributes:
      trees: how many.
      leaf_points: a node of as many points or fewer is a leaf.
      leaf_labels: labels that a leaf keeps.
      C: weight of the separator's losses.
      weighted: whether labels weigh 1 / propensity, in leaves and in DCG instead of nDCG.
      gamma: steepness of the classifiers of labels.
      alpha: share of the trees; 1 leaves the classifiers out.
      seed: of the sides at the start.
      threads: unused.
    """

    trees: int = 50
    leaf_points: int = 10
    leaf_labels: int = 100
    C: float = 1.0
    weighted: bool = True
    gamma: float = 30.0
    alpha: float = 0.8
    seed: int = 0
    threads: int = 1

    def fit(self, X: csr_matrix, Y: csr_matrix) -> Self:
        """See `Reference`."""
        frequency = np.bincount(Y.indices, minlength=Y.shape[1])
        gains = Y.astype(np.float64)
        if self.weighted:
            gains = (gains @ diags(1 / propensities(frequency, Y.shape[0]))).tocsr()
        self.num_labels = Y.shape[1]
        self.grown = [
            self._tree(X.astype(np.float64), gains, np.random.default_rng([self.seed, number]))
            for number in range(self.trees)
        ]
        means = diags(1 / np.maximum(frequency, 1)) @ (Y.T @ X)
        self.means = means.T.tocsr().astype(np.float32)  # [d, K]
        return self

    def _tree(self, X: csr_matrix, gains: csr_matrix, rng: np.random.Generator) -> _Tree:
        ranked = gains if self.weighted else normalized(gains)
        nodes: list[_Node] = []
        leaves: list[csr_matrix] = []
        waiting = [(np.arange(X.shape[0]), -1, 0)]  # points, and where the number of the node goes
        while waiting:
            points, parent, side = waiting.pop()
            found = None
            if len(points) > self.leaf_points:
                found = self._separator(X[points], ranked[points], rng)
            if found is None:
                number = -1 - len(leaves)
                leaves.append(_most(gains[points], self.leaf_labels))
            else:
                number, (node, right) = len(nodes), found
                nodes.append(node)
                waiting.append((points[right], number, 1))
                waiting.append((points[~right], number, 0))
            if parent >= 0:
                nodes[parent].children[side] = number
        return _Tree(nodes, vstack(leaves, format="csr"))

    def _separator(
        self, X: csr_matrix, ranked: csr_matrix, rng: np.random.Generator
    ) -> tuple[_Node, NDArray[np.bool_]] | None:
        """A separator and the points on its right side, or None if it leaves all on one side."""
        right = dcg_sides(ranked, rng.random(X.shape[0]) < 0.5)
        if right.all() or not right.any():
            return None
        columns, places = np.unique(X.indices, return_inverse=True)
        own = csr_matrix((X.data, places.astype(np.int32), X.indptr), (X.shape[0], len(columns)))
        weights, constant = l1_separator(own, right, self.C)
        chosen = own @ weights + constant >= 0
        if chosen.all() or not chosen.any():
            return None
        (kept,) = np.nonzero(weights)
        node = _Node(columns[kept], weights[kept], constant, [0, 0])
        return node, chosen

    def predict(self, X: csr_matrix, k: int) -> NDArray[np.int64]:
        """See `Reference`. Only labels of the leaves are answers."""
        leaves = [tree.leaves_of(X) for tree in self.grown]
        found = np.empty((X.shape[0], k), np.int64)
        for first in range(0, X.shape[0], _ROWS):
            some = slice(first, first + _ROWS)
            votes = csr_matrix((len(leaves[0][some]), self.num_labels))
            for tree, at in zip(self.grown, leaves, strict=True):
                votes += tree.leaves[at[some]]
            votes.data /= len(self.grown)
            if self.alpha < 1:
                votes.data = self.alpha * np.log(votes.data) + (1 - self.alpha) * self.closeness(
                    X[some], votes
                )
            found[some] = best_entries(votes, k)
        return found

    def closeness(self, X: csr_matrix, pairs: csr_matrix) -> NDArray[np.float64]:
        r"""$-\log(1 + \exp(\frac\gamma2 |x - \mu_j|^2))$ of stored pairs of a point and a label."""
        squares = np.asarray(X.multiply(X).sum(axis=1)).ravel()
        lengths = np.asarray(self.means.multiply(self.means).sum(axis=0)).ravel()
        rows = np.repeat(np.arange(X.shape[0]), np.diff(pairs.indptr))
        inner = (X @ self.means).toarray()[rows, pairs.indices]
        distances = squares[rows] + lengths[pairs.indices] - 2 * inner
        return -np.logaddexp(0, 0.5 * self.gamma * np.maximum(distances, 0))


class _Node(NamedTuple):
    """A separator: points of a score of 0 or more go to the second child.

    Attributes:
      columns: features with a weight.
      weights: of these.
      constant: added to the score.
      children: numbers of nodes, or -1 - number of a leaf.
    """

    columns: NDArray[np.int64]
    weights: NDArray[np.float64]
    constant: float
    children: list[int]


class _Tree(NamedTuple):
    """The nodes, of which the first is the root, and the labels of the leaves, CSR [leaves, K]."""

    nodes: list[_Node]
    leaves: csr_matrix

    def leaves_of(self, X: csr_matrix) -> NDArray[np.int64]:
        """The leaf of each point: int64 [m]."""
        found = np.zeros(X.shape[0], np.int64)
        weights = np.zeros(X.shape[1])
        waiting = [(np.arange(X.shape[0]), 0)] if self.nodes else []
        while waiting:
            points, number = waiting.pop()
            node = self.nodes[number]
            weights[node.columns] = node.weights
            right = X[points] @ weights + node.constant >= 0
            weights[node.columns] = 0
            for child, at in zip(node.children, (points[~right], points[right]), strict=True):
                if child < 0:
                    found[at] = -1 - child
                elif len(at):
                    waiting.append((at, child))
        return found


def l1_separator(
    X: csr_matrix, right: NDArray[np.bool_], C: float
) -> tuple[NDArray[np.float64], float]:
    """The weights and the constant of scikit-learn's `LogisticRegression` with liblinear and L1.

    Both sides weigh n together. This calls liblinear as that class does, without its checks of
    values, which take nine tenths of the time where a node has few points.

    Args:
      X: float64 CSR [n, d], with 32-bit indices.
      right: sides, bool [n], some of both.
      C: weight of the losses.
    """
    points = len(right)
    of_side = np.array([points / np.sum(~right), points / np.sum(right)])
    seed = np.random.RandomState(0).randint(np.iinfo("i").max)
    set_verbosity_wrap(0)
    found, _ = train_wrap(
        X, right.astype(np.float64), True, _L1_LOGISTIC, _TOLERANCE, 1.0, C, of_side,
        _NEWTON_STEPS, seed, 0.1, np.ones(points),
    )  # fmt: skip
    return found[0, :-1], float(found[0, -1])


def normalized(gains: csr_matrix) -> csr_matrix:
    """Gains over the DCG of a perfect ranking, in which all labels of a point have gain 1.

    Args:
      gains: of the labels, CSR [n, K], 0 or more.
    """
    ideal = np.append(0, np.cumsum(_discounts(gains.shape[1])))
    shares = 1 / np.maximum(ideal[np.diff(gains.indptr)], 1e-12)
    return (diags(shares) @ gains).tocsr()


def dcg_sides(gains: csr_matrix, right: NDArray[np.bool_]) -> NDArray[np.bool_]:
    r"""Sides of points, each with a ranking of the labels, of a locally highest sum of DCG.

    The best ranking of a side is by the summed gains of its points; the best side of a point is the
    one whose ranking has more of its gains at the top. Both steps raise the sum, until nothing
    changes.

    Args:
      gains: of the labels, or `normalized` for nDCG; CSR [n, K].
      right: sides at the start, bool [n].

    Returns:
      sides, bool [n].
    """
    labels, place = np.unique(gains.indices, return_inverse=True)
    rows = np.repeat(np.arange(gains.shape[0]), np.diff(gains.indptr))
    discounts = _discounts(len(labels))
    for _ in range(_ROUNDS):
        by_side = []
        for side in (~right, right):
            sums = np.bincount(place, gains.data * side[rows], minlength=len(labels))
            of_label = np.empty(len(labels))
            of_label[np.argsort(-sums, kind="stable")] = discounts
            by_side.append(of_label)
        better = (by_side[1] - by_side[0])[place] * gains.data
        difference = np.bincount(rows, better, minlength=len(right))
        moved = np.where(np.abs(difference) > 1e-12, difference > 0, right)
        if (moved == right).all():
            break
        right = moved
    return right


def _discounts(count: int) -> NDArray[np.float64]:
    return 1 / np.log2(np.arange(count) + 2)


def _most(gains: csr_matrix, count: int) -> csr_matrix:
    """The mean of rows, CSR [1, K], of which the `count` highest are kept."""
    labels, place = np.unique(gains.indices, return_inverse=True)
    means = np.bincount(place, gains.data, minlength=len(labels)) / gains.shape[0]
    best = np.sort(np.argsort(-means, kind="stable")[:count])
    return csr_matrix((means[best], labels[best], [0, len(best)]), (1, gains.shape[1]))
